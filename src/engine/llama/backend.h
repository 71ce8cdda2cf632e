#pragma once

// What libllama has once a process: its start-up and its log. Any number of engines and text tools
// share it.
//
// libllama is quiet here: its warnings and errors are kept (the last few, of all engines of this
// process) so that a failed call can say why. Thread rule: every function from any thread.

#include <string>

#include "base/result.h"

namespace salvage::engine {

// Starts ggml's backends and takes the log over. Cheap when called again; a failure (no kernels for
// this CPU, see cpu_backend.h) stays one.
Result<void> start_backend();

// Forgets what libllama has said so far; call before something that may fail.
void clear_backend_log();

// An Error whose message is `what` and what libllama last complained about, if anything.
Error backend_error(ErrorCode code, const std::string& what);

}  // namespace salvage::engine
