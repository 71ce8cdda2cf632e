#include "model/gguf_writer.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace salvage::model {
namespace {

// One read and one write move this much: large enough for any disk, small beside 64 MiB.
constexpr std::size_t kCopyBytes = 1 << 20;
constexpr std::uint32_t kVersionWritten = 3;

std::uint64_t alignment_of(const Metadata& metadata) {
  const std::uint64_t alignment =
      metadata.unsigned_value("general.alignment").value_or(kAlignmentDefault);
  const bool usable =
      alignment > 0 && alignment <= kAlignmentMax && (alignment & (alignment - 1)) == 0;
  return usable ? alignment : kAlignmentDefault;
}

std::uint64_t padding_after(std::uint64_t bytes, std::uint64_t alignment) {
  return (alignment - bytes % alignment) % alignment;
}

template <typename T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& out, std::string_view text) {
  append(out, std::uint64_t{text.size()});
  out.append(text);
}

void append_value(std::string& out, const Value& value) {
  if (value.is_array()) append(out, static_cast<std::uint32_t>(ValueType::kArray));
  append(out, static_cast<std::uint32_t>(value.type()));
  if (value.is_array()) append(out, value.count());
  out.append(value.payload());
}

Result<void> write_text(ByteSink& sink, const std::string& text) {
  return sink.write(std::as_bytes(std::span(text)));
}

// Writes tensor data and counts, so that progress and cancelling are in one place.
class DataWriter {
 public:
  DataWriter(ByteSink& sink, const Progress& progress, std::uint64_t bytes_total)
      : sink_(sink), progress_(progress), bytes_total_(bytes_total), buffer_(kCopyBytes) {}

  Result<void> write(const OutputTensor& tensor, std::uint64_t bytes) {
    if (const auto* given = std::get_if<GivenData>(&tensor.data)) {
      if (given->bytes.size() != bytes) {
        return fail(ErrorCode::kInvalidArgument,
                    fmt::format("tensor \"{}\" wants {} bytes of data", tensor.name, bytes));
      }
      return put(std::as_bytes(std::span(given->bytes)));
    }
    if (const auto* whole = std::get_if<CopiedData>(&tensor.data)) return copy(*whole);
    if (const auto* columns = std::get_if<CopiedColumns>(&tensor.data)) return copy(*columns);
    return zeros(bytes);
  }

  Result<void> zeros(std::uint64_t count) {
    if (count == 0) return {};
    const std::size_t used = std::min<std::uint64_t>(count, buffer_.size());
    std::fill_n(buffer_.begin(), used, std::byte{0});
    while (count > 0) {
      const std::size_t step = std::min<std::uint64_t>(count, buffer_.size());
      RETURN_IF_ERROR(put(std::span(buffer_).first(step)));
      count -= step;
    }
    return {};
  }

 private:
  Result<void> put(std::span<const std::byte> bytes) {
    RETURN_IF_ERROR(sink_.write(bytes));
    bytes_done_ += bytes.size();
    if (!progress_) return {};
    const double share = bytes_total_ == 0
                             ? 1.0
                             : static_cast<double>(bytes_done_) / static_cast<double>(bytes_total_);
    if (!progress_(std::min(share, 1.0))) return fail(ErrorCode::kCancelled, "stopped on request");
    return {};
  }

  Result<void> copy(const CopiedData& from) {
    for (std::uint64_t done = 0; done < from.tensor->bytes;) {
      const std::size_t step = std::min<std::uint64_t>(from.tensor->bytes - done, buffer_.size());
      const auto part = std::span(buffer_).first(step);
      RETURN_IF_ERROR(from.model->read(*from.tensor, done, part));
      RETURN_IF_ERROR(put(part));
      done += step;
    }
    return {};
  }

  // Rows are read whole, as many as fit the buffer, and packed to their wanted bytes in place.
  Result<void> copy(const CopiedColumns& from) {
    const std::uint64_t row_bytes = from.tensor->row_bytes();
    const std::uint64_t row_total = from.tensor->bytes / row_bytes;
    if (row_bytes > buffer_.size()) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor \"{}\" has rows of {} bytes", from.tensor->name, row_bytes));
    }
    const std::uint64_t rows_at_once = buffer_.size() / row_bytes;
    for (std::uint64_t row = 0; row < row_total;) {
      const std::uint64_t rows = std::min(row_total - row, rows_at_once);
      RETURN_IF_ERROR(from.model->read(*from.tensor, row * row_bytes,
                                       std::span(buffer_).first(rows * row_bytes)));
      for (std::uint64_t i = 0; i < rows; ++i) {
        std::memmove(buffer_.data() + i * from.row_count,
                     buffer_.data() + i * row_bytes + from.row_begin, from.row_count);
      }
      RETURN_IF_ERROR(put(std::span(buffer_).first(rows * from.row_count)));
      row += rows;
    }
    return {};
  }

  ByteSink& sink_;
  const Progress& progress_;
  std::uint64_t bytes_total_;
  std::uint64_t bytes_done_ = 0;
  std::vector<std::byte> buffer_;
};

struct Layout {
  std::vector<std::uint64_t> bytes;  // of each tensor, without padding
  std::uint64_t data_bytes = 0;      // with padding
};

Result<Layout> lay_out(std::span<const OutputTensor> tensors, std::uint64_t alignment) {
  Layout layout;
  for (const OutputTensor& tensor : tensors) {
    ASSIGN_OR_RETURN(const std::uint64_t bytes, tensor_bytes(tensor.type, tensor.shape));
    layout.bytes.push_back(bytes);
    layout.data_bytes += bytes + padding_after(bytes, alignment);
  }
  return layout;
}

std::uint64_t value_bytes(const Value& value) {
  return (value.is_array() ? 4 + 4 + 8 : 4) + value.payload().size();
}

std::uint64_t header_bytes(const Metadata& metadata, std::span<const OutputTensor> tensors) {
  std::uint64_t bytes = 4 + 4 + 8 + 8;
  for (const auto& [key, value] : metadata.entries()) bytes += 8 + key.size() + value_bytes(value);
  for (const OutputTensor& tensor : tensors) {
    bytes += 8 + tensor.name.size() + 4 + std::uint64_t{8} * tensor.dimension_count + 4 + 8;
  }
  return bytes;
}

// Key by key: the metadata is never in memory a second time.
Result<void> write_header(const Metadata& metadata, std::span<const OutputTensor> tensors,
                          const Layout& layout, ByteSink& sink) {
  std::string out = "GGUF";
  append(out, kVersionWritten);
  append(out, std::uint64_t{tensors.size()});
  append(out, std::uint64_t{metadata.entries().size()});
  for (const auto& [key, value] : metadata.entries()) {
    append_text(out, key);
    append_value(out, value);
    RETURN_IF_ERROR(write_text(sink, out));
    out.clear();
  }
  const std::uint64_t alignment = alignment_of(metadata);
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    append_text(out, tensors[i].name);
    append(out, tensors[i].dimension_count);
    for (std::uint32_t d = 0; d < tensors[i].dimension_count; ++d) append(out, tensors[i].shape[d]);
    append(out, static_cast<std::uint32_t>(tensors[i].type));
    append(out, offset);
    offset += layout.bytes[i] + padding_after(layout.bytes[i], alignment);
  }
  return write_text(sink, out);
}

}  // namespace

OutputTensor copy_of(const Gguf& model, const TensorInfo& tensor, std::string name) {
  return {.name = std::move(name),
          .type = tensor.type,
          .shape = tensor.shape,
          .dimension_count = tensor.dimension_count,
          .data = CopiedData{&model, &tensor}};
}

Result<std::uint64_t> gguf_bytes(const Metadata& metadata, std::span<const OutputTensor> tensors) {
  const std::uint64_t alignment = alignment_of(metadata);
  ASSIGN_OR_RETURN(const Layout layout, lay_out(tensors, alignment));
  const std::uint64_t header = header_bytes(metadata, tensors);
  return header + padding_after(header, alignment) + layout.data_bytes;
}

Result<void> write_gguf_header(const Metadata& metadata, std::span<const OutputTensor> tensors,
                               ByteSink& sink) {
  ASSIGN_OR_RETURN(const Layout layout, lay_out(tensors, alignment_of(metadata)));
  return write_header(metadata, tensors, layout, sink);
}

Result<void> write_gguf(const Metadata& metadata, std::span<const OutputTensor> tensors,
                        ByteSink& sink, const Progress& progress) {
  const std::uint64_t alignment = alignment_of(metadata);
  ASSIGN_OR_RETURN(const Layout layout, lay_out(tensors, alignment));
  RETURN_IF_ERROR(write_header(metadata, tensors, layout, sink));
  DataWriter data(sink, progress, layout.data_bytes);
  RETURN_IF_ERROR(data.zeros(padding_after(header_bytes(metadata, tensors), alignment)));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    RETURN_IF_ERROR(data.write(tensors[i], layout.bytes[i]));
    RETURN_IF_ERROR(data.zeros(padding_after(layout.bytes[i], alignment)));
  }
  return {};
}

}  // namespace salvage::model
