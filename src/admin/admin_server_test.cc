// Goal: commands get answers, errors and endings as they are, whatever other clients do. Method: a
// real socket in a temporary folder with a fake backend behind it; every wait is one of the system.

#include "admin/admin_server.h"

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "admin/admin_client.h"
#include "admin/fake_backend.h"
#include "base/process.h"
#include "base/unix_socket.h"

namespace salvage::admin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Admin : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = RunFolder::create();
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
    start();
  }
  void start() {
    auto started = AdminServer::start(folder_->path(), backend_);
    ASSERT_TRUE(started) << started.error().message();
    server_ = std::move(*started);
  }
  AdminClient client() const { return AdminClient(folder_->path()); }

  // A connection without manners; closed with the test.
  int connect_raw() {
    const auto opened = SocketFolder::open(folder_->path());
    const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    opened->path_of(kAdminSocket).copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    raw_.push_back(descriptor);
    return descriptor;
  }
  static std::string read_all(int descriptor) {
    std::string text;
    char buffer[4096];
    for (ssize_t count = 1; count > 0;) {
      count = ::read(descriptor, buffer, sizeof(buffer));
      if (count > 0) text.append(buffer, static_cast<std::size_t>(count));
    }
    return text;
  }
  void TearDown() override {
    for (const int descriptor : raw_) ::close(descriptor);
  }

  FakeBackend backend_;
  std::optional<RunFolder> folder_;
  std::unique_ptr<AdminServer> server_;
  std::vector<int> raw_;
};

TEST_F(Admin, a_question_is_answered) {
  EXPECT_TRUE(client().running());
  const auto status = client().get("status");
  ASSERT_TRUE(status) << status.error().message();
  EXPECT_THAT(*status, HasSubstr("attic"));
}

TEST_F(Admin, an_order_reaches_the_program) {
  ASSERT_TRUE(client().post("remove", encode_named("node", "pi")));
  EXPECT_THAT(backend_.calls, ElementsAre("remove pi"));
}

TEST_F(Admin, an_error_arrives_as_it_was) {
  backend_.outcome = fail(ErrorCode::kUnsupported, "go to attic");
  for (const auto& answer :
       {client().get("models"), client().post("remove", encode_named("node", "pi"))}) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code(), ErrorCode::kUnsupported);
    EXPECT_EQ(answer.error().message(), "go to attic");
  }
}

TEST_F(Admin, an_answer_comes_in_pieces) {
  std::vector<std::string> lines;
  const auto take = [&](const std::string& line) {
    lines.push_back(line);
    return true;
  };
  const auto done = client().follow("run", R"({"prompt":"x"})", take, {});
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_THAT(lines, ElementsAre(R"({"text":"one "})", R"({"text":"two"})"));
  EXPECT_THAT(*done, HasSubstr("one two"));
}

TEST_F(Admin, an_error_in_the_middle_and_one_before_the_first_line_arrive_too) {
  const auto ignore = [](const std::string&) { return true; };
  const auto refused = client().follow("run", "{}", ignore, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  backend_.outcome = fail(ErrorCode::kUnavailable, "pi is lost");
  const auto broken = client().follow("run", R"({"prompt":"x"})", ignore, {});
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message(), "pi is lost");
}

TEST_F(Admin, a_long_prompt_arrives_whole) {
  const std::string prompt(std::size_t{3} << 20, 'a');
  backend_.words = {prompt};
  const auto done = client().follow("run", R"({"prompt":")" + prompt + R"("})",
                                    [](const std::string&) { return true; }, {});
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(backend_.calls.back().size(), prompt.size() + 4);
}

TEST_F(Admin, a_stop_request_ends_an_answer_that_says_nothing) {
  backend_.endless = true;
  StopSource stop;
  const auto hang_up = [&](const std::string&) {
    stop.request_stop();
    return true;
  };
  const auto done = client().follow("run", R"({"prompt":"x"})", hang_up, stop.get_token());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::kCancelled);
  server_.reset();  // returns only once the work has ended
  EXPECT_TRUE(backend_.ended);
}

TEST_F(Admin, a_client_that_vanishes_ends_its_work) {
  backend_.endless = true;
  const int descriptor = connect_raw();
  const std::string body = R"({"prompt":"x"})";
  const std::string request =
      "POST /api/v1/run HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
      "\r\n\r\n" + body;
  ASSERT_GT(::write(descriptor, request.data(), request.size()), 0);
  char first = 0;
  ASSERT_EQ(::read(descriptor, &first, 1), 1);  // the answer has begun
  ::shutdown(descriptor, SHUT_RDWR);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!backend_.ended && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_TRUE(backend_.ended);
}

TEST_F(Admin, noise_is_refused_and_costs_nobody_else_anything) {
  const int descriptor = connect_raw();
  const std::string noise = "\x16\x03\x01 salvage\r\n\r\n";
  ASSERT_GT(::write(descriptor, noise.data(), noise.size()), 0);
  EXPECT_THAT(read_all(descriptor), HasSubstr("400"));
  EXPECT_TRUE(client().get("status"));
}

TEST_F(Admin, silent_connections_leave_room_until_they_are_too_many) {
  for (std::size_t i = 0; i + 1 < kConnectionsMax; ++i) connect_raw();
  EXPECT_TRUE(client().get("status"));
  // The one above may still be leaving: fill up until the server says so.
  std::string said;
  for (std::size_t i = 0; i < 3 && said.empty(); ++i) {
    const int descriptor = connect_raw();
    if (wait_for_socket(descriptor, SocketWait::kReadable, 500)) said = read_all(descriptor);
  }
  EXPECT_THAT(said, HasSubstr("503"));
  server_.reset();  // doesn't wait for them
}

TEST_F(Admin, without_a_program_the_command_to_run_is_named) {
  server_.reset();
  EXPECT_FALSE(client().running());
  const auto status = client().get("status");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(status.error().message(), HasSubstr("salvage up"));
  const auto elsewhere = AdminClient(folder_->path() + "/no/such/folder").get("status");
  ASSERT_FALSE(elsewhere);
  EXPECT_THAT(elsewhere.error().message(), HasSubstr("no/such/folder"));
}

TEST_F(Admin, two_programs_never_serve_one_folder) {
  const auto second = AdminServer::start(folder_->path(), backend_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), ErrorCode::kUnavailable);
  server_.reset();
  start();
  EXPECT_TRUE(client().running());
}

}  // namespace
}  // namespace salvage::admin
