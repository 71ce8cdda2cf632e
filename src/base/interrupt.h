#pragma once

// Ctrl-C and SIGTERM as a stop request instead of a sudden death: the first one asks the program to
// end in order, the second one ends it at once. Install once, first thing in main(), before any
// thread starts.

#include "base/stop.h"

namespace salvage {

// The returned source is stopped by the first SIGINT, SIGTERM or SIGHUP. SIGPIPE is ignored: a
// closed output is an error of write(), not of the program.
StopSource install_interrupt();

// Exit code of a program that was interrupted, by convention.
inline constexpr int kExitInterrupted = 130;

}  // namespace salvage
