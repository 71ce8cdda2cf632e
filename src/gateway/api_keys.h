#pragma once

// Who may use the API: keys are kept as SHA-256 of what clients send, and compared in a time that
// says nothing about them. Values; const calls from any thread.

#include <string>
#include <string_view>
#include <vector>

#include "gateway/http_service.h"

namespace salvage::gateway {

enum class KeyCheck { kGood, kMissing, kWrong };

class ApiKeys {
 public:
  // `digests`: lower-case hex. Not `required`: everybody may, whatever they send: clients that must
  // have a key are given any.
  ApiKeys(std::vector<std::string> digests, bool required)
      : digests_(std::move(digests)), required_(required) {}

  KeyCheck check(const HttpRequest& request) const;
  bool required() const { return required_; }

  static std::string digest_of(std::string_view key);

 private:
  bool is_known(std::string_view key) const;

  std::vector<std::string> digests_;
  bool required_;
};

// What a client sent, from the first of: Authorization: Bearer, x-api-key, api-key. Empty: nothing.
std::string key_of(const HttpRequest& request);

}  // namespace salvage::gateway
