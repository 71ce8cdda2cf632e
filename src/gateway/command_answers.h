#pragma once

// What a command asks (`salvage run`), answered by a ready pipeline. To the ledger it is a request
// like those of the API: it stands in the lists, the sums and the log, and who runs the cluster can
// end it.
//
// Threads: any number of calls at once, each blocks until its answer ends. What is passed in
// outlives the object.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "base/stop.h"
#include "coordinator/coordinator.h"
#include "metrics/request_ledger.h"
#include "pipeline/generation.h"

namespace salvage::gateway {

class CommandAnswers {
 public:
  struct Parts {
    // As coordinator::Coordinator::ready().
    std::function<Result<coordinator::ReadyPipeline>(const std::string& model)> ready;
    std::function<std::int64_t()> wall_ms;  // Unix time
  };
  CommandAnswers(Parts parts, metrics::RequestLedger& ledger, const Clock& clock)
      : parts_(std::move(parts)), ledger_(ledger), clock_(clock) {}

  // `show` gets whole characters; false ends the answer. `cancelled`: by `stop`, whoever asked has
  // gone; or by the ledger, then the message says so.
  Result<coordinator::RunOutcome> answer(const coordinator::RunWish& wish,
                                         const std::function<bool(std::string_view)>& show,
                                         const StopToken& stop) const;

 private:
  Error refused(metrics::RequestFacts facts, Error error, TimePoint begun) const;

  const Parts parts_;
  metrics::RequestLedger& ledger_;
  const Clock& clock_;
};

}  // namespace salvage::gateway
