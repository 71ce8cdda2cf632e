#include "wire/skip.h"

#include <algorithm>
#include <functional>

#include "wire/bytes.h"

namespace salvage::wire {
namespace {

static_assert(sizeof(StepId) == sizeof(std::uint64_t), "its layout in memory is that on the wire");

tl::unexpected<Error> corrupt_skip(std::string_view why) {
  return fail(ErrorCode::kCorrupt, "skip: " + std::string(why));
}

bool rising(const std::vector<StepId>& steps) {
  return std::is_sorted(steps.begin(), steps.end(), std::less_equal<>());
}

}  // namespace

Result<void> encode(const Skip& skip, std::vector<std::byte>& body) {
  if (skip.steps.size() > kSkipStepsMax || !rising(skip.steps)) {
    return fail(ErrorCode::kInvalidArgument, "skip: too many steps, or not in order");
  }
  body.resize(2 * sizeof(std::uint32_t) + skip.steps.size() * sizeof(StepId));
  Writer writer(body);
  writer.number(static_cast<std::uint32_t>(skip.steps.size()));
  writer.number(std::uint32_t{0});
  writer.list(skip.steps);
  CHECK(writer.full());
  return {};
}

Result<void> decode(const FrameHeader& header, std::span<const std::byte> body, Skip& skip) {
  Reader reader(body);
  std::uint32_t count = 0;
  if (!reader.number(count) || !reader.skip(sizeof(std::uint32_t))) {
    return corrupt_skip("the body is too short");
  }
  if (count > kSkipStepsMax) return corrupt_skip("too many steps");
  if (!reader.list(skip.steps, count)) return corrupt_skip("the body is too short");
  if (!reader.done() || header.data_bytes != 0) return corrupt_skip("the body is too long");
  if (!rising(skip.steps)) return corrupt_skip("the steps are not in order");
  return {};
}

}  // namespace salvage::wire
