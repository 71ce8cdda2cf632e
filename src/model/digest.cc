#include "model/digest.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace salvage::model {
namespace {

constexpr std::size_t kSampleBytes = 4 << 10;

// FIPS 180-4: the first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

template <typename T>
void update_number(Sha256& hash, T value) {
  hash.update(std::as_bytes(std::span(&value, 1)));
}

void update_text(Sha256& hash, std::string_view text) {
  update_number(hash, std::uint64_t{text.size()});
  hash.update(text);
}

Result<void> update_samples(Sha256& hash, const Gguf& model, const TensorInfo& tensor) {
  std::array<std::byte, kSampleBytes> buffer{};
  const std::size_t count = std::min<std::uint64_t>(tensor.bytes, buffer.size());
  const auto sample = std::span(buffer).first(count);
  const std::uint64_t last = tensor.bytes - count;
  for (const std::uint64_t offset : {std::uint64_t{0}, last / 2, last}) {
    RETURN_IF_ERROR(model.read(tensor, offset, sample));
    hash.update(sample);
  }
  return {};
}

std::uint32_t load_big_endian(const std::byte* bytes) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = (word << 8) | std::to_integer<std::uint32_t>(bytes[i]);
  return word;
}

}  // namespace

void Sha256::block(const std::byte* bytes) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i) w[i] = load_big_endian(bytes + 4 * i);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t low = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t high = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + low + w[i - 7] + high;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t mix_e = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t first = h + mix_e + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const std::uint32_t mix_a = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t second = mix_a + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::array<std::uint32_t, 8> added = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state_.size(); ++i) state_[i] += added[i];
}

void Sha256::update(std::span<const std::byte> bytes) {
  total_bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (pending_bytes_ == 0 && bytes.size() >= pending_.size()) {
      block(bytes.data());
      bytes = bytes.subspan(pending_.size());
      continue;
    }
    const std::size_t step = std::min(bytes.size(), pending_.size() - pending_bytes_);
    std::memcpy(pending_.data() + pending_bytes_, bytes.data(), step);
    pending_bytes_ += step;
    bytes = bytes.subspan(step);
    if (pending_bytes_ == pending_.size()) {
      block(pending_.data());
      pending_bytes_ = 0;
    }
  }
}

std::string Sha256::hex() {
  const std::uint64_t bits = total_bytes_ * 8;
  std::array<std::byte, 72> end{};
  end[0] = std::byte{0x80};
  const std::size_t zeros = (pending_.size() * 2 - 9 - pending_bytes_) % pending_.size();
  for (std::size_t i = 0; i < 8; ++i)
    end[1 + zeros + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  update(std::span(end).first(1 + zeros + 8));
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint32_t word : state_) {
    for (int shift = 28; shift >= 0; shift -= 4) text.push_back(kDigits[(word >> shift) & 15]);
  }
  return text;
}

Result<std::string> model_digest(const Gguf& model) {
  Sha256 hash;
  for (const auto& [key, value] : model.metadata().entries()) {
    if (key.starts_with("split.") || key.starts_with("salvage.")) continue;
    update_text(hash, key);
    update_number(hash, static_cast<std::uint32_t>(value.type()));
    update_number(hash, value.is_array() ? value.count() : UINT64_MAX);
    update_text(hash, value.payload());
  }
  std::vector<const TensorInfo*> tensors;
  for (const TensorInfo& tensor : model.tensors()) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->name < b->name; });
  for (const TensorInfo* const tensor : tensors) {
    update_text(hash, tensor->name);
    update_number(hash, static_cast<std::uint32_t>(tensor->type));
    for (const std::uint64_t length : tensor->shape) update_number(hash, length);
    RETURN_IF_ERROR(update_samples(hash, model, *tensor));
  }
  return hash.hex();
}

}  // namespace salvage::model
