// Goal: the local socket is private, replaces a dead one, and is never taken from a living one.
// Method: real sockets in a temporary folder.

#include "base/unix_socket.h"

#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "base/process.h"

namespace salvage {
namespace {

std::filesystem::path folder_of(const RunFolder& run) {
  return run.path();
}

TEST(UnixSocket, nobody_answers_where_nobody_listens) {
  const auto run = RunFolder::create();
  ASSERT_TRUE(run);
  EXPECT_FALSE(socket_answers(folder_of(*run), "a.sock"));
  EXPECT_FALSE(socket_answers(folder_of(*run) / "missing", "a.sock"));
}

TEST(UnixSocket, a_second_listener_is_refused_while_the_first_lives) {
  const auto run = RunFolder::create();
  ASSERT_TRUE(run);
  {
    const auto first = UnixListener::listen(folder_of(*run), "a.sock");
    ASSERT_TRUE(first);
    EXPECT_TRUE(socket_answers(folder_of(*run), "a.sock"));
    const auto second = UnixListener::listen(folder_of(*run), "a.sock");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), ErrorCode::kUnavailable);
  }
  EXPECT_TRUE(UnixListener::listen(folder_of(*run), "a.sock"));
}

TEST(UnixSocket, a_file_that_a_dead_process_left_is_replaced) {
  const auto run = RunFolder::create();
  ASSERT_TRUE(run);
  const auto copy = folder_of(*run) / "left.sock";
  {
    const auto first = UnixListener::listen(folder_of(*run), "a.sock");
    ASSERT_TRUE(first);
    // As after kill -9: the file stays, nobody listens.
    std::filesystem::create_hard_link(folder_of(*run) / "a.sock", copy);
  }
  ASSERT_TRUE(std::filesystem::exists(copy));
  const auto again = UnixListener::listen(folder_of(*run), "left.sock");
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_TRUE(socket_answers(folder_of(*run), "left.sock"));
}

TEST(UnixSocket, the_file_belongs_to_its_user_alone) {
  const auto run = RunFolder::create();
  ASSERT_TRUE(run);
  const auto listener = UnixListener::listen(folder_of(*run), "a.sock");
  ASSERT_TRUE(listener);
  const auto permissions = std::filesystem::status(folder_of(*run) / "a.sock").permissions();
  EXPECT_EQ(permissions, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(UnixSocket, a_folder_may_be_deeper_than_a_sockets_address) {
  const auto run = RunFolder::create();
  ASSERT_TRUE(run);
  const auto deep = folder_of(*run) / std::string(100, 'a') / std::string(100, 'b');
  std::filesystem::create_directories(deep);
  auto listener = UnixListener::listen(deep, "a.sock");
  ASSERT_TRUE(listener) << listener.error().message();
  EXPECT_TRUE(socket_answers(deep, "a.sock"));
}

TEST(UnixSocket, shutdown_wakes_accept) {
  const auto run = RunFolder::create();
  ASSERT_TRUE(run);
  auto listener = UnixListener::listen(folder_of(*run), "a.sock");
  ASSERT_TRUE(listener);
  std::thread accepting([&] { EXPECT_EQ(listener->accept(), -1); });
  listener->shutdown();
  accepting.join();
}

}  // namespace
}  // namespace salvage
