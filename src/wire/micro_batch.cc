#include "wire/micro_batch.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "wire/bytes.h"

namespace salvage::wire {
namespace {

constexpr std::size_t kFixedBytes = 24;
constexpr std::size_t kSequenceOpBytes = 16;
constexpr std::uint8_t kFlagCausal = 1;
constexpr std::uint8_t kFlagWantsTiming = 2;
constexpr std::uint8_t kFlagSkipped = 4;
static_assert(sizeof(StageTiming) == 16, "its layout in memory is that on the wire");
static_assert(sizeof(SequenceId) == 4, "its layout in memory is that on the wire");

// The fixed part of a body, as it stands on the wire.
struct Fixed {
  std::uint32_t row_count = 0;
  std::uint16_t op_count = 0;
  std::uint8_t position_planes = 0;
  std::uint8_t flags = 0;
  std::uint8_t logits_form = 0;
  std::uint8_t hidden_type = 0;
  std::uint16_t timing_count = 0;
  std::uint32_t top_k = 0;
  std::uint32_t row_width = 0;
};

tl::unexpected<Error> corrupt(std::string_view why) {
  return fail(ErrorCode::kCorrupt, fmt::format("micro_batch: {}", why));
}
tl::unexpected<Error> unsupported(std::string_view what, unsigned number) {
  return fail(ErrorCode::kUnsupported, fmt::format("micro_batch: unknown {} {}", what, number));
}

bool read_fixed(Reader& reader, Fixed& fixed) {
  return reader.number(fixed.row_count) && reader.number(fixed.op_count) &&
         reader.number(fixed.position_planes) && reader.number(fixed.flags) &&
         reader.number(fixed.logits_form) && reader.number(fixed.hidden_type) &&
         reader.number(fixed.timing_count) && reader.number(fixed.top_k) &&
         reader.number(fixed.row_width) && reader.skip(4);
}

// What makes sense at all, whoever says it; both directions go through here.
Result<void> check_fixed(const Fixed& fixed) {
  if (fixed.row_count > kRowsMax) return corrupt("too many rows");
  if (fixed.op_count > kSequenceOpsMax) return corrupt("too many sequence operations");
  if (fixed.position_planes != 1 && fixed.position_planes != kPositionPlanesMax) {
    return corrupt("positions come in 1 or 4 planes");
  }
  if (fixed.timing_count > kStagesMax) return corrupt("too many timings");
  if (fixed.row_width > kRowWidthMax) return corrupt("rows too wide");
  if (fixed.row_width > 0 && fixed.row_count == 0) return corrupt("hidden states without rows");
  const unsigned unknown = fixed.flags & ~(kFlagCausal | kFlagWantsTiming | kFlagSkipped);
  if (unknown != 0) return unsupported("flags", unknown);
  if (fixed.logits_form > static_cast<std::uint8_t>(LogitsForm::kHash)) {
    return unsupported("logits form", fixed.logits_form);
  }
  if (fixed.hidden_type > static_cast<std::uint8_t>(HiddenType::kQ8)) {
    return unsupported("hidden type", fixed.hidden_type);
  }
  if ((fixed.flags & kFlagSkipped) != 0 && fixed.row_width > 0) {
    return corrupt("hidden states of rows that were left out");
  }
  const bool top_k = static_cast<LogitsForm>(fixed.logits_form) == LogitsForm::kTopK;
  if (fixed.top_k > kTopKMax || (fixed.top_k > 0) != top_k) {
    return corrupt("k does not fit the logits form");
  }
  return {};
}

std::optional<SequenceOpKind> known_kind(std::uint8_t kind) {
  const auto known = static_cast<SequenceOpKind>(kind);
  switch (known) {
    case SequenceOpKind::kClear:
    case SequenceOpKind::kTrim:
    case SequenceOpKind::kCopy:
    case SequenceOpKind::kSave:
    case SequenceOpKind::kRestore:
      return known;
  }
  return std::nullopt;
}

Result<void> read_ops(Reader& reader, std::size_t count, std::vector<SequenceOp>& ops) {
  ops.resize(count);
  for (SequenceOp& op : ops) {
    std::uint8_t kind = 0;
    std::uint32_t source = 0;
    const bool complete = reader.number(kind) && reader.skip(3) &&
                          reader.number(op.sequence.value) && reader.number(source) &&
                          reader.number(op.position);
    if (!complete) return corrupt("the body is too short");
    const auto known = known_kind(kind);
    if (!known) return unsupported("sequence operation", kind);
    op.kind = *known;
    op.source.value = names_checkpoint(op.kind) ? 0 : source;
    op.checkpoint.value = names_checkpoint(op.kind) ? source : 0;
  }
  return {};
}

bool binary(const std::vector<std::uint8_t>& flags) {
  return std::all_of(flags.begin(), flags.end(), [](std::uint8_t flag) { return flag <= 1; });
}

Fixed fixed_of(const MicroBatch& batch) {
  Fixed fixed;
  fixed.row_count = batch.row_count();
  fixed.op_count = static_cast<std::uint16_t>(std::min<std::size_t>(batch.ops.size(), 0xFFFF));
  fixed.position_planes = batch.position_planes;
  fixed.flags = static_cast<std::uint8_t>((batch.causal ? kFlagCausal : 0) |
                                          (batch.wants_timing ? kFlagWantsTiming : 0) |
                                          (batch.skipped ? kFlagSkipped : 0));
  fixed.logits_form = static_cast<std::uint8_t>(batch.logits.form);
  fixed.hidden_type = static_cast<std::uint8_t>(batch.hidden.type);
  fixed.timing_count =
      static_cast<std::uint16_t>(std::min<std::size_t>(batch.timings.size(), 0xFFFF));
  fixed.top_k = batch.logits.top_k;
  fixed.row_width = batch.hidden.row_width;
  return fixed;
}

Result<void> check_batch(const MicroBatch& batch) {
  if (batch.tokens.size() > kRowsMax) return corrupt("too many rows");
  RETURN_IF_ERROR(check_fixed(fixed_of(batch)));
  const std::size_t rows = batch.tokens.size();
  const bool fits = batch.positions.size() == rows * batch.position_planes &&
                    batch.sequences.size() == rows && batch.wants_logits.size() == rows;
  if (!fits) return corrupt("positions, sequences and flags are not one a row");
  if (!binary(batch.wants_logits)) return corrupt("wants logits is 0 or 1");
  if (batch.hidden.row_count != (batch.hidden.row_width > 0 ? rows : 0)) {
    return corrupt("hidden states are not one a row");
  }
  if (hidden_bytes(batch.hidden) > kDataBytesMax) return corrupt("too many hidden states");
  return {};
}

std::size_t body_bytes(const MicroBatch& batch) {
  return kFixedBytes + batch.ops.size() * kSequenceOpBytes + batch.tokens.size() * sizeof(TokenId) +
         batch.positions.size() * sizeof(std::int32_t) +
         batch.sequences.size() * sizeof(SequenceId) + batch.wants_logits.size() +
         batch.timings.size() * sizeof(StageTiming);
}

}  // namespace

bool names_checkpoint(SequenceOpKind kind) {
  return kind == SequenceOpKind::kSave || kind == SequenceOpKind::kRestore;
}

Result<void> encode(const MicroBatch& batch, std::vector<std::byte>& body) {
  if (auto checked = check_batch(batch); !checked) {
    return fail(ErrorCode::kInvalidArgument, checked.error().message());
  }
  body.resize(body_bytes(batch));
  Writer writer(body);
  const Fixed fixed = fixed_of(batch);
  writer.number(fixed.row_count);
  writer.number(fixed.op_count);
  writer.number(fixed.position_planes);
  writer.number(fixed.flags);
  writer.number(fixed.logits_form);
  writer.number(fixed.hidden_type);
  writer.number(fixed.timing_count);
  writer.number(fixed.top_k);
  writer.number(fixed.row_width);
  writer.number(std::uint32_t{0});
  for (const SequenceOp& op : batch.ops) {
    writer.number(static_cast<std::uint32_t>(op.kind));  // u8 and three bytes of 0
    writer.number(op.sequence.value);
    writer.number(names_checkpoint(op.kind) ? op.checkpoint.value : op.source.value);
    writer.number(op.position);
  }
  writer.list(batch.tokens);
  writer.list(batch.positions);
  writer.list(batch.sequences);
  writer.list(batch.wants_logits);
  writer.list(batch.timings);
  CHECK(writer.full());
  return {};
}

Result<void> decode(const FrameHeader& header, std::span<const std::byte> body, MicroBatch& batch) {
  Reader reader(body);
  Fixed fixed;
  if (!read_fixed(reader, fixed)) return corrupt("the body is too short");
  RETURN_IF_ERROR(check_fixed(fixed));
  batch.epoch = header.epoch;
  batch.step = header.step;
  batch.position_planes = fixed.position_planes;
  batch.causal = (fixed.flags & kFlagCausal) != 0;
  batch.wants_timing = (fixed.flags & kFlagWantsTiming) != 0;
  batch.skipped = (fixed.flags & kFlagSkipped) != 0;
  batch.logits = {static_cast<LogitsForm>(fixed.logits_form), fixed.top_k};
  batch.hidden = {fixed.row_width > 0 ? fixed.row_count : 0, fixed.row_width,
                  static_cast<HiddenType>(fixed.hidden_type)};
  RETURN_IF_ERROR(read_ops(reader, fixed.op_count, batch.ops));
  const bool complete =
      reader.list(batch.tokens, fixed.row_count) &&
      reader.list(batch.positions, std::uint64_t{fixed.row_count} * fixed.position_planes) &&
      reader.list(batch.sequences, fixed.row_count) &&
      reader.list(batch.wants_logits, fixed.row_count) &&
      reader.list(batch.timings, fixed.timing_count);
  if (!complete) return corrupt("the body is too short");
  if (!reader.done()) return corrupt("the body is too long");
  if (!binary(batch.wants_logits)) return corrupt("wants logits is 0 or 1");
  if (header.data_bytes != hidden_bytes(batch.hidden)) {
    return corrupt(fmt::format("{} rows of {} {} values are not {} bytes of data",
                               batch.hidden.row_count, batch.hidden.row_width,
                               hidden_type_name(batch.hidden.type), header.data_bytes));
  }
  return {};
}

Result<void> encode(const Credit& credit, std::vector<std::byte>& body) {
  if (credit.count > kCreditsMax) {
    return fail(ErrorCode::kInvalidArgument, "credit: too many at once");
  }
  body.resize(sizeof(credit.count));
  Writer(body).number(credit.count);
  return {};
}

Result<void> decode(const FrameHeader& header, std::span<const std::byte> body, Credit& credit) {
  Reader reader(body);
  if (!reader.number(credit.count) || !reader.done() || header.data_bytes != 0) {
    return fail(ErrorCode::kCorrupt, "credit: the body is not one number");
  }
  if (credit.count > kCreditsMax) return fail(ErrorCode::kCorrupt, "credit: too many at once");
  return {};
}

}  // namespace salvage::wire
