// A GGUF file is: magic "GGUF", version, counts of tensors and keys; the keys with their values;
// one record a tensor (name, shape, type, offset); padding; the tensors' data, one behind the
// other, each padded to the alignment. Everything here is written by strangers. The rule that keeps
// memory small is that nothing is reserved by a count: containers grow as bytes are really read,
// and a length is compared with what is left of the file first.

#include "model/gguf_header.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include <fmt/format.h>

namespace salvage::model {
namespace {

constexpr std::size_t kWindowBytes = 64 << 10;
constexpr std::uint64_t kTensorRecordBytesMin = 8 + 4 + 4 + 8;  // empty name, no dimension
constexpr std::uint64_t kKeyRecordBytesMin = 8 + 1 + 4 + 1;     // one-letter key, one byte

// Reads a file front to back through one window.
class HeaderReader {
 public:
  explicit HeaderReader(const ByteSource& file) : file_(file), window_(kWindowBytes) {}

  std::uint64_t offset() const { return window_begin_ + used_; }
  std::uint64_t left() const { return file_.size() - offset(); }

  Result<void> read(void* into, std::size_t count) {
    auto* to = static_cast<char*>(into);
    while (count > 0) {
      if (used_ == filled_) RETURN_IF_ERROR(refill());
      const std::size_t step = std::min(count, filled_ - used_);
      std::memcpy(to, window_.data() + used_, step);
      used_ += step;
      to += step;
      count -= step;
    }
    return {};
  }

  template <typename T>
  Result<T> number() {
    T value{};
    RETURN_IF_ERROR(read(&value, sizeof value));
    return value;
  }

  // Appends `count` bytes to `to`, after making sure that the file has them.
  Result<void> append(std::uint64_t count, std::string& to) {
    if (count > left()) return ended();
    while (count > 0) {
      if (used_ == filled_) RETURN_IF_ERROR(refill());
      const std::size_t step = std::min<std::uint64_t>(count, filled_ - used_);
      to.append(reinterpret_cast<const char*>(window_.data()) + used_, step);
      used_ += step;
      count -= step;
    }
    return {};
  }

  tl::unexpected<Error> ended() const {
    return fail(ErrorCode::kCorrupt,
                fmt::format("the file ends after {} bytes, inside its metadata; the download or "
                            "copy is incomplete, fetch it again",
                            file_.size()));
  }

 private:
  Result<void> refill() {
    window_begin_ += filled_;
    used_ = filled_ = 0;
    const std::uint64_t rest = file_.size() - window_begin_;
    if (rest == 0) return ended();
    const std::size_t count = std::min<std::uint64_t>(rest, window_.size());
    RETURN_IF_ERROR(file_.read_at(window_begin_, std::span(window_).first(count)));
    filled_ = count;
    return {};
  }

  const ByteSource& file_;
  std::vector<std::byte> window_;
  std::uint64_t window_begin_ = 0;
  std::size_t used_ = 0;
  std::size_t filled_ = 0;
};

tl::unexpected<Error> corrupt(std::string message) {
  return fail(ErrorCode::kCorrupt, std::move(message));
}

tl::unexpected<Error> over_limit(std::string_view what, std::uint64_t is, std::uint64_t limit) {
  return corrupt(fmt::format("{} is {}, the limit is {}; the file is damaged", what, is, limit));
}

// Says what a file that doesn't begin with the magic probably is.
tl::unexpected<Error> not_gguf(std::string_view begin) {
  const std::size_t visible = begin.find_first_not_of(" \t\r\n");
  const std::string_view text = begin.substr(std::min(visible, begin.size()));
  std::string hint = "it does not begin with the letters GGUF";
  if (text.starts_with('<')) {
    hint =
        "it is a web page, saved in place of the model; open the address in a browser to see why";
  } else if (text.starts_with("version https://git-lfs")) {
    hint = "it is a Git LFS pointer; run `git lfs pull` or download the file itself";
  } else if (begin.starts_with("PK")) {
    hint = "it is a zip archive; unpack it first";
  } else if (begin.starts_with("lmgg") || begin.starts_with("tjgg") || begin.starts_with("fmgg")) {
    hint = "it is in the older ggml format; convert the model to GGUF again";
  } else if (begin.size() > 8 && begin[8] == '{') {
    hint = "it looks like a safetensors file; convert the model to GGUF first";
  }
  return fail(ErrorCode::kUnsupported, "not a GGUF file: " + hint);
}

Result<void> check_version(std::uint32_t version) {
  if ((version & 0xffff) == 0 && version != 0) {
    return fail(ErrorCode::kUnsupported,
                "the file is big-endian; get the little-endian file of this model");
  }
  if (version == 1) {
    return fail(ErrorCode::kUnsupported,
                "GGUF version 1 is no longer read by anyone; convert the model again");
  }
  if (version < 2 || version > 3) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("GGUF version {}; this program reads 2 and 3", version));
  }
  return {};
}

struct Counts {
  std::uint64_t tensors = 0;
  std::uint64_t keys = 0;
};

Result<Counts> read_counts(HeaderReader& in, const ByteSource& file) {
  if (file.size() == 0) return corrupt("the file is empty; the download never started");
  std::string begin;
  RETURN_IF_ERROR(in.append(std::min<std::uint64_t>(file.size(), 4), begin));
  if (begin != "GGUF") {
    RETURN_IF_ERROR(in.append(std::min<std::uint64_t>(in.left(), 60), begin));
    return not_gguf(begin);
  }
  ASSIGN_OR_RETURN(const auto version, in.number<std::uint32_t>());
  RETURN_IF_ERROR(check_version(version));
  Counts counts;
  ASSIGN_OR_RETURN(counts.tensors, in.number<std::uint64_t>());
  ASSIGN_OR_RETURN(counts.keys, in.number<std::uint64_t>());
  if (counts.tensors > kTensorCountMax) {
    return over_limit("the number of tensors", counts.tensors, kTensorCountMax);
  }
  if (counts.keys > kKeyCountMax)
    return over_limit("the number of keys", counts.keys, kKeyCountMax);
  if (counts.tensors * kTensorRecordBytesMin + counts.keys * kKeyRecordBytesMin > in.left()) {
    return in.ended();
  }
  return counts;
}

// A length and that many bytes, appended to `to`; the length itself only if `with_length`.
Result<void> read_text(HeaderReader& in, std::uint64_t bytes_max, bool with_length,
                       std::string& to) {
  ASSIGN_OR_RETURN(const auto length, in.number<std::uint64_t>());
  if (length > bytes_max) return over_limit("the length of a string", length, bytes_max);
  if (with_length) to.append(reinterpret_cast<const char*>(&length), sizeof length);
  return in.append(length, to);
}

Result<Value> read_value(HeaderReader& in) {
  ASSIGN_OR_RETURN(auto type, in.number<std::uint32_t>());
  const bool is_array = type == static_cast<std::uint32_t>(ValueType::kArray);
  std::uint64_t count = 1;
  if (is_array) {
    ASSIGN_OR_RETURN(type, in.number<std::uint32_t>());
    ASSIGN_OR_RETURN(count, in.number<std::uint64_t>());
    if (count > kArrayElementsMax) return over_limit("an array", count, kArrayElementsMax);
  }
  const auto element = static_cast<ValueType>(type);
  const std::uint32_t width = value_type_bytes(element);
  std::string payload;
  if (width > 0) {
    RETURN_IF_ERROR(in.append(count * width, payload));
  } else if (element == ValueType::kString) {
    for (std::uint64_t i = 0; i < count; ++i) {
      RETURN_IF_ERROR(read_text(in, kStringBytesMax, true, payload));
      if (payload.size() > kMetadataBytesMax) {
        return over_limit("a string array's size", payload.size(), kMetadataBytesMax);
      }
    }
  } else {
    return corrupt(fmt::format("value type {} is unknown", type));
  }
  payload.shrink_to_fit();
  return Value::from_file(element, is_array, count, std::move(payload));
}

Result<void> read_keys(HeaderReader& in, std::uint64_t count, Metadata& metadata) {
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string key;
    RETURN_IF_ERROR(read_text(in, kKeyBytesMax, false, key));
    if (key.empty()) return corrupt(fmt::format("key {} has no name", i));
    if (metadata.has(key)) return corrupt(fmt::format("key \"{}\" appears twice", key));
    auto value = read_value(in);
    if (!value) return fail(std::move(value).error().within(fmt::format("key \"{}\"", key)));
    metadata.set(key, std::move(*value));
    if (in.offset() > kMetadataBytesMax) {
      return over_limit("the metadata's size", in.offset(), kMetadataBytesMax);
    }
  }
  return {};
}

Result<std::uint64_t> read_alignment(const Metadata& metadata) {
  const Value* const value = metadata.find("general.alignment");
  if (value == nullptr) return std::uint64_t{kAlignmentDefault};
  if (value->is_array() || value->type() != ValueType::kU32) {
    return corrupt("general.alignment is not a 32-bit number");
  }
  const std::uint64_t alignment = *value->unsigned_at(0);
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > kAlignmentMax) {
    return corrupt(fmt::format("general.alignment is {}, not a power of two up to {}", alignment,
                               kAlignmentMax));
  }
  return alignment;
}

// `offset` as the file has it: from the beginning of the data.
Result<TensorInfo> read_tensor_record(HeaderReader& in) {
  TensorInfo tensor;
  RETURN_IF_ERROR(read_text(in, kTensorNameBytesMax, false, tensor.name));
  ASSIGN_OR_RETURN(tensor.dimension_count, in.number<std::uint32_t>());
  if (tensor.dimension_count > tensor.shape.size()) {
    return over_limit(fmt::format("tensor \"{}\": the number of dimensions", tensor.name),
                      tensor.dimension_count, tensor.shape.size());
  }
  for (std::uint32_t i = 0; i < tensor.dimension_count; ++i) {
    ASSIGN_OR_RETURN(tensor.shape[i], in.number<std::uint64_t>());
  }
  ASSIGN_OR_RETURN(const auto type, in.number<std::uint32_t>());
  if (!tensor_type_facts(type)) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor \"{}\" has type {}, which llama.cpp v0.4.0 does not read; "
                            "quantise the model again",
                            tensor.name, type));
  }
  tensor.type = static_cast<TensorType>(type);
  ASSIGN_OR_RETURN(tensor.offset, in.number<std::uint64_t>());
  auto bytes = tensor_bytes(tensor.type, tensor.shape);
  if (!bytes) {
    return fail(std::move(bytes).error().within(fmt::format("tensor \"{}\"", tensor.name)));
  }
  tensor.bytes = *bytes;
  return tensor;
}

// Joined by `cat`: the next part's magic stands where this part's data ends.
bool another_gguf_at(const ByteSource& file, std::uint64_t offset) {
  std::array<std::byte, 4> magic{};
  if (offset > file.size() || file.size() - offset < magic.size()) return false;
  if (!file.read_at(offset, magic)) return false;
  return std::memcmp(magic.data(), "GGUF", magic.size()) == 0;
}

std::uint64_t padded(std::uint64_t bytes, std::uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// Offsets must be the running sum of padded sizes, as libllama demands too: no overlap, no gap.
Result<void> place_tensors(const ByteSource& file, TensorData data, GgufHeader& header) {
  const std::uint64_t data_begin = padded(header.header_bytes, header.alignment);
  std::uint64_t next = 0;
  std::uint64_t end = data_begin;
  const TensorInfo* first_cut = nullptr;
  for (TensorInfo& tensor : header.tensors) {
    if (tensor.offset != next) {
      return corrupt(
          fmt::format("tensor \"{}\" begins at {} where {} is expected; data overlaps or "
                      "has gaps",
                      tensor.name, tensor.offset, next));
    }
    // Far beyond any file: keeps all sums below from wrapping around.
    if (tensor.bytes > (std::uint64_t{1} << 56) || next > (std::uint64_t{1} << 56)) {
      return corrupt(fmt::format("tensor \"{}\" has {} bytes", tensor.name, tensor.bytes));
    }
    tensor.offset = data_begin + next;
    end = tensor.offset + tensor.bytes;
    if (end > file.size() && first_cut == nullptr) first_cut = &tensor;
    next += padded(tensor.bytes, header.alignment);
  }
  if (data == TensorData::kElsewhere) return {};
  if (first_cut != nullptr) {
    return corrupt(
        fmt::format("truncated: {} bytes are missing at the end, from tensor \"{}\" on; "
                    "the download or copy is incomplete, fetch it again",
                    end - file.size(), first_cut->name));
  }
  if (another_gguf_at(file, end) || another_gguf_at(file, data_begin + next)) {
    return corrupt(
        "several GGUF files were joined into one; keep the parts as files of their own "
        "(name-00001-of-0000N.gguf), or merge them with llama-gguf-split --merge");
  }
  return {};
}

}  // namespace

Result<GgufHeader> read_gguf_header(const ByteSource& file, TensorData data) {
  HeaderReader in(file);
  ASSIGN_OR_RETURN(const Counts counts, read_counts(in, file));
  GgufHeader header;
  RETURN_IF_ERROR(read_keys(in, counts.keys, header.metadata));
  ASSIGN_OR_RETURN(header.alignment, read_alignment(header.metadata));
  std::unordered_set<std::string> names;
  for (std::uint64_t i = 0; i < counts.tensors; ++i) {
    ASSIGN_OR_RETURN(TensorInfo tensor, read_tensor_record(in));
    if (!names.insert(tensor.name).second) {
      return corrupt(fmt::format("tensor \"{}\" appears twice", tensor.name));
    }
    header.tensors.push_back(std::move(tensor));
  }
  header.header_bytes = in.offset();
  RETURN_IF_ERROR(place_tensors(file, data, header));
  return header;
}

}  // namespace salvage::model
