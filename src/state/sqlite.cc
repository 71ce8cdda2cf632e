#include "state/sqlite.h"

#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

#include "base/check.h"
#include "state/state_db.h"

namespace salvage::state {
namespace {

// Somebody may look into the file with another program for a moment.
constexpr int kBusyWaitMs = 5000;

}  // namespace

Statement::Statement(Database& database, sqlite3_stmt* statement)
    : database_(database), statement_(statement) {}

void Statement::Finish::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void Statement::bind(std::string_view text) {
  const char* const data = text.data() == nullptr ? "" : text.data();
  const int code = sqlite3_bind_text64(statement_.get(), ++bound_, data, text.size(), SQLITE_STATIC,
                                       SQLITE_UTF8);
  if (code != SQLITE_OK) bind_failure_ = code;
}

void Statement::bind(Blob blob) {
  const char* const data = blob.bytes.data() == nullptr ? "" : blob.bytes.data();
  const int code =
      sqlite3_bind_blob64(statement_.get(), ++bound_, data, blob.bytes.size(), SQLITE_STATIC);
  if (code != SQLITE_OK) bind_failure_ = code;
}

void Statement::bind(std::int64_t number) {
  const int code = sqlite3_bind_int64(statement_.get(), ++bound_, number);
  if (code != SQLITE_OK) bind_failure_ = code;
}

Result<bool> Statement::step() {
  if (bind_failure_ != SQLITE_OK) return database_.failure(bind_failure_);
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_.failure(code);
}

std::string Statement::text(int column) const {
  const void* const data = sqlite3_column_blob(statement_.get(), column);
  const int bytes = sqlite3_column_bytes(statement_.get(), column);
  if (data == nullptr || bytes <= 0) return "";
  return {static_cast<const char*>(data), static_cast<std::size_t>(bytes)};
}

std::int64_t Statement::number(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

Database::Database(sqlite3* handle, std::string name) : handle_(handle), name_(std::move(name)) {}

void Database::Close::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

Result<Database> Database::open(const std::filesystem::path& file, std::string name) {
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(file.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(handle, std::move(name));
  if (code != SQLITE_OK) return database.failure(code);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, kBusyWaitMs);
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, static_cast<int>(2 * kValueBytesMax));
  return database;
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                      &statement, nullptr);
  if (code != SQLITE_OK) return failure(code);
  return Statement(*this, statement);
}

Result<void> Database::run(const char* sql) {
  const int code = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return failure(code);
  return {};
}

Result<void> Database::query(std::string_view sql,
                             const std::function<void(const Statement&)>& on_row) {
  ASSIGN_OR_RETURN(Statement statement, prepare(sql));
  for (;;) {
    ASSIGN_OR_RETURN(const bool row, statement.step());
    if (!row) return {};
    on_row(statement);
  }
}

Result<std::int64_t> Database::pragma(const std::string& name) {
  std::int64_t value = 0;
  RETURN_IF_ERROR(query("PRAGMA " + name, [&](const Statement& row) { value = row.number(0); }));
  return value;
}

tl::unexpected<Error> Database::failure(int code) const {
  const std::string text =
      fmt::format("{}: {}", name_, handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code));
  switch (code & 0xff) {
    case SQLITE_FULL:
      return fail(ErrorCode::kResourceExhausted, text + "; free some space on that disk");
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG:
      return fail(ErrorCode::kResourceExhausted, text);
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return fail(ErrorCode::kPermissionDenied,
                  text + "; it must be writable: give another folder with --data");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return fail(ErrorCode::kCorrupt,
                  text + "; put a backup in its place, or move it away and join again");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
      return fail(ErrorCode::kUnavailable, text);
    default:
      return fail(ErrorCode::kInternal, text);
  }
}

Result<Transaction> Transaction::begin(Database& database) {
  RETURN_IF_ERROR(database.run("BEGIN IMMEDIATE"));
  return Transaction(database);
}

Transaction::Transaction(Transaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)) {}

Transaction::~Transaction() {
  // Fails where SQLite has rolled back by itself, after a full disk for instance.
  if (database_ != nullptr) (void)database_->run("ROLLBACK");
}

Result<void> Transaction::commit() {
  CHECK(database_ != nullptr);
  RETURN_IF_ERROR(database_->run("COMMIT"));
  database_ = nullptr;
  return {};
}

}  // namespace salvage::state
