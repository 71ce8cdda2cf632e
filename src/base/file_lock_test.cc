// Goal: a second holder is kept away by name, and the end of the first frees the lock, however it
// ends. Method: a temporary folder, a child that is killed while it holds the lock.

#include "base/file_lock.h"

#include <csignal>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace salvage {
namespace {

namespace fs = std::filesystem;

class Lock : public ::testing::Test {
 protected:
  Lock() {
    std::string name = (fs::temp_directory_path() / "salvage-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Lock() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(Lock, keeps_a_second_holder_away_and_names_the_first) {
  {
    const auto first = FileLock::take(folder_ / "lock", "up");
    ASSERT_TRUE(first) << first.error().message();
    const auto second = FileLock::take(folder_ / "lock");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), ErrorCode::kUnavailable);
    EXPECT_THAT(second.error().message(), ::testing::HasSubstr("another salvage up (pid " +
                                                               std::to_string(::getpid()) + ")"));
    EXPECT_THAT(second.error().message(), ::testing::HasSubstr(folder_.native()));
  }
  EXPECT_TRUE(FileLock::take(folder_ / "lock"));
}

TEST_F(Lock, moves_with_its_object) {
  auto first = FileLock::take(folder_ / "lock");
  ASSERT_TRUE(first);
  const FileLock moved = std::move(*first);
  EXPECT_FALSE(FileLock::take(folder_ / "lock"));
}

TEST_F(Lock, of_a_process_that_was_killed_is_free) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto lock = FileLock::take(folder_ / "lock");
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_FALSE(FileLock::take(folder_ / "lock"));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(FileLock::take(folder_ / "lock"));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(Lock, survives_a_lock_file_with_anything_in_it) {
  std::ofstream(folder_ / "lock") << "\x1b[31m no number at all";
  const auto first = FileLock::take(folder_ / "lock");
  EXPECT_TRUE(first);
  const auto missing = FileLock::take(folder_ / "nowhere" / "lock");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace salvage
