#pragma once

// The stage worker: the process that `salvage stage` runs, one a stage. ggml may abort its process,
// so a stage lives alone and takes nobody with it. Life: listen -> a control connection introduces
// itself -> LoadStage -> load, check, connect to the next stage -> StageLoaded -> serve
// micro-batches until the control connection ends. Whoever holds the control connection owns the
// worker: when it goes, the worker goes.
//
// Between machines the data link is let in by its certificate: it must be the one node that the
// load order names. A control link always comes from this machine.
//
// Threads: those of the door (pipeline/door.h); the caller's reads control messages (and answers
// pings while the stage computes), one loads and computes.

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/stage_engine.h"
#include "transport/transport.h"
#include "wire/frame.h"

namespace salvage::agent {

struct StageWorkerOptions {
  transport::Endpoint listen;  // for this machine
  // Where the stage before is on another machine: TLS endpoints, of which the first free one is
  // used.
  std::vector<transport::Endpoint> listen_remote;
  std::string auth_token;  // what a peer has to know
  std::string llama_pin;
  std::string kernel_fingerprint;
  std::uint32_t wire_version = wire::kWireVersion;  // the highest to speak
};

// Serves one coordinator, then returns. Success: it said Shutdown. All references outlive the call.
Result<void> run_stage_worker(const StageWorkerOptions& options, transport::Transport& transport,
                              const engine::StageEngineFactory& make_engine, const Clock& clock);

}  // namespace salvage::agent
