#include "base/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace salvage {
namespace {

// In a process of its own, which is why it may close its streams.
void close_occupy_and_leave() {
  ::close(STDIN_FILENO);
  ::close(STDOUT_FILENO);
  occupy_closed_streams();
  const int next = ::open("/dev/null", O_RDONLY);
  ::_exit(next > STDERR_FILENO ? 0 : 1);
}

TEST(Terminal, no_file_gets_the_number_of_a_closed_stream) {
  EXPECT_EXIT(close_occupy_and_leave(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace salvage
