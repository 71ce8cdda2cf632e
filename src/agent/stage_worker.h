#pragma once

// The stage worker: the process that `salvage stage` runs, one a stage. ggml may abort its process,
// so a stage lives alone and takes nobody with it. Life: listen -> a control connection introduces
// itself -> LoadStage -> load, check, connect to the next stage -> StageLoaded -> serve
// micro-batches until the control connection ends. Whoever holds the control connection owns the
// worker: when it goes, the worker goes.
//
// Threads: one accepts, one per connection while it introduces itself, the caller's reads control
// messages (and answers pings while the stage computes), one loads and computes.

#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "engine/stage_engine.h"
#include "transport/transport.h"

namespace salvage::agent {

struct StageWorkerOptions {
  transport::Endpoint listen;
  std::string auth_token;  // what a peer has to know
  std::string llama_pin;
  std::string kernel_fingerprint;
};

// Serves one coordinator, then returns. Success: it said Shutdown. All references outlive the call.
Result<void> run_stage_worker(const StageWorkerOptions& options, transport::Transport& transport,
                              const engine::StageEngineFactory& make_engine, const Clock& clock);

}  // namespace salvage::agent
