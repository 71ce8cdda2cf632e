#pragma once

// Reads GGUF model files (versions 2 and 3, one file or several parts) without trusting them: every
// count and length is checked against a named limit and against the bytes that the file really has
// before anything is allocated, so peak memory is the metadata itself plus one small window. What
// it accepts, libllama's own reader accepts too; tensor data is read only on request.
//
// Thread rule: a Gguf is immutable, any thread may read it. Lifetime: TensorInfo pointers live as
// long as the Gguf they came from, also when it is moved.
// Failure: `corrupt` for damaged files (the message says what is damaged and how much is missing),
// `unsupported` for formats and versions that nobody here reads, `not_found` for missing parts.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "model/metadata.h"
#include "model/tensor_type.h"

namespace salvage::model {

// Generous multiples of what the largest known models have: 3,000 tensors, 100 keys, vocabularies
// of 262,144 and as many merges, 20 MB of metadata, some 200 parts.
inline constexpr std::uint64_t kTensorCountMax = 262'144;
inline constexpr std::uint64_t kKeyCountMax = 65'536;
inline constexpr std::uint64_t kKeyBytesMax = 65'535;     // the format's own limit
inline constexpr std::uint64_t kTensorNameBytesMax = 63;  // ggml's own limit
inline constexpr std::uint64_t kStringBytesMax = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kArrayElementsMax = std::uint64_t{16} << 20;
inline constexpr std::uint64_t kMetadataBytesMax = std::uint64_t{512} << 20;
inline constexpr std::uint64_t kAlignmentMax = std::uint64_t{1} << 20;
inline constexpr std::uint32_t kAlignmentDefault = 32;
inline constexpr std::uint32_t kPartCountMax = 4'096;

struct TensorInfo {
  std::string name;
  TensorType type = TensorType::kF32;
  std::array<std::uint64_t, 4> shape = {1, 1, 1, 1};  // shape[0] is the length of a row
  std::uint32_t dimension_count = 1;
  std::uint32_t part = 0;
  std::uint64_t offset = 0;  // in its part's file
  std::uint64_t bytes = 0;

  std::uint64_t element_count() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  std::uint64_t row_bytes() const;  // of shape[0] elements
};

struct GgufHeader;  // model/gguf_header.h

class Gguf {
 public:
  // Opens a model. If the name ends in -00001-of-0000N.gguf, whichever part is named, all N are
  // opened from the same folder.
  static Result<Gguf> open(const std::filesystem::path& path);
  // The same from bytes; `names` are for messages and as many as `parts`.
  static Result<Gguf> from_parts(std::vector<std::unique_ptr<ByteSource>> parts,
                                 std::vector<std::string> names);
  // A model of one part whose header was read before. `data` answers for tensor data alone, at its
  // place in the file; null = none, and nothing may be read until replace_data().
  static Gguf from_header(GgufHeader header, std::unique_ptr<ByteSource> data, std::string name);
  void replace_data(std::unique_ptr<ByteSource> data) { parts_.front() = std::move(data); }

  const Metadata& metadata() const { return metadata_; }
  std::span<const TensorInfo> tensors() const { return tensors_; }
  const TensorInfo* find_tensor(std::string_view name) const;

  // Bytes [offset, offset + into.size()) of a tensor of this file.
  Result<void> read(const TensorInfo& tensor, std::uint64_t offset,
                    std::span<std::byte> into) const;

  std::uint64_t alignment() const { return alignment_; }
  std::size_t part_count() const { return parts_.size(); }
  const std::string& part_name(std::size_t part) const { return names_[part]; }
  std::uint64_t file_bytes() const;  // of all parts together

 private:
  Gguf() = default;

  std::vector<std::unique_ptr<ByteSource>> parts_;
  std::vector<std::string> names_;
  Metadata metadata_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string, std::size_t> tensor_index_;
  std::uint64_t alignment_ = kAlignmentDefault;
};

// Bytes of a tensor, rows rounded to nothing: shape[0] must be whole blocks. `corrupt` if not, or
// if the product does not fit 64 bits.
Result<std::uint64_t> tensor_bytes(TensorType type, const std::array<std::uint64_t, 4>& shape);

}  // namespace salvage::model
