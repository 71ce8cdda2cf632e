#pragma once

// A thin skin over SQLite's C interface: prepared statements that are always finished, transactions
// that roll back unless committed, and errors as Result. Internal to state/; its header stays out
// of this one. One thread at a time.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace salvage::state {

// One value of a row or for a `?`. Text and blobs are borrowed until the statement has run.
struct Blob {
  std::string_view bytes;
};

class Database;

class Statement {
 public:
  // Values fill the question marks in their order.
  void bind(std::string_view text);
  void bind(const std::string& text) { bind(std::string_view(text)); }
  void bind(Blob blob);
  void bind(std::int64_t number);
  void bind(bool flag) { bind(std::int64_t{flag}); }

  // False when there is no further row.
  Result<bool> step();
  std::string text(int column) const;  // or the bytes of a blob
  std::int64_t number(int column) const;
  bool flag(int column) const { return number(column) != 0; }

 private:
  friend class Database;
  Statement(Database& database, sqlite3_stmt* statement);
  struct Finish {
    void operator()(sqlite3_stmt* statement) const;
  };
  Database& database_;
  std::unique_ptr<sqlite3_stmt, Finish> statement_;
  int bound_ = 0;
  int bind_failure_ = 0;  // SQLite's code; reported by step()
};

class Database {
 public:
  // The file must exist. `name` stands in messages.
  static Result<Database> open(const std::filesystem::path& file, std::string name);

  Result<Statement> prepare(std::string_view sql);
  // Statements without results, separated by semicolons.
  Result<void> run(const char* sql);

  template <typename... Values>
  Result<void> execute(std::string_view sql, const Values&... values) {
    ASSIGN_OR_RETURN(Statement statement, prepare(sql));
    (statement.bind(values), ...);
    RETURN_IF_ERROR(statement.step());
    return {};
  }
  // Calls `on_row` for each row.
  Result<void> query(std::string_view sql, const std::function<void(const Statement&)>& on_row);

  Result<std::int64_t> pragma(const std::string& name);

  // `code` of a call that failed, as an error that says what to do.
  tl::unexpected<Error> failure(int code) const;

 private:
  Database(sqlite3* handle, std::string name);
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  std::unique_ptr<sqlite3, Close> handle_;
  std::string name_;
};

class Transaction {
 public:
  static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Result<void> commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_;  // null once committed or moved from
};

}  // namespace salvage::state
