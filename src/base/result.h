#pragma once

// Errors are values. A function that can fail for a reason outside the program (a peer, a disk, a
// user) returns Result<T>; a broken invariant inside the program is a CHECK (base/check.h) and
// stops the process. Exceptions of other people's code are caught at the four places that
// docs/STYLE.md names and become an Error there.

#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

namespace salvage {

// Codes name what the caller can do about it, not where it went wrong.
enum class ErrorCode {
  kInvalidArgument,  // The caller sent something malformed; retrying unchanged cannot help.
  kNotFound,
  kUnauthenticated,  // The peer is not who it says it is.
  kPermissionDenied,
  kResourceExhausted,  // Out of memory, disk, slots or queue space; free some or retry later.
  kUnavailable,        // Peer gone or link reset; retry against a fresh plan.
  kDeadlineExceeded,
  kStalePlan,    // The message belongs to an older plan epoch; drop it.
  kCorrupt,      // Bytes on the wire or on disk do not check out.
  kCancelled,    // Somebody asked to stop.
  kUnsupported,  // This version, or this architecture, cannot do that.
  kInternal,
};

// The code's stable name on the wire, in logs and in JSON: "invalid_argument", ...
std::string_view error_code_name(ErrorCode code);

class Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // Adds where we were, outermost first: "load shard: open file: permission denied".
  Error&& within(std::string_view what) && {
    message_ = std::string(what) + ": " + message_;
    return std::move(*this);
  }

 private:
  ErrorCode code_;
  std::string message_;
};

template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error(code, std::move(message)));
}
inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace salvage

// Passes a failure on to the caller: RETURN_IF_ERROR(write(bytes));
#define RETURN_IF_ERROR(expression)                              \
  do {                                                           \
    if (auto salvage_result = (expression); !salvage_result)     \
      return ::salvage::fail(std::move(salvage_result).error()); \
  } while (false)

// Unwraps or passes on: ASSIGN_OR_RETURN(auto file, open(path));
#define ASSIGN_OR_RETURN(target, expression) \
  SALVAGE_ASSIGN_OR_RETURN_(SALVAGE_CONCAT_(salvage_result_, __LINE__), target, expression)
#define SALVAGE_ASSIGN_OR_RETURN_(result, target, expression)     \
  auto result = (expression);                                     \
  if (!result) return ::salvage::fail(std::move(result).error()); \
  target = std::move(*result)
#define SALVAGE_CONCAT_(a, b) SALVAGE_CONCAT_INNER_(a, b)
#define SALVAGE_CONCAT_INNER_(a, b) a##b
