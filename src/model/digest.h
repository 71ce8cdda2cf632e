#pragma once

// Names a model by its content. The digest is SHA-256, in hex, over the metadata (without split.*
// and salvage.*), every tensor's name, type and shape, and samples of every tensor's data: its
// first, middle and last 4 KiB. It reads a few megabytes even of the largest model, is the same for
// one file and for the same model in parts, and differs for another quantisation or fine-tune. It
// finds mix-ups, not forgeries: two files may differ in bytes that no sample covers.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "model/gguf.h"

namespace salvage::model {

class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  void update(std::string_view bytes) { update(std::as_bytes(std::span(bytes))); }
  std::string hex();  // Ends the message; 64 digits.

 private:
  void block(const std::byte* bytes);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};
  std::size_t pending_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
};

Result<std::string> model_digest(const Gguf& model);

}  // namespace salvage::model
