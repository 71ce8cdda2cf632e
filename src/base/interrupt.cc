#include "base/interrupt.h"

#include <csignal>
#include <thread>

#include <unistd.h>

namespace salvage {

StopSource install_interrupt() {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  // Blocked here and in every later thread, so that only the thread below sees them.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  StopSource source;
  std::thread([source, signals]() mutable {
    int signal = 0;
    sigwait(&signals, &signal);
    source.request_stop();
    sigwait(&signals, &signal);
    ::_exit(kExitInterrupted);  // Children go with us (base/process.h).
  }).detach();
  return source;
}

}  // namespace salvage
