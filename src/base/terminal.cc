#include "base/terminal.h"

#include <initializer_list>

#include <fcntl.h>
#include <unistd.h>

namespace salvage {

bool is_terminal(Stream stream) {
  switch (stream) {
    case Stream::kInput:
      return ::isatty(STDIN_FILENO) == 1;
    case Stream::kOutput:
      return ::isatty(STDOUT_FILENO) == 1;
    case Stream::kError:
      return ::isatty(STDERR_FILENO) == 1;
  }
  return false;
}

void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest free number is this one: those below are taken by now.
    if (::fcntl(stream, F_GETFD) < 0) (void)::open("/dev/null", O_RDWR);
  }
}

}  // namespace salvage
