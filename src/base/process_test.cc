// Goal: children end with their parent, their end is told in words, and what killed processes leave
// behind is cleared away. Method: real processes, a shell or a fork of this one; every wait is
// bounded.

#include "base/process.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/environment.h"

namespace salvage {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::EndsWith;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kPatience = seconds(20);  // for what takes milliseconds on an idle machine

Result<Child> shell(const std::string& script, const std::string& secret = "secret") {
  ::signal(SIGPIPE, SIG_IGN);  // as main() does: a child may end before it is spoken to
  return Child::spawn({.arguments = {"/bin/sh", "-c", script}, .secret_line = secret});
}

std::string end_of(Child& child) {
  const auto status = child.wait_for(kPatience);
  return status ? status->text() : "it still runs";
}

TEST(Child, tells_its_exit_code) {
  auto child = shell("exit 3");
  ASSERT_TRUE(child) << child.error().message();
  EXPECT_EQ(end_of(*child), "exit code 3");
}

TEST(Child, tells_the_signal_that_killed_it) {
  auto child = shell("kill -9 $$");
  ASSERT_TRUE(child) << child.error().message();
  EXPECT_EQ(end_of(*child), "killed by signal 9 (Killed)");
}

TEST(Child, that_cannot_be_started_ends_with_127) {
  ::signal(SIGPIPE, SIG_IGN);  // as main() does: the child may be gone before its secret is sent
  auto child = Child::spawn({.arguments = {"/nonexistent/program"}, .secret_line = "x"});
  ASSERT_TRUE(child) << child.error().message();
  EXPECT_EQ(end_of(*child), "exit code 127");
}

TEST(Child, gets_its_secret_on_standard_input_and_not_in_its_arguments) {
  auto child =
      shell("read line; echo got-$line >&2; tr '\\0' ' ' </proc/$$/cmdline >&2", "hidden-7");
  ASSERT_TRUE(child) << child.error().message();
  EXPECT_EQ(end_of(*child), "exit code 0");
  const std::string words = child->last_words();
  EXPECT_THAT(words, HasSubstr("got-hidden-7"));
  EXPECT_EQ(words.find("hidden-7"), words.rfind("hidden-7")) << "it is an argument, too";
}

TEST(Child, keeps_its_last_words) {
  auto child = shell("echo first >&2; echo 'GGML_ASSERT(x) failed' >&2; exit 1");
  ASSERT_TRUE(child) << child.error().message();
  EXPECT_EQ(end_of(*child), "exit code 1");
  EXPECT_THAT(child->last_words(), EndsWith("GGML_ASSERT(x) failed\n"));
}

TEST(Child, may_talk_more_than_is_kept) {
  auto child = shell("i=0; while [ $i -lt 5000 ]; do echo line-$i >&2; i=$((i+1)); done");
  ASSERT_TRUE(child) << child.error().message();
  EXPECT_EQ(end_of(*child), "exit code 0");
  EXPECT_LE(child->last_words().size(), 4096U);
  EXPECT_THAT(child->last_words(), EndsWith("line-4999\n"));
  EXPECT_THAT(child->last_words(), Not(HasSubstr("line-0\n")));
}

TEST(Child, leaves_when_its_lifeline_is_released) {
  auto child = shell("cat >/dev/null");
  ASSERT_TRUE(child) << child.error().message();
  EXPECT_FALSE(child->wait_for(milliseconds(0)));
  child->release();
  EXPECT_EQ(end_of(*child), "exit code 0");
}

TEST(Child, dies_with_the_object) {
  pid_t pid = 0;
  {
    auto child = shell("trap '' TERM HUP INT; while :; do sleep 1; done");
    ASSERT_TRUE(child) << child.error().message();
    pid = child->pid();
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_NE(::kill(pid, 0), 0);  // reaped, so not even a zombie is left
}

// A pipe whose write end only the process under test holds: end of file is its end.
TEST(Child, dies_with_its_parent) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const std::string script = "exec 3>/dev/fd/" + std::to_string(ends[1]) +
                               "; echo up >&3; trap '' TERM HUP INT; while :; do sleep 1; done";
    auto child = shell(script);
    ::close(ends[1]);
    ::pause();
    ::_exit(child ? 0 : 1);
  }
  ::close(ends[1]);
  std::array<char, 3> word{};
  ASSERT_EQ(::read(ends[0], word.data(), word.size()), 3) << "the child has not started";
  ::kill(parent, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0);  // hangs, and runs into the test's limit, if it lives on
  ::close(ends[0]);
}

// Runs `body` in a process whose standard input carries `input`.
template <typename Body>
void with_input(const std::string& input, Body body) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) ::_exit(99);
  if (::write(ends[1], input.data(), input.size()) < 0) ::_exit(99);
  ::close(ends[1]);
  ::dup2(ends[0], STDIN_FILENO);
  body();
}

TEST(SecretLine, is_read_up_to_its_end) {
  EXPECT_EXIT(with_input("abc\nrest",
                         [] {
                           const auto line = read_secret_line();
                           char next = 0;
                           const bool rest = ::read(STDIN_FILENO, &next, 1) == 1 && next == 'r';
                           ::_exit(line && *line == "abc" && rest ? 0 : 1);
                         }),
              ExitedWithCode(0), "");
}

TEST(SecretLine, must_be_there_and_bounded) {
  for (const std::string& input : {std::string(), std::string("abc"), std::string(5000, 'x')}) {
    EXPECT_EXIT(with_input(input, [] { ::_exit(read_secret_line() ? 1 : 0); }), ExitedWithCode(0),
                "");
  }
}

TEST(Lifeline, calls_when_standard_input_ends) {
  EXPECT_EXIT(with_input("",
                         [] {
                           watch_lifeline([] { ::_exit(7); });
                           ::pause();
                         }),
              ExitedWithCode(7), "");
}

TEST(OwnExecutable, is_this_test) {
  const auto path = own_executable();
  ASSERT_TRUE(path) << path.error().message();
  EXPECT_TRUE(std::filesystem::exists(*path));
  EXPECT_THAT(*path, HasSubstr("test"));
}

// Run folders go below XDG_RUNTIME_DIR, which is a folder of the test's own.
class RunFolders : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "salvage-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    parent_ = name;
    before_ = environment("XDG_RUNTIME_DIR").value_or("");
    ::setenv("XDG_RUNTIME_DIR", parent_.c_str(), 1);
  }
  void TearDown() override {
    ::setenv("XDG_RUNTIME_DIR", before_.c_str(), 1);
    std::filesystem::remove_all(parent_);
  }
  void add_socket(const std::filesystem::path& path) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ::close(socket);
  }
  // As a killed process leaves it: nobody holds its lock.
  std::filesystem::path abandoned(const std::string& name) {
    const auto path = parent_ / name;
    std::filesystem::create_directory(path);
    add_socket(path / "stage-0.sock");
    return path;
  }

  std::filesystem::path parent_;
  std::string before_;
};

TEST_F(RunFolders, are_private_and_go_with_what_is_in_them) {
  std::filesystem::path path;
  {
    const auto folder = RunFolder::create();
    ASSERT_TRUE(folder) << folder.error().message();
    path = folder->path();
    EXPECT_EQ(path.parent_path(), parent_);
    EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms::owner_all);
    std::ofstream(path / "file") << "x";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(RunFolders, are_elsewhere_if_their_sockets_would_not_fit) {
  const std::string before = environment("TMPDIR").value_or("");
  const auto deep = parent_ / std::string(100, 'x');
  std::filesystem::create_directory(deep);
  for (const std::string& bad : {deep.string(), std::string("relative"), std::string("/missing")}) {
    ::setenv("XDG_RUNTIME_DIR", bad.c_str(), 1);
    ::setenv("TMPDIR", bad.c_str(), 1);
    const auto folder = RunFolder::create();
    ASSERT_TRUE(folder) << bad << ": " << folder.error().message();
    EXPECT_TRUE(folder->path().starts_with("/tmp/")) << folder->path();
  }
  before.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before.c_str(), 1);
}

TEST_F(RunFolders, of_killed_processes_are_removed_by_the_next) {
  const auto left = abandoned("salvage-run-abcdef");
  const auto folder = RunFolder::create();
  ASSERT_TRUE(folder) << folder.error().message();
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST_F(RunFolders, in_use_stay) {
  const auto first = RunFolder::create();
  ASSERT_TRUE(first) << first.error().message();
  add_socket(first->path() + "/stage-0.sock");
  const auto second = RunFolder::create();
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_NE(first->path(), second->path());
  EXPECT_TRUE(std::filesystem::exists(first->path() + "/stage-0.sock"));
}

TEST_F(RunFolders, that_hold_anything_but_sockets_stay) {
  const auto other = abandoned("salvage-run-backup");
  std::ofstream(other / "letters.txt") << "x";
  const auto elsewhere = abandoned("salvage-thesis");
  const auto folder = RunFolder::create();
  ASSERT_TRUE(folder) << folder.error().message();
  EXPECT_TRUE(std::filesystem::exists(other / "letters.txt"));
  EXPECT_TRUE(std::filesystem::exists(elsewhere / "stage-0.sock"));
}

TEST_F(RunFolders, lose_a_leaving_worker_s_socket_and_themselves_with_the_last) {
  const auto folder = abandoned("salvage-run-abcdef");
  add_socket(folder / "stage-1.sock");
  EXPECT_EXIT(exit_worker((folder / "stage-0.sock").string(), 3), ExitedWithCode(3), "");
  EXPECT_FALSE(std::filesystem::exists(folder / "stage-0.sock"));
  EXPECT_TRUE(std::filesystem::exists(folder / "stage-1.sock"));
  EXPECT_EXIT(exit_worker((folder / "stage-1.sock").string(), 0), ExitedWithCode(0), "");
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace salvage
