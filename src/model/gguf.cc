#include "model/gguf.h"

#include <cctype>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/check.h"
#include "model/gguf_header.h"

namespace salvage::model {
namespace {

// "model-00002-of-00005.gguf" apart.
struct PartName {
  std::string prefix;  // "model"
  std::uint32_t number = 0;
  std::uint32_t count = 0;
};

constexpr std::size_t kPartDigits = 5;

std::optional<std::uint32_t> five_digits(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<PartName> split_part_name(std::string_view name) {
  constexpr std::string_view kEnd = ".gguf";
  constexpr std::string_view kOf = "-of-";
  constexpr std::size_t kTail = 1 + kPartDigits + kOf.size() + kPartDigits;
  if (!name.ends_with(kEnd)) return std::nullopt;
  name.remove_suffix(kEnd.size());
  if (name.size() <= kTail) return std::nullopt;
  const std::string_view tail = name.substr(name.size() - kTail);
  if (tail[0] != '-' || tail.substr(1 + kPartDigits, kOf.size()) != kOf) return std::nullopt;
  const auto number = five_digits(tail.substr(1, kPartDigits));
  const auto count = five_digits(tail.substr(kTail - kPartDigits));
  if (!number || !count) return std::nullopt;
  return PartName{std::string(name.substr(0, name.size() - kTail)), *number, *count};
}

Result<void> check_part(const Metadata& metadata, std::size_t part, std::size_t part_count) {
  const std::uint64_t count = metadata.unsigned_value("split.count").value_or(1);
  const std::uint64_t number = metadata.unsigned_value("split.no").value_or(0);
  if (count <= 1 && part_count == 1) return {};
  if (part_count == 1) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("it is part {} of {} of a model but not named so; rename the parts to "
                            "name-00001-of-{:05}.gguf and so on",
                            number + 1, count, count));
  }
  if (count != part_count || number != part) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("its name says part {} of {}, its content part {} of {}", part + 1,
                            part_count, number + 1, count));
  }
  return {};
}

}  // namespace

std::uint64_t TensorInfo::row_bytes() const {
  const auto facts = tensor_type_facts(static_cast<std::uint32_t>(type));
  CHECK(facts.has_value());
  return shape[0] / facts->block_elements * facts->block_bytes;
}

Result<std::uint64_t> tensor_bytes(TensorType type, const std::array<std::uint64_t, 4>& shape) {
  const auto facts = tensor_type_facts(static_cast<std::uint32_t>(type));
  CHECK(facts.has_value());
  if (shape[0] % facts->block_elements != 0) {
    return fail(ErrorCode::kCorrupt, fmt::format("rows of {} values are not whole blocks of {}",
                                                 shape[0], facts->block_elements));
  }
  std::uint64_t elements = 1;
  for (const std::uint64_t length : shape) {
    if (length == 0) return fail(ErrorCode::kCorrupt, "one of its dimensions has no length");
    if (__builtin_mul_overflow(elements, length, &elements) || elements > INT64_MAX) {
      return fail(ErrorCode::kCorrupt, "the number of its elements does not fit 63 bits");
    }
  }
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(elements / facts->block_elements, facts->block_bytes, &bytes)) {
    return fail(ErrorCode::kCorrupt, "its size does not fit 64 bits");
  }
  return bytes;
}

Result<Gguf> Gguf::open(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> paths = {path};
  if (const auto name = split_part_name(path.filename().native())) {
    if (name->count == 0 || name->count > kPartCountMax || name->number == 0 ||
        name->number > name->count) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: part {} of {} is not possible", path.native(), name->number,
                              name->count));
    }
    paths.clear();
    for (std::uint32_t i = 1; i <= name->count; ++i) {
      paths.push_back(path.parent_path() /
                      fmt::format("{}-{:05}-of-{:05}.gguf", name->prefix, i, name->count));
    }
  }
  std::vector<std::unique_ptr<ByteSource>> parts;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    auto file = ReadOnlyFile::open(paths[i]);
    if (!file && paths.size() > 1 && file.error().code() == ErrorCode::kNotFound) {
      return fail(ErrorCode::kNotFound,
                  fmt::format("part {} of {} is missing: {}; all parts must be in one folder",
                              i + 1, paths.size(), paths[i].native()));
    }
    if (!file) return fail(std::move(file).error());
    parts.push_back(std::make_unique<ReadOnlyFile>(std::move(*file)));
    names.push_back(paths[i].native());
  }
  return from_parts(std::move(parts), std::move(names));
}

Result<Gguf> Gguf::from_parts(std::vector<std::unique_ptr<ByteSource>> parts,
                              std::vector<std::string> names) {
  CHECK(!parts.empty() && parts.size() == names.size());
  Gguf gguf;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    auto header = read_gguf_header(*parts[part]);
    if (!header) return fail(std::move(header).error().within(names[part]));
    if (auto good = check_part(header->metadata, part, parts.size()); !good) {
      return fail(std::move(good).error().within(names[part]));
    }
    if (part == 0) {
      gguf.metadata_ = std::move(header->metadata);
      gguf.alignment_ = header->alignment;
    }
    for (TensorInfo& tensor : header->tensors) {
      tensor.part = static_cast<std::uint32_t>(part);
      if (!gguf.tensor_index_.try_emplace(tensor.name, gguf.tensors_.size()).second) {
        return fail(ErrorCode::kCorrupt, fmt::format("{}: tensor \"{}\" is in another part too",
                                                     names[part], tensor.name));
      }
      gguf.tensors_.push_back(std::move(tensor));
    }
  }
  const auto announced = gguf.metadata_.unsigned_value("split.tensors.count");
  if (announced && parts.size() > 1 && *announced != gguf.tensors_.size()) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: the parts hold {} tensors, {} are announced",
                                                 names[0], gguf.tensors_.size(), *announced));
  }
  gguf.parts_ = std::move(parts);
  gguf.names_ = std::move(names);
  return gguf;
}

Gguf Gguf::from_header(GgufHeader header, std::unique_ptr<ByteSource> data, std::string name) {
  Gguf gguf;
  gguf.metadata_ = std::move(header.metadata);
  gguf.alignment_ = header.alignment;
  gguf.tensors_ = std::move(header.tensors);
  for (std::size_t i = 0; i < gguf.tensors_.size(); ++i) {
    gguf.tensor_index_.emplace(gguf.tensors_[i].name, i);
  }
  gguf.parts_.push_back(std::move(data));
  gguf.names_.push_back(std::move(name));
  return gguf;
}

const TensorInfo* Gguf::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(std::string(name));
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

Result<void> Gguf::read(const TensorInfo& tensor, std::uint64_t offset,
                        std::span<std::byte> into) const {
  CHECK(offset <= tensor.bytes && into.size() <= tensor.bytes - offset);
  auto done = parts_[tensor.part]->read_at(tensor.offset + offset, into);
  if (!done) return fail(std::move(done).error().within(names_[tensor.part]));
  return {};
}

std::uint64_t Gguf::file_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& part : parts_) bytes += part->size();
  return bytes;
}

}  // namespace salvage::model
