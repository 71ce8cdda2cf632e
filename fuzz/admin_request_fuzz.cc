// Any bytes as an administration request: answered with JSON, never more than refused. The first
// byte chooses the path. What is accepted and written again must be the same request.

#include <cstdint>
#include <cstdlib>
#include <string>

#include <nlohmann/json.hpp>

#include "admin/admin_routes.h"
#include "admin/fake_backend.h"

using namespace salvage::admin;

namespace {

constexpr const char* kNames[] = {"invite",       "revoke-invite", "rename", "remove", "leave",
                                  "load",         "unload",        "verify", "gc",     "run",
                                  "remove-model", "status",        "cancel"};

void check(bool good) {
  if (!good) std::abort();
}

template <typename Parse>
void check_stable(Parse parse, std::string_view body) {
  const auto request = parse(body);
  if (!request) return;
  const std::string written = encode(*request);
  const auto again = parse(written);
  check(again.has_value() && encode(*again) == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  FakeBackend backend;
  const std::string path = std::string(kAdminPrefix) + kNames[data[0] % std::size(kNames)];
  const AdminAnswer answer = answer_admin({"POST", path, body}, backend);
  check(answer.lines || nlohmann::json::accept(answer.body));
  if (answer.lines) {
    std::string last;
    answer.lines(
        [&](const std::string& line) {
          check(nlohmann::json::accept(line) && line.find('\n') == std::string::npos);
          last = line;
          return true;
        },
        {});
    check(last.starts_with("{\"done\":") || last.starts_with("{\"error\":"));
  }
  (void)answer_admin({body.substr(0, 4), body, body}, backend);
  check_stable(parse_invite, body);
  check_stable(parse_load, body);
  check_stable(parse_run, body);
  check_stable(parse_gc, body);
  return 0;
}
