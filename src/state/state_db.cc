#include "state/state_db.h"

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "base/mutex.h"
#include "state/schema.h"
#include "state/sqlite.h"

namespace salvage::state {
namespace {

// next() takes this many numbers from the disk at once.
constexpr std::uint64_t kCounterBlock = 64;
// Beyond any use, and 2^20 such reservations still fit the column.
constexpr std::uint64_t kReserveMax = std::uint64_t{1} << 40;
constexpr std::array kCounterNames = {"plan_epoch", "view_version"};

std::size_t index_of(Counter counter) {
  return static_cast<std::size_t>(counter);
}

std::int64_t signed_of(std::uint64_t number) {
  return static_cast<std::int64_t>(number);
}

template <typename... Texts>
Result<void> check_sizes(const Texts&... texts) {
  if (((texts.size() <= kValueBytesMax) && ...)) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("a value for the state is longer than {} bytes", kValueBytesMax));
}

class SqliteStateDb final : public StateDb {
 public:
  SqliteStateDb(FileLock lock, Database database)
      : lock_(std::move(lock)), database_(std::move(database)) {}

  Result<std::optional<NodeIdentity>> identity() override;
  Result<void> put_identity(const NodeIdentity& identity) override;
  Result<void> forget_cluster(bool key_too) override;
  Result<std::optional<Authority>> authority() override;
  Result<void> put_authority(const Authority& authority) override;
  Result<std::vector<MemberRow>> members() override;
  Result<void> put_member(const MemberRow& member) override;
  Result<void> put_joined(const MemberRow& member, const InviteRow& invite) override;
  Result<void> forget_member(const NodeId& node) override;
  Result<void> remove_member(const NodeId& node) override;
  Result<std::vector<NodeId>> removed() override;
  Result<std::vector<InviteRow>> invites() override;
  Result<void> put_invite(const InviteRow& invite) override;
  Result<void> forget_invite(std::string_view id) override;
  Result<std::vector<std::string>> api_keys() override;
  Result<void> put_api_key(std::string_view digest) override;
  Result<std::vector<DeploymentRow>> deployments() override;
  Result<void> put_deployment(const DeploymentRow& deployment) override;
  Result<void> forget_deployment(const ModelId& model) override;
  Result<std::vector<ModelRow>> models() override;
  Result<void> put_model(const ModelRow& model) override;
  Result<void> forget_model(const ModelId& model) override;
  Result<std::vector<SourceRow>> sources() override;
  Result<void> put_source(const SourceRow& source) override;
  Result<void> forget_source(const SourceRow& source) override;
  Result<std::vector<PieceRow>> pieces() override;
  Result<void> put_pieces(const std::vector<PieceRow>& pieces) override;
  Result<void> forget_pieces(const std::vector<PieceDigest>& pieces) override;
  Result<void> forget_place(std::string_view place) override;
  Result<std::uint64_t> reserve(Counter counter, std::uint64_t count) override;
  Result<std::uint64_t> next(Counter counter) override;

 private:
  struct Block {
    std::uint64_t next = 0;
    std::uint64_t end = 0;
  };

  template <typename... Values>
  Result<void> execute(std::string_view sql, const Values&... values) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return database_.execute(sql, values...);
  }
  // Several statements that happen together or not at all.
  template <typename Statements>
  Result<void> together(const Statements& statements) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(Transaction transaction, Transaction::begin(database_));
    RETURN_IF_ERROR(statements(database_));
    return transaction.commit();
  }
  template <typename Row, typename Read>
  Result<std::vector<Row>> rows(std::string_view sql, const Read& read) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    std::vector<Row> all;
    RETURN_IF_ERROR(database_.query(sql, [&](const Statement& row) { all.push_back(read(row)); }));
    return all;
  }
  Result<std::uint64_t> reserve_locked(Counter counter, std::uint64_t count) REQUIRES(mutex_);

  FileLock lock_;
  Mutex mutex_;
  Database database_ GUARDED_BY(mutex_);
  std::array<Block, kCounterNames.size()> blocks_ GUARDED_BY(mutex_);
};

// --- this node ----------------------------------------------------------------------------------

Result<std::optional<NodeIdentity>> SqliteStateDb::identity() {
  const MutexLock lock(mutex_);
  std::optional<NodeIdentity> found;
  RETURN_IF_ERROR(database_.query(
      "SELECT key_pem, certificate_pem, authority_pem, cluster_id, coordinator, name, ephemeral "
      "FROM identity",
      [&](const Statement& row) {
        found = NodeIdentity{.key_pem = row.text(0),
                             .certificate_pem = row.text(1),
                             .authority_pem = row.text(2),
                             .cluster_id = row.text(3),
                             .coordinator = NodeId{row.text(4)},
                             .name = row.text(5),
                             .ephemeral = row.flag(6)};
      }));
  if (!found) return found;
  RETURN_IF_ERROR(database_.query(
      "SELECT endpoint FROM coordinator_addresses ORDER BY position",
      [&](const Statement& row) { found->coordinator_addresses.push_back(row.text(0)); }));
  return found;
}

Result<void> SqliteStateDb::put_identity(const NodeIdentity& identity) {
  RETURN_IF_ERROR(check_sizes(identity.key_pem, identity.certificate_pem, identity.authority_pem,
                              identity.cluster_id, identity.name));
  return together([&](Database& database) -> Result<void> {
    RETURN_IF_ERROR(database.execute(
        "INSERT OR REPLACE INTO identity (id, key_pem, certificate_pem, authority_pem, cluster_id, "
        "coordinator, name, ephemeral) VALUES (1, ?, ?, ?, ?, ?, ?, ?)",
        identity.key_pem, identity.certificate_pem, identity.authority_pem, identity.cluster_id,
        identity.coordinator.value, identity.name, identity.ephemeral));
    RETURN_IF_ERROR(database.execute("DELETE FROM coordinator_addresses"));
    std::int64_t position = 0;
    for (const std::string& endpoint : identity.coordinator_addresses) {
      RETURN_IF_ERROR(database.execute("INSERT INTO coordinator_addresses VALUES (?, ?)",
                                       position++, endpoint));
    }
    return {};
  });
}

Result<void> SqliteStateDb::forget_cluster(bool key_too) {
  return together([&](Database& database) -> Result<void> {
    RETURN_IF_ERROR(database.execute("DELETE FROM coordinator_addresses"));
    if (key_too) return database.execute("DELETE FROM identity");
    return database.execute(
        "UPDATE identity SET certificate_pem = '', authority_pem = '', cluster_id = '', "
        "coordinator = '', ephemeral = 0");
  });
}

// --- the coordinator ----------------------------------------------------------------------------

Result<std::optional<Authority>> SqliteStateDb::authority() {
  const MutexLock lock(mutex_);
  std::optional<Authority> found;
  RETURN_IF_ERROR(database_.query(
      "SELECT key_pem, certificate_pem, cluster_name FROM authority", [&](const Statement& row) {
        found = Authority{
            .key_pem = row.text(0), .certificate_pem = row.text(1), .cluster_name = row.text(2)};
      }));
  return found;
}

Result<void> SqliteStateDb::put_authority(const Authority& authority) {
  RETURN_IF_ERROR(
      check_sizes(authority.key_pem, authority.certificate_pem, authority.cluster_name));
  return execute("INSERT OR REPLACE INTO authority VALUES (1, ?, ?, ?)", authority.key_pem,
                 authority.certificate_pem, authority.cluster_name);
}

Result<std::vector<MemberRow>> SqliteStateDb::members() {
  return rows<MemberRow>("SELECT node, name, ephemeral, has_left, facts FROM members ORDER BY node",
                         [](const Statement& row) {
                           return MemberRow{.node = NodeId{row.text(0)},
                                            .name = row.text(1),
                                            .ephemeral = row.flag(2),
                                            .left = row.flag(3),
                                            .facts = row.text(4)};
                         });
}

Result<void> write_member(Database& database, const MemberRow& member) {
  return database.execute(
      "INSERT OR REPLACE INTO members (node, name, ephemeral, has_left, facts) "
      "VALUES (?, ?, ?, ?, ?)",
      member.node.value, member.name, member.ephemeral, member.left, member.facts);
}

Result<void> write_invite(Database& database, const InviteRow& invite) {
  return database.execute(
      "INSERT OR REPLACE INTO invites (id, secret_hash, label, ephemeral, uses_left, wrong_tries, "
      "created_ms, expires_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      invite.id, invite.secret_hash, invite.label, invite.ephemeral, std::int64_t{invite.uses_left},
      std::int64_t{invite.wrong_tries}, invite.created_ms, invite.expires_ms);
}

Result<void> SqliteStateDb::put_member(const MemberRow& member) {
  RETURN_IF_ERROR(check_sizes(member.name, member.facts));
  return together([&](Database& database) { return write_member(database, member); });
}

Result<void> SqliteStateDb::put_joined(const MemberRow& member, const InviteRow& invite) {
  RETURN_IF_ERROR(check_sizes(member.name, member.facts, invite.label));
  return together([&](Database& database) -> Result<void> {
    RETURN_IF_ERROR(write_invite(database, invite));
    return write_member(database, member);
  });
}

Result<void> SqliteStateDb::forget_member(const NodeId& node) {
  return execute("DELETE FROM members WHERE node = ?", node.value);
}

Result<void> SqliteStateDb::remove_member(const NodeId& node) {
  return together([&](Database& database) -> Result<void> {
    RETURN_IF_ERROR(database.execute("INSERT OR REPLACE INTO removed VALUES (?)", node.value));
    return database.execute("DELETE FROM members WHERE node = ?", node.value);
  });
}

Result<std::vector<NodeId>> SqliteStateDb::removed() {
  return rows<NodeId>("SELECT node FROM removed ORDER BY node",
                      [](const Statement& row) { return NodeId{row.text(0)}; });
}

Result<std::vector<InviteRow>> SqliteStateDb::invites() {
  return rows<InviteRow>(
      "SELECT id, secret_hash, label, ephemeral, uses_left, wrong_tries, created_ms, expires_ms "
      "FROM invites ORDER BY id",
      [](const Statement& row) {
        return InviteRow{.id = row.text(0),
                         .secret_hash = row.text(1),
                         .label = row.text(2),
                         .ephemeral = row.flag(3),
                         .uses_left = static_cast<std::uint32_t>(row.number(4)),
                         .wrong_tries = static_cast<std::uint32_t>(row.number(5)),
                         .created_ms = row.number(6),
                         .expires_ms = row.number(7)};
      });
}

Result<void> SqliteStateDb::put_invite(const InviteRow& invite) {
  RETURN_IF_ERROR(check_sizes(invite.id, invite.secret_hash, invite.label));
  return together([&](Database& database) { return write_invite(database, invite); });
}

Result<void> SqliteStateDb::forget_invite(std::string_view id) {
  return execute("DELETE FROM invites WHERE id = ?", id);
}

Result<std::vector<std::string>> SqliteStateDb::api_keys() {
  return rows<std::string>("SELECT digest FROM api_keys ORDER BY digest",
                           [](const Statement& row) { return row.text(0); });
}

Result<void> SqliteStateDb::put_api_key(std::string_view digest) {
  RETURN_IF_ERROR(check_sizes(digest));
  return execute("INSERT OR IGNORE INTO api_keys VALUES (?)", digest);
}

Result<std::vector<DeploymentRow>> SqliteStateDb::deployments() {
  return rows<DeploymentRow>("SELECT model, loaded, options, home FROM deployments ORDER BY model",
                             [](const Statement& row) {
                               return DeploymentRow{.model = ModelId{row.text(0)},
                                                    .loaded = row.flag(1),
                                                    .options = row.text(2),
                                                    .home = row.text(3)};
                             });
}

Result<void> SqliteStateDb::put_deployment(const DeploymentRow& deployment) {
  RETURN_IF_ERROR(check_sizes(deployment.options, deployment.home));
  return execute(
      "INSERT OR REPLACE INTO deployments (model, loaded, options, home) VALUES (?, ?, ?, ?)",
      deployment.model.value, deployment.loaded, deployment.options, deployment.home);
}

Result<void> SqliteStateDb::forget_deployment(const ModelId& model) {
  return execute("DELETE FROM deployments WHERE model = ?", model.value);
}

// --- models and pieces --------------------------------------------------------------------------

Result<std::vector<ModelRow>> SqliteStateDb::models() {
  return rows<ModelRow>(
      "SELECT model, name, entry FROM models ORDER BY model", [](const Statement& row) {
        return ModelRow{.model = ModelId{row.text(0)}, .name = row.text(1), .entry = row.text(2)};
      });
}

Result<void> SqliteStateDb::put_model(const ModelRow& model) {
  RETURN_IF_ERROR(check_sizes(model.name, model.entry));
  return execute("INSERT OR REPLACE INTO models (model, name, entry) VALUES (?, ?, ?)",
                 model.model.value, model.name, Blob{model.entry});
}

Result<void> SqliteStateDb::forget_model(const ModelId& model) {
  return together([&](Database& database) -> Result<void> {
    for (const char* const sql :
         {"DELETE FROM pieces WHERE model = ?", "DELETE FROM sources WHERE model = ?",
          "DELETE FROM deployments WHERE model = ?", "DELETE FROM models WHERE model = ?"}) {
      RETURN_IF_ERROR(database.execute(sql, model.value));
    }
    return {};
  });
}

Result<std::vector<SourceRow>> SqliteStateDb::sources() {
  return rows<SourceRow>("SELECT model, path FROM sources ORDER BY model, path",
                         [](const Statement& row) {
                           return SourceRow{.model = ModelId{row.text(0)}, .path = row.text(1)};
                         });
}

Result<void> SqliteStateDb::put_source(const SourceRow& source) {
  RETURN_IF_ERROR(check_sizes(source.path));
  return execute("INSERT OR REPLACE INTO sources (model, path) VALUES (?, ?)", source.model.value,
                 source.path);
}

Result<void> SqliteStateDb::forget_source(const SourceRow& source) {
  return execute("DELETE FROM sources WHERE model = ? AND path = ?", source.model.value,
                 source.path);
}

Result<std::vector<PieceRow>> SqliteStateDb::pieces() {
  return rows<PieceRow>(
      "SELECT piece, model, place, bytes, verified FROM pieces ORDER BY piece, place",
      [](const Statement& row) {
        return PieceRow{.piece = PieceDigest{row.text(0)},
                        .model = ModelId{row.text(1)},
                        .place = row.text(2),
                        .bytes = static_cast<std::uint64_t>(row.number(3)),
                        .verified = row.flag(4)};
      });
}

Result<void> SqliteStateDb::put_pieces(const std::vector<PieceRow>& pieces) {
  return together([&](Database& database) -> Result<void> {
    for (const PieceRow& piece : pieces) {
      RETURN_IF_ERROR(check_sizes(piece.place));
      RETURN_IF_ERROR(
          database.execute("INSERT OR REPLACE INTO pieces (piece, model, place, bytes, verified) "
                           "VALUES (?, ?, ?, ?, ?)",
                           piece.piece.value, piece.model.value, piece.place,
                           signed_of(piece.bytes), piece.verified));
    }
    return {};
  });
}

Result<void> SqliteStateDb::forget_pieces(const std::vector<PieceDigest>& pieces) {
  return together([&](Database& database) -> Result<void> {
    for (const PieceDigest& piece : pieces) {
      RETURN_IF_ERROR(database.execute("DELETE FROM pieces WHERE piece = ?", piece.value));
    }
    return {};
  });
}

Result<void> SqliteStateDb::forget_place(std::string_view place) {
  return execute("DELETE FROM pieces WHERE place = ?", place);
}

// --- counters -----------------------------------------------------------------------------------

Result<std::uint64_t> SqliteStateDb::reserve_locked(Counter counter, std::uint64_t count) {
  if (count == 0 || count > kReserveMax) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} numbers can't be reserved", count));
  }
  const std::string_view name = kCounterNames[index_of(counter)];
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::begin(database_));
  std::int64_t first = 1;
  {
    ASSIGN_OR_RETURN(Statement statement,
                     database_.prepare("SELECT next FROM counters WHERE name = ?"));
    statement.bind(name);
    ASSIGN_OR_RETURN(const bool found, statement.step());
    if (found) first = statement.number(0);
  }
  if (first < 1) return fail(ErrorCode::kCorrupt, fmt::format("the counter {} is damaged", name));
  RETURN_IF_ERROR(database_.execute("INSERT OR REPLACE INTO counters (name, next) VALUES (?, ?)",
                                    name, first + signed_of(count)));
  RETURN_IF_ERROR(transaction.commit());
  return static_cast<std::uint64_t>(first);
}

Result<std::uint64_t> SqliteStateDb::reserve(Counter counter, std::uint64_t count) {
  const MutexLock lock(mutex_);
  // What next() had not given yet lies below, and must not come after.
  blocks_[index_of(counter)] = Block{};
  return reserve_locked(counter, count);
}

Result<std::uint64_t> SqliteStateDb::next(Counter counter) {
  const MutexLock lock(mutex_);
  Block& block = blocks_[index_of(counter)];
  if (block.next == block.end) {
    ASSIGN_OR_RETURN(block.next, reserve_locked(counter, kCounterBlock));
    block.end = block.next + kCounterBlock;
  }
  return block.next++;
}

// --- opening ------------------------------------------------------------------------------------

tl::unexpected<Error> folder_failure(const std::filesystem::path& folder, int error) {
  return fail(error == ENOSPC ? ErrorCode::kResourceExhausted : ErrorCode::kPermissionDenied,
              fmt::format("cannot use {} as the data folder: {}; give another with --data",
                          folder.native(), std::generic_category().message(error)));
}

Result<void> make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return {};
  std::filesystem::create_directories(folder.parent_path(), error);
  if (error) return folder_failure(folder, error.value());
  if (::mkdir(folder.c_str(), 0700) != 0) return folder_failure(folder, errno);
  return {};
}

// SQLite gives its side files the rights of this one.
Result<void> make_private_file(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return folder_failure(file.parent_path(), errno);
  const int result = ::fchmod(descriptor, 0600);
  const int error = errno;
  ::close(descriptor);
  if (result != 0) return folder_failure(file.parent_path(), error);
  return {};
}

// One process holds the lock, so SQLite needs no shared memory, which not all file systems have.
Result<void> configure(Database& database, const StateOptions& options) {
  RETURN_IF_ERROR(database.run("PRAGMA locking_mode = EXCLUSIVE"));
  std::string mode;
  RETURN_IF_ERROR(database.query("PRAGMA journal_mode = WAL",
                                 [&](const Statement& row) { mode = row.text(0); }));
  if (mode != "wal") {
    return fail(ErrorCode::kUnavailable, fmt::format("the state can't be kept in WAL mode but {}",
                                                     mode.empty() ? "none" : mode));
  }
  RETURN_IF_ERROR(
      database.run("PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF; "
                   "PRAGMA secure_delete = ON"));
  ASSIGN_OR_RETURN(const std::int64_t page_count,
                   database.pragma(fmt::format("max_page_count = {}", options.page_count_max)));
  (void)page_count;
  return {};
}

}  // namespace

Result<std::unique_ptr<StateDb>> StateDb::open(const std::filesystem::path& folder,
                                               const StateOptions& options) {
  RETURN_IF_ERROR(make_folder(folder));
  auto lock = FileLock::take(folder / "state.lock", options.command);
  if (!lock) {
    const bool taken = lock.error().code() == ErrorCode::kUnavailable;
    return fail(lock.error().code(),
                fmt::format("{}; {}give another folder with --data", lock.error().message(),
                            taken ? "stop it, or " : ""));
  }
  const std::filesystem::path file = folder / "state.db";
  RETURN_IF_ERROR(make_private_file(file));
  ASSIGN_OR_RETURN(Database database, Database::open(file, "the state in " + folder.native()));
  RETURN_IF_ERROR(configure(database, options));
  if (auto migrated = migrate(database, options.program_version); !migrated) {
    return fail(std::move(migrated).error().within("the state in " + folder.native()));
  }
  std::unique_ptr<StateDb> state =
      std::make_unique<SqliteStateDb>(std::move(*lock), std::move(database));
  return state;
}

}  // namespace salvage::state
