#include "admin/admin_client.h"

#include <array>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include <cpp-httplib/httplib.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "admin/admin_routes.h"
#include "admin/admin_server.h"
#include "api/bounded_json.h"
#include "base/unix_socket.h"

namespace salvage::admin {
namespace {

using api::Json;
using api::parse_bounded_json;
using api::to_line;

// An answer's text stands twice in its last line's neighbourhood; JSON may make six bytes of one.
constexpr std::size_t kAnswerBytesMax = std::size_t{256} << 20;
// Ours is a program of the same user on the same machine: if it dies the socket ends, and what it
// does may take as long as it takes.
constexpr auto kAnswerTime = std::chrono::hours(24 * 7);

ErrorCode code_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i) {
    if (error_code_name(static_cast<ErrorCode>(i)) == name) return static_cast<ErrorCode>(i);
  }
  return ErrorCode::kInternal;
}

// The error that the JSON object tells of, if it does.
std::optional<Error> told_error(const Json& json) {
  const auto found = json.find("error");
  if (found == json.end() || !found->is_object()) return std::nullopt;
  return Error(code_named(found->value("code", std::string("internal"))),
               found->value("message", std::string("no reason was given")));
}

Result<Json> parse(const std::string& text) {
  auto json = parse_bounded_json(text, {.bytes_max = kAnswerBytesMax, .depth_max = 32});
  if (!json) return fail(ErrorCode::kCorrupt, "the program's answer is no JSON");
  if (!json->is_object()) return fail(ErrorCode::kCorrupt, "the program's answer is no object");
  return json;
}

// Cuts what comes into lines.
class Lines {
 public:
  // False: it is enough.
  template <typename Take>
  bool push(const char* bytes, std::size_t count, Take take) {
    for (std::size_t i = 0; i < count; ++i) {
      if (bytes[i] != '\n') {
        line_.push_back(bytes[i]);
        continue;
      }
      if (!take(std::exchange(line_, {}))) return false;
    }
    return line_.size() <= kAnswerBytesMax;
  }
  const std::string& rest() const { return line_; }

 private:
  std::string line_;
};

void prepare(httplib::ClientImpl& client) {
  client.set_address_family(AF_UNIX);
  client.set_connection_timeout(std::chrono::seconds(5));
  client.set_read_timeout(kAnswerTime);
  client.set_write_timeout(std::chrono::seconds(30));
  client.set_payload_max_length(kAnswerBytesMax);
}

std::string path_of(std::string_view name) {
  return fmt::format("{}{}", kAdminPrefix, name);
}

// Why there is no answer to read.
Error no_answer(const httplib::Result& answer, const Error& nobody) {
  if (!answer) {
    if (answer.error() == httplib::Error::Connection) return nobody;
    return {ErrorCode::kUnavailable, fmt::format("salvage ended before it had answered ({})",
                                                 httplib::to_string(answer.error()))};
  }
  if (answer->status == httplib::StatusCode::ServiceUnavailable_503) {
    return {ErrorCode::kResourceExhausted,
            "salvage serves as many commands as it can at once; end one and try again"};
  }
  return {ErrorCode::kInternal, fmt::format("HTTP status {} without an answer", answer->status)};
}

// One finished answer: what it says, or the error that it tells of.
Result<std::string> outcome_of(const httplib::Result& answer, const Error& nobody) {
  if (!answer || answer->body.empty()) return fail(no_answer(answer, nobody));
  ASSIGN_OR_RETURN(const Json json, parse(answer->body));
  if (const auto error = told_error(json)) return fail(*error);
  return answer->body;
}

}  // namespace

Error AdminClient::nobody() const {
  return {ErrorCode::kUnavailable,
          fmt::format("salvage is not running here (nothing answers in {}); start it with `salvage "
                      "up` on the first machine, with `salvage join CODE` on the others, or name "
                      "its folder with --data",
                      folder_.string())};
}

bool AdminClient::running() const {
  return socket_answers(folder_, kAdminSocket);
}

Result<std::string> AdminClient::get(std::string_view name) const {
  const auto folder = SocketFolder::open(folder_);
  if (!folder) return fail(nobody());
  httplib::ClientImpl client(folder->path_of(kAdminSocket), 80);
  prepare(client);
  return outcome_of(client.Get(path_of(name)), nobody());
}

Result<std::string> AdminClient::post(std::string_view name, const std::string& body) const {
  const auto folder = SocketFolder::open(folder_);
  if (!folder) return fail(nobody());
  httplib::ClientImpl client(folder->path_of(kAdminSocket), 80);
  prepare(client);
  return outcome_of(client.Post(path_of(name), body, "application/json"), nobody());
}

Result<std::string> AdminClient::follow(std::string_view name, const std::string& body,
                                        const Line& line, const StopToken& stop) const {
  const auto folder = SocketFolder::open(folder_);
  if (!folder) return fail(nobody());
  httplib::ClientImpl client(folder->path_of(kAdminSocket), 80);
  prepare(client);
  Lines lines;
  std::optional<Result<std::string>> outcome;
  const auto take = [&](const std::string& text) {
    const auto json = parse(text);
    if (!json) {
      outcome = fail(json.error());
    } else if (const auto error = told_error(*json)) {
      outcome = fail(*error);
    } else if (const auto done = json->find("done"); done != json->end()) {
      outcome = to_line(*done);
    }
    return outcome.has_value() || line(text);
  };
  bool hung_up = false;
  const auto receive = [&](const char* bytes, std::size_t count) {
    hung_up = hung_up || !lines.push(bytes, count, take);
    return !hung_up;
  };
  // Wakes a read that waits; the program notices that we are gone and ends the work.
  const std::stop_callback hang_up(stop, [&client] { client.stop(); });
  const auto answer =
      client.Post(path_of(name), httplib::Headers{}, body, "application/json", receive);
  // An error that came before the first line has no line end.
  if (!outcome && !hung_up && !lines.rest().empty()) take(lines.rest());
  if (outcome) return std::move(*outcome);
  if (hung_up || stop.stop_requested()) return fail(ErrorCode::kCancelled, "interrupted");
  return fail(no_answer(answer, nobody()));
}

}  // namespace salvage::admin
