// A state is made by the same steps by which an old one is brought up to date: step i leads from
// version i to i + 1, and version 0 is an empty file. A step is never changed once it has been
// released; schema_test.cc keeps what version 1 looked like on somebody's disk.
//
// Numbers are 64-bit integers, texts are UTF-8 as they came, flags are 0 and 1. Each value that
// only code above understands (facts, options, home, entry) is one column.

#include "state/schema.h"

#include <array>

#include <fmt/format.h>

#include "state/state_db.h"

namespace salvage::state {
namespace {

constexpr std::int64_t kApplicationId = 0x534c5653;  // "SLVS"

constexpr std::array<const char*, kSchemaVersion> kSteps = {
    // 0 -> 1
    R"sql(
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
)sql",
    // 1 -> 2: where a model's layers lay, so that it comes back there; shards that go take their
    // pieces along.
    R"sql(
ALTER TABLE deployments ADD COLUMN home TEXT NOT NULL DEFAULT '';
CREATE INDEX pieces_by_place ON pieces (place);
)sql",
    // 2 -> 3: who may use the API.
    R"sql(
CREATE TABLE api_keys (digest TEXT PRIMARY KEY) WITHOUT ROWID;
)sql",
};

Result<std::string> written_by(Database& database) {
  std::string program;
  RETURN_IF_ERROR(database.query("SELECT value FROM meta WHERE key = 'written_by'",
                                 [&](const Statement& row) { program = row.text(0); }));
  return program;
}

tl::unexpected<Error> too_new(Database& database, std::int64_t version,
                              const std::string& program_version) {
  // The table may be gone from a version that we know nothing of.
  const auto program = written_by(database);
  const std::string by =
      program && !program->empty() ? "salvage " + *program : std::string("a newer salvage");
  return fail(ErrorCode::kUnsupported,
              fmt::format("the state has version {} and was written by {}; this is salvage {}, "
                          "which knows versions up to {}; upgrade this machine",
                          version, by, program_version, kSchemaVersion));
}

Result<void> check_ours(Database& database) {
  ASSIGN_OR_RETURN(const std::int64_t application, database.pragma("application_id"));
  if (application == kApplicationId) return {};
  std::int64_t tables = 0;
  RETURN_IF_ERROR(database.query("SELECT count(*) FROM sqlite_master",
                                 [&](const Statement& row) { tables = row.number(0); }));
  if (application == 0 && tables == 0) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      "the file state.db there belongs to another program; give another folder with --data");
}

}  // namespace

Result<void> migrate(Database& database, const std::string& program_version) {
  RETURN_IF_ERROR(check_ours(database));
  ASSIGN_OR_RETURN(const std::int64_t version, database.pragma("user_version"));
  if (version > kSchemaVersion) return too_new(database, version, program_version);
  if (version < 0) return fail(ErrorCode::kCorrupt, "the state has no valid version");
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::begin(database));
  for (auto step = static_cast<std::size_t>(version); step < kSteps.size(); ++step) {
    RETURN_IF_ERROR(database.run(kSteps[step]));
  }
  RETURN_IF_ERROR(database.run(fmt::format("PRAGMA user_version = {}", kSchemaVersion).c_str()));
  RETURN_IF_ERROR(database.run(fmt::format("PRAGMA application_id = {}", kApplicationId).c_str()));
  RETURN_IF_ERROR(
      database.execute("INSERT OR REPLACE INTO meta VALUES ('written_by', ?)", program_version));
  return transaction.commit();
}

}  // namespace salvage::state
