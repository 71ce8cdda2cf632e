// Goal: a state of an older version is brought up to date with all it holds, a newer or a foreign
// one is refused and not touched.
// Method: databases are written as text, as they lay on somebody's disk, and then opened.

#include "state/schema.h"

#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include "state/state_db.h"

namespace salvage::state {
namespace {

using ::testing::HasSubstr;

// Version 1, recorded; never to be changed.
constexpr const char* kVersion1 = R"sql(
PRAGMA application_id = 1397511763;
PRAGMA user_version = 1;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE identity (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  key_pem TEXT NOT NULL, certificate_pem TEXT NOT NULL, authority_pem TEXT NOT NULL,
  cluster_id TEXT NOT NULL, coordinator TEXT NOT NULL, name TEXT NOT NULL,
  ephemeral INTEGER NOT NULL);
CREATE TABLE coordinator_addresses (position INTEGER PRIMARY KEY, endpoint TEXT NOT NULL);
CREATE TABLE authority (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  key_pem TEXT NOT NULL, certificate_pem TEXT NOT NULL, cluster_name TEXT NOT NULL);
CREATE TABLE members (
  node TEXT PRIMARY KEY, name TEXT NOT NULL, ephemeral INTEGER NOT NULL,
  has_left INTEGER NOT NULL, facts TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE removed (node TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE invites (
  id TEXT PRIMARY KEY, secret_hash TEXT NOT NULL, label TEXT NOT NULL,
  ephemeral INTEGER NOT NULL, uses_left INTEGER NOT NULL, wrong_tries INTEGER NOT NULL,
  created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE models (model TEXT PRIMARY KEY, name TEXT NOT NULL, entry BLOB NOT NULL);
CREATE TABLE sources (
  model TEXT NOT NULL, path TEXT NOT NULL, PRIMARY KEY (model, path)) WITHOUT ROWID;
CREATE TABLE pieces (
  piece TEXT NOT NULL, place TEXT NOT NULL, model TEXT NOT NULL, bytes INTEGER NOT NULL,
  verified INTEGER NOT NULL, PRIMARY KEY (piece, place)) WITHOUT ROWID;
CREATE TABLE deployments (
  model TEXT PRIMARY KEY, loaded INTEGER NOT NULL, options TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE counters (name TEXT PRIMARY KEY, next INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('written_by', '0.1.0');
INSERT INTO identity VALUES (1, 'key', 'certificate', 'authority', 'cluster', 'c0', 'desktop', 0);
INSERT INTO coordinator_addresses VALUES (0, 'tls:198.18.0.1:7420'), (1, 'tls:[::1]:7420');
INSERT INTO members VALUES ('aa', 'first', 0, 0, '{}'), ('bb', 'desktop', 1, 1, '{"cores":4}');
INSERT INTO removed VALUES ('cc');
INSERT INTO invites VALUES ('i', 'hash', 'for the old imac', 0, 1, 2, 1000, 2000);
INSERT INTO models VALUES ('m', 'tiny', x'00ff');
INSERT INTO sources VALUES ('m', '/models/tiny.gguf');
INSERT INTO pieces VALUES ('p', 'models/m/0-4.gguf', 'm', 4096, 1);
INSERT INTO deployments VALUES ('m', 1, '{"split":[4,4]}');
INSERT INTO counters VALUES ('plan_epoch', 1001);
)sql";

class SchemaTest : public ::testing::Test {
 protected:
  SchemaTest() {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              fmt::format("salvage-schema-{}-{}", ::getpid(), test->name());
    std::filesystem::create_directories(folder_);
  }
  ~SchemaTest() override { std::filesystem::remove_all(folder_); }

  void run(const std::string& sql) {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open((folder_ / "state.db").c_str(), &handle), SQLITE_OK);
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK)
        << (error == nullptr ? "" : error);
    sqlite3_free(error);
    sqlite3_close(handle);
  }
  Result<std::unique_ptr<StateDb>> open() {
    return StateDb::open(folder_, {.program_version = "0.2.0"});
  }

  std::filesystem::path folder_;
};

TEST_F(SchemaTest, version_1_is_migrated_with_all_it_holds) {
  run(kVersion1);
  auto opened = open();
  ASSERT_TRUE(opened) << opened.error().message();
  StateDb& state = **opened;
  const NodeIdentity identity = **state.identity();
  EXPECT_EQ(identity.key_pem, "key");
  EXPECT_EQ(identity.coordinator_addresses.at(1), "tls:[::1]:7420");
  ASSERT_EQ(state.members()->size(), 2);
  EXPECT_EQ(state.members()->at(1),
            (MemberRow{NodeId{"bb"}, "desktop", true, true, "{\"cores\":4}"}));
  EXPECT_EQ(state.removed()->at(0), NodeId{"cc"});
  EXPECT_EQ(state.invites()->at(0).wrong_tries, 2);
  EXPECT_EQ(state.models()->at(0).entry, std::string("\x00\xff", 2));
  EXPECT_EQ(state.sources()->at(0).path, "/models/tiny.gguf");
  EXPECT_EQ(state.pieces()->at(0).bytes, 4096);
  ASSERT_EQ(state.deployments()->size(), 1);
  EXPECT_EQ(state.deployments()->at(0),
            (DeploymentRow{ModelId{"m"}, true, "{\"split\":[4,4]}", ""}));
  EXPECT_EQ(*state.next(Counter::kPlanEpoch), 1001);
  EXPECT_TRUE(state.put_deployment({ModelId{"m"}, true, "{}", "[1]"}));
  EXPECT_TRUE(state.put_api_key("digest"));
}

TEST_F(SchemaTest, a_migrated_state_is_opened_again_as_it_is) {
  run(kVersion1);
  ASSERT_TRUE(open());
  const auto again = open();
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ((*again)->members()->size(), 2);
}

TEST_F(SchemaTest, a_migration_that_fails_changes_nothing) {
  run(kVersion1);
  run("ALTER TABLE deployments ADD COLUMN home TEXT NOT NULL DEFAULT 'x'");  // half done by a hand
  EXPECT_FALSE(open());
  run("ALTER TABLE deployments DROP COLUMN home");
  const auto opened = open();
  ASSERT_TRUE(opened) << "version 1 is still version 1: " << opened.error().message();
}

TEST_F(SchemaTest, a_newer_version_is_refused_by_the_names_of_both) {
  ASSERT_TRUE(open());
  run("PRAGMA user_version = 9; UPDATE meta SET value = '0.9.4' WHERE key = 'written_by'");
  const auto refused = open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnsupported);
  const std::string& said = refused.error().message();
  EXPECT_THAT(said, HasSubstr("version 9"));
  EXPECT_THAT(said, HasSubstr("salvage 0.9.4"));
  EXPECT_THAT(said, HasSubstr("salvage 0.2.0"));
  EXPECT_THAT(said, HasSubstr(fmt::format("up to {}", kSchemaVersion)));
  EXPECT_THAT(said, HasSubstr(folder_.native()));
  run("DROP TABLE meta");
  EXPECT_THAT(open().error().message(), HasSubstr("a newer salvage"));
}

TEST_F(SchemaTest, databases_of_other_programs_are_refused) {
  run("CREATE TABLE notes (text TEXT)");
  const auto refused = open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("another program"));
  run("PRAGMA application_id = 42");
  EXPECT_FALSE(open());
}

TEST_F(SchemaTest, what_is_no_database_is_refused_as_damaged) {
  std::ofstream(folder_ / "state.db") << std::string(10000, 'x');
  const auto refused = open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace salvage::state
