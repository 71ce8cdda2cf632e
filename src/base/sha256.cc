#include "base/sha256.h"

#include <array>

#include <openssl/evp.h>

#include "base/check.h"

namespace salvage {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  CHECK(context_ != nullptr);
  CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::Free::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

void Sha256::update(std::span<const std::byte> bytes) {
  CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : std::span(digest).first(size)) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

bool is_digest(std::string_view text) {
  constexpr std::size_t kDigits = 64;
  return text.size() == kDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace salvage
