// Who may join: the rules of docs/wire.md, "Joining and versions".

#include <algorithm>

#include <fmt/format.h>

#include "base/random.h"
#include "wire/control.h"

namespace salvage::wire {
namespace {

constexpr ErrorCode kAllCodes[] = {
    ErrorCode::kInvalidArgument,  ErrorCode::kNotFound,          ErrorCode::kUnauthenticated,
    ErrorCode::kPermissionDenied, ErrorCode::kResourceExhausted, ErrorCode::kUnavailable,
    ErrorCode::kDeadlineExceeded, ErrorCode::kStalePlan,         ErrorCode::kCorrupt,
    ErrorCode::kCancelled,        ErrorCode::kUnsupported,       ErrorCode::kInternal};

// Nothing if the peer may join.
Result<void> check_hello(const Hello& hello, const LocalVersion& local) {
  const bool token_matches =
      !local.auth_token.empty() && equal_constant_time(hello.auth_token, local.auth_token);
  if (!local.certificate_suffices && !token_matches) {
    return fail(ErrorCode::kUnauthenticated, "the peer's auth token is not this cluster's");
  }
  if (hello.wire_version_min > local.wire_version || hello.wire_version < kWireVersionMin) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the peer speaks wire versions {} to {}, this program {} to {}; "
                            "upgrade the older one",
                            hello.wire_version_min, hello.wire_version, kWireVersionMin,
                            local.wire_version));
  }
  if (hello.llama_pin != local.llama_pin) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the peer runs llama.cpp {}, this program {}; all machines of a "
                            "pipeline need the same",
                            hello.llama_pin, local.llama_pin));
  }
  if (hello.role == LinkRole::kData && hello.epoch != local.epoch.value) {
    return fail(ErrorCode::kStalePlan, fmt::format("the peer's plan epoch is {}, this one's {}",
                                                   hello.epoch, local.epoch.value));
  }
  return {};
}

}  // namespace

HelloReply answer_hello(const Hello& hello, const LocalVersion& local,
                        std::uint32_t initial_credits) {
  HelloReply reply;
  if (auto checked = check_hello(hello, local); !checked) {
    reply.error_code = error_code_name(checked.error().code());
    reply.error = checked.error().message();
    return reply;
  }
  reply.accepted = true;
  reply.wire_version = std::min(hello.wire_version, local.wire_version);
  reply.initial_credits = initial_credits;
  return reply;
}

Result<void> check_hello_reply(const HelloReply& reply) {
  if (!reply.accepted) {
    return fail(parse_error_code(reply.error_code), "refused: " + reply.error);
  }
  if (reply.wire_version < kWireVersionMin || reply.wire_version > kWireVersion) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the peer chose wire version {}, this program speaks {} to {}",
                            reply.wire_version, kWireVersionMin, kWireVersion));
  }
  if (reply.initial_credits > kCreditsMax) {
    return fail(ErrorCode::kCorrupt, "the peer grants more credits than the limit");
  }
  return {};
}

ErrorCode parse_error_code(std::string_view name) {
  for (const ErrorCode code : kAllCodes) {
    if (error_code_name(code) == name) return code;
  }
  return ErrorCode::kInternal;
}

}  // namespace salvage::wire
