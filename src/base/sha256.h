#pragma once

// SHA-256 of bytes that come in pieces, by OpenSSL. One object is one message; one thread at a
// time. It can't fail: the algorithm is part of every OpenSSL, and memory that runs out ends the
// program.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX: its headers stay out of this one.

namespace salvage {

class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  void update(std::string_view bytes) { update(std::as_bytes(std::span(bytes))); }
  std::string hex();  // Ends the message; 64 lower-case digits.

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// Whether it can be such digits. Asked of every digest and id that came from outside.
bool is_digest(std::string_view text);

}  // namespace salvage
