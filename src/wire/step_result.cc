#include "wire/step_result.h"

#include <fmt/format.h>

#include "wire/bytes.h"

namespace salvage::wire {
namespace {

constexpr std::size_t kResultFixedBytes = 16;
constexpr std::uint8_t kResultFlagSkipped = 1;  // other bits are ignored

tl::unexpected<Error> corrupt_result(std::string_view why) {
  return fail(ErrorCode::kCorrupt, fmt::format("step_result: {}", why));
}

// Counts of the lists that a form has.
struct Lists {
  std::uint64_t candidates = 0;
  std::uint64_t sums = 0;
  std::uint64_t hashes = 0;
};
Lists lists_of(const StepResult& result) {
  const std::uint64_t rows = result.row_count;
  switch (result.form) {
    case LogitsForm::kAll:
      return {};
    case LogitsForm::kTopK:
      return {rows * result.top_k, rows, 0};
    case LogitsForm::kHash:
      return {0, 0, rows};
  }
  return {};
}

// What makes sense at all, whoever says it; both directions go through here.
Result<void> check_numbers(const StepResult& result) {
  if (result.row_count > kLogitRowsMax) return corrupt_result("too many rows");
  if (result.skipped && result.row_count > 0) return corrupt_result("rows of a skipped step");
  if (result.vocabulary_size > kVocabularyMax) return corrupt_result("vocabulary too large");
  if (result.form > LogitsForm::kHash) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("step_result: unknown logits form {}", unsigned(result.form)));
  }
  const bool top_k = result.form == LogitsForm::kTopK;
  const bool k_fits = result.top_k <= kTopKMax && result.top_k <= result.vocabulary_size &&
                      (result.top_k == 0 || top_k);
  if (!k_fits) return corrupt_result("k does not fit the form or the vocabulary");
  if (result.data_bytes() > kDataBytesMax) return corrupt_result("too many logits");
  return {};
}

Result<void> check_ids(const StepResult& result) {
  for (const TokenId id : result.ids) {
    if (id < 0 || static_cast<std::uint32_t>(id) >= result.vocabulary_size) {
      return corrupt_result("token id outside the vocabulary");
    }
  }
  return {};
}

Result<void> check_result(const StepResult& result) {
  RETURN_IF_ERROR(check_numbers(result));
  const Lists lists = lists_of(result);
  const bool fits = result.ids.size() == lists.candidates &&
                    result.logits.size() == lists.candidates &&
                    result.log_sum_exp.size() == lists.sums &&
                    result.hashes.size() == lists.hashes && result.timings.size() <= kStagesMax;
  if (!fits) return corrupt_result("the lists do not fit the form");
  return check_ids(result);
}

std::uint64_t body_bytes(const StepResult& result) {
  const Lists lists = lists_of(result);
  return kResultFixedBytes + lists.candidates * (sizeof(TokenId) + sizeof(float)) +
         lists.sums * sizeof(float) + lists.hashes * sizeof(std::uint64_t) +
         result.timings.size() * sizeof(StageTiming);
}

}  // namespace

Result<void> encode(const StepResult& result, std::vector<std::byte>& body) {
  if (auto checked = check_result(result); !checked) {
    return fail(ErrorCode::kInvalidArgument, checked.error().message());
  }
  const std::uint64_t bytes = body_bytes(result);
  if (bytes > kDataBodyBytesMax) {
    return fail(ErrorCode::kInvalidArgument, "step_result: too many candidates for one frame");
  }
  body.resize(bytes);
  Writer writer(body);
  writer.number(result.row_count);
  writer.number(result.vocabulary_size);
  writer.number(result.top_k);
  writer.number(static_cast<std::uint8_t>(result.form));
  writer.number(result.skipped ? kResultFlagSkipped : std::uint8_t{0});
  writer.number(static_cast<std::uint16_t>(result.timings.size()));
  writer.list(result.ids);
  writer.list(result.logits);
  writer.list(result.log_sum_exp);
  writer.list(result.hashes);
  writer.list(result.timings);
  CHECK(writer.full());
  return {};
}

Result<void> decode(const FrameHeader& header, std::span<const std::byte> body,
                    StepResult& result) {
  Reader reader(body);
  std::uint8_t form = 0;
  std::uint8_t flags = 0;
  std::uint16_t timing_count = 0;
  result.epoch = header.epoch;
  result.step = header.step;
  const bool fixed = reader.number(result.row_count) && reader.number(result.vocabulary_size) &&
                     reader.number(result.top_k) && reader.number(form) && reader.number(flags) &&
                     reader.number(timing_count);
  if (!fixed) return corrupt_result("the body is too short");
  result.form = static_cast<LogitsForm>(form);
  result.skipped = (flags & kResultFlagSkipped) != 0;
  RETURN_IF_ERROR(check_numbers(result));
  if (timing_count > kStagesMax) return corrupt_result("too many timings");
  const Lists lists = lists_of(result);
  const bool complete =
      reader.list(result.ids, lists.candidates) && reader.list(result.logits, lists.candidates) &&
      reader.list(result.log_sum_exp, lists.sums) && reader.list(result.hashes, lists.hashes) &&
      reader.list(result.timings, timing_count);
  if (!complete) return corrupt_result("the body is too short");
  if (!reader.done()) return corrupt_result("the body is too long");
  if (header.data_bytes != result.data_bytes()) {
    return corrupt_result(fmt::format("{} rows of {} logits are not {} bytes of data",
                                      result.row_count, result.vocabulary_size, header.data_bytes));
  }
  return check_ids(result);
}

}  // namespace salvage::wire
