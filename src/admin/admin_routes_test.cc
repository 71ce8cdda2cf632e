// Goal: every request reaches its call, and every answer has the form that clients rely on. Method:
// a fake backend behind the routes.

#include "admin/admin_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "admin/fake_backend.h"

namespace salvage::admin {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

struct Answered {
  int status = 0;
  std::string body;
  std::vector<std::string> lines;
};

Answered ask(FakeBackend& backend, const char* method, const std::string& name,
             const std::string& body = "") {
  const std::string path = std::string(kAdminPrefix) + name;
  const AdminAnswer answer = answer_admin({method, path, body}, backend);
  Answered answered{answer.status, answer.body, {}};
  if (answer.lines) {
    answer.lines(
        [&](const std::string& line) {
          answered.lines.push_back(line);
          return true;
        },
        {});
  }
  return answered;
}

TEST(AdminRoutes, nouns_are_read_with_get) {
  FakeBackend backend;
  for (const char* name : {"status", "cluster", "models", "deployments", "invites"}) {
    const Answered got = ask(backend, "GET", name);
    EXPECT_EQ(got.status, 200) << name;
    EXPECT_TRUE(Json::accept(got.body)) << name;
    EXPECT_EQ(ask(backend, "POST", name, "{}").status, 405) << name;
  }
  EXPECT_THAT(backend.calls, ElementsAre("status", "cluster", "models", "deployments", "invites"));
}

TEST(AdminRoutes, verbs_reach_their_call) {
  FakeBackend backend;
  EXPECT_EQ(ask(backend, "POST", "remove", R"({"node":"pi"})").status, 200);
  EXPECT_EQ(ask(backend, "POST", "revoke-invite", R"({"id":"77"})").status, 200);
  EXPECT_EQ(ask(backend, "POST", "unload", R"({"model":"m"})").status, 200);
  EXPECT_EQ(ask(backend, "POST", "remove-model", R"({"model":"m"})").status, 200);
  EXPECT_EQ(ask(backend, "POST", "leave", R"({"forget":true})").status, 200);
  EXPECT_EQ(ask(backend, "POST", "rename", R"({"node":"pi","name":"po"})").body,
            R"({"name":"po"})");
  EXPECT_EQ(ask(backend, "POST", "cancel", R"({"id":"run_7"})").body,
            R"({"id":"run_7-whole","object":"request","cancelled":true})");
  EXPECT_THAT(backend.calls, ElementsAre("remove pi", "revoke 77", "unload m", "rm m",
                                         "leave and forget", "rename pi", "cancel run_7"));
}

TEST(AdminRoutes, an_unknown_path_is_not_found) {
  FakeBackend backend;
  EXPECT_EQ(ask(backend, "GET", "nothing").status, 404);
  EXPECT_EQ(answer_admin({"GET", "/", ""}, backend).status, 404);
  EXPECT_EQ(answer_admin({"GET", "/api/v2/status", ""}, backend).status, 404);
  EXPECT_TRUE(backend.calls.empty());
}

TEST(AdminRoutes, a_wrong_body_is_refused_before_anything_happens) {
  FakeBackend backend;
  for (const char* name : {"invite", "revoke-invite", "rename", "remove", "leave", "load", "unload",
                           "remove-model", "verify", "gc", "run", "cancel"}) {
    const Answered got = ask(backend, "POST", name, R"({"unknown":1})");
    EXPECT_EQ(got.status, 400) << name;
    EXPECT_TRUE(got.lines.empty()) << name;
    EXPECT_EQ(Json::parse(got.body)["error"]["code"], "invalid_argument") << name;
  }
  EXPECT_TRUE(backend.calls.empty());
}

TEST(AdminRoutes, a_failure_has_code_message_and_status) {
  FakeBackend backend;
  backend.outcome = fail(ErrorCode::kUnsupported, "go to attic");
  const Answered got = ask(backend, "GET", "models");
  EXPECT_EQ(got.status, 501);
  EXPECT_EQ(got.body, R"({"error":{"code":"unsupported","message":"go to attic"}})");
}

TEST(AdminRoutes, an_answer_comes_in_pieces_and_ends_with_done) {
  FakeBackend backend;
  const Answered got = ask(backend, "POST", "run", R"({"prompt":"hello"})");
  ASSERT_EQ(got.lines.size(), 3U);
  EXPECT_EQ(got.lines[0], R"({"text":"one "})");
  EXPECT_EQ(got.lines[1], R"({"text":"two"})");
  EXPECT_EQ(Json::parse(got.lines[2])["done"]["text"], "one two");
}

TEST(AdminRoutes, a_failure_in_the_middle_is_the_last_line) {
  FakeBackend backend;
  backend.outcome = fail(ErrorCode::kUnavailable, "node pi is lost");
  const Answered got = ask(backend, "POST", "run", R"({"prompt":"hello"})");
  EXPECT_EQ(got.status, 200);
  EXPECT_THAT(got.lines.back(), HasSubstr("node pi is lost"));
  EXPECT_EQ(got.lines.size(), 3U);
}

TEST(AdminRoutes, loading_reports_on_its_way) {
  FakeBackend backend;
  const Answered got = ask(backend, "POST", "load", R"({"path":"/a.gguf","split":[1,2]})");
  ASSERT_EQ(got.lines.size(), 2U);
  EXPECT_EQ(Json::parse(got.lines[0])["progress"]["fraction"], 0.5);
  EXPECT_TRUE(Json::parse(got.lines[1]).contains("done"));
  EXPECT_THAT(backend.load_request.split, ElementsAre(1U, 2U));
}

TEST(AdminRoutes, damage_is_told_by_name) {
  FakeBackend backend;
  const Answered got = ask(backend, "POST", "verify", R"({"model":"m"})");
  EXPECT_EQ(Json::parse(got.lines.back())["done"]["damaged"][0]["piece"], "layer 7");
}

}  // namespace
}  // namespace salvage::admin
