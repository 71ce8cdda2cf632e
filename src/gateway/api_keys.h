#pragma once

// Who may use the API: keys are kept as SHA-256 of what clients send, and compared in a time that
// says nothing about them. Values; const calls from any thread.

#include <string>
#include <string_view>
#include <vector>

#include "http/http_service.h"

namespace salvage::gateway {

enum class KeyCheck { kGood, kMissing, kWrong };

class ApiKeys {
 public:
  // `digests`: lower-case hex. Not `required`: everybody may, whatever they send: clients that must
  // have a key are given any.
  ApiKeys(std::vector<std::string> digests, bool required)
      : digests_(std::move(digests)), required_(required) {}

  KeyCheck check(const http::HttpRequest& request) const;
  bool required() const { return required_; }
  // Whose request it is, for lists and logs: "key-1a2b3c4d", of the key's digest; empty if nobody
  // had to say.
  std::string name_of(const http::HttpRequest& request) const;
  // Whether it may see and end what others do: with a key, or from this machine where none is
  // asked for.
  bool may_administer(const http::HttpRequest& request) const;

  static std::string digest_of(std::string_view key);

 private:
  bool is_known(std::string_view key) const;

  std::vector<std::string> digests_;
  bool required_;
};

// "tcp:127.0.0.1:4711", as a connection's peer is written.
bool is_this_machine(std::string_view peer);

// What a client sent, from the first of: Authorization: Bearer, x-api-key, api-key. Empty: nothing.
std::string key_of(const http::HttpRequest& request);

}  // namespace salvage::gateway
