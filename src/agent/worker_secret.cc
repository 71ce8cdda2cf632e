#include "agent/worker_secret.h"

#include <nlohmann/json.hpp>

#include "wire/limits.h"

namespace salvage::agent {
namespace {

using Json = nlohmann::json;

tl::unexpected<Error> bad() {
  return fail(ErrorCode::kInvalidArgument,
              "standard input must carry the secret line that salvage itself writes there");
}

// False if the key is there with another type; a missing one stays empty.
bool take(const Json& map, const char* key, std::string& value) {
  const auto found = map.find(key);
  if (found == map.end()) return true;
  if (!found->is_string()) return false;
  value = found->get<std::string>();
  return true;
}

}  // namespace

std::string encode_worker_secret(const WorkerSecret& secret) {
  Json map{{"token", secret.token}};
  if (secret.has_identity()) {
    map["key"] = secret.key;
    map["certificate"] = secret.certificate;
    map["authority"] = secret.authority;
  }
  return map.dump();  // escapes line ends
}

Result<WorkerSecret> parse_worker_secret(std::string_view line) {
  const Json map = Json::parse(line, nullptr, false);
  if (!map.is_object()) return bad();
  WorkerSecret secret;
  if (!take(map, "token", secret.token) || !take(map, "key", secret.key) ||
      !take(map, "certificate", secret.certificate) || !take(map, "authority", secret.authority)) {
    return bad();
  }
  const bool whole = secret.key.empty() == secret.certificate.empty() &&
                     secret.key.empty() == secret.authority.empty();
  if (secret.token.size() != wire::kAuthTokenBytes || !whole) return bad();
  return secret;
}

}  // namespace salvage::agent
