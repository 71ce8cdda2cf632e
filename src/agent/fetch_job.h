#pragma once

// One order to have layers on this machine's disk: gets the model's catalogue entry and skeleton if
// they are missing, fetches the missing pieces from all sources at once (store/fetch_plan.h decides
// what is asked where), verifies them, and makes the stage's files. What was fetched before it
// failed or was cancelled stays, and the next order goes on from there.
//
// Threads: one of its own, which delivers all events; one per source. The destructor cancels and
// waits: for the network at most a moment, for hashing or making until the next few megabytes.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "agent/weights_source.h"
#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/stop.h"
#include "store/fetch_plan.h"
#include "store/piece_store.h"
#include "wire/cluster.h"

namespace salvage::agent {

struct FetchJobOptions {
  wire::FetchOrder order;
  NodeId self;  // is never asked
  std::string llama_pin;
  std::uint32_t wire_version = wire::kWireVersion;
};

struct FetchJobEvents {
  // A few times a second; the last one says "done" or "failed".
  std::function<void(const wire::FetchProgress&)> progress;
  // Before that "done"; not for spare copies.
  std::function<void(const store::StageFiles&)> files;
  // The store holds other pieces of this model than before.
  std::function<void(const ModelId&)> inventory;
};

class FetchJob {
 public:
  FetchJob(FetchJobOptions options, FetchJobEvents events, store::PieceStore& store,
           transport::Transport& transport, const Clock& clock);
  ~FetchJob();
  FetchJob(const FetchJob&) = delete;
  FetchJob& operator=(const FetchJob&) = delete;

  // Begins the end without waiting.
  void cancel();
  // It has told how it ended; what is left of it goes at once. Any thread.
  bool ended() const { return over_; }

 private:
  struct Failed {
    std::uint64_t request = 0;
    Error error;
  };
  using Event = std::variant<SourceAnswer, Failed>;
  struct Source {
    wire::FetchSource known;
    std::unique_ptr<WeightsSource> link;
  };

  void run();
  Result<void> carry_out();
  Result<void> open_sources();
  Result<void> get_catalogue();
  Result<std::string> get_blob(const std::string& kind, std::uint64_t bytes_max);
  Result<std::string> get_blob_from(Source& source, const std::string& kind,
                                    std::uint64_t bytes_max);
  Result<SourceAnswer> one_answer(Source& source, const wire::BlobRequest& range);
  Result<void> get_and_make();
  Result<void> get_pieces();
  Result<void> fetch_until_ended();
  Result<void> take(Event event);
  Result<void> take_bytes(const SourceAnswer& answer);
  Result<void> apply(store::FetchActions actions);
  Result<void> ask(const store::AskRange& range);
  Result<void> finish(const PieceDigest& piece);
  Result<void> make_files();
  void report(const std::string& phase, bool now);
  void report_end(const Result<void>& done);
  bool cancelled() const { return stop_.stop_requested(); }

  const FetchJobOptions options_;
  const FetchJobEvents events_;
  store::PieceStore& store_;
  transport::Transport& transport_;
  const Clock& clock_;
  const ModelId model_;
  const LayerRange layers_;
  StopSource stop_;
  BoundedQueue<Event> queue_{64};

  // The job's thread only.
  std::map<NodeId, Source> sources_;
  std::optional<store::FetchPlan> plan_;
  std::map<std::uint64_t, store::AskRange> asked_;
  std::map<PieceDigest, std::unique_ptr<store::PieceWriter>> writers_;
  std::optional<Error> last_failure_;
  std::optional<Result<void>> ended_;
  std::uint64_t next_request_ = 1;  // of catalogue blobs; the plan numbers its own
  wire::FetchProgress state_;
  TimePoint last_report_;
  TimePoint last_inventory_{};

  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace salvage::agent
