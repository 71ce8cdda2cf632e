// Goal: whoever compares two kernel fingerprints sees every difference that moves bits. Method:
// what a fingerprint of this build must say, and that it changes with what it is asked about. The
// kernels of the portable directory have their own tests (tests/dist/).
#include "engine/llama/fingerprint.h"

#include <gmock/gmock.h>
#include <gnu/libc-version.h>

namespace salvage::engine {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Fingerprint, it_names_the_kernels_the_processor_and_the_mathematics) {
  const std::string text = kernel_fingerprint(WeightPlacement{}, StageOptions{});
  EXPECT_THAT(text, HasSubstr("; kernels native; cpu "));
  EXPECT_THAT(text, Not(HasSubstr("cpu none")));
  EXPECT_THAT(text, HasSubstr(std::string("; libm ") + gnu_get_libc_version() + " "));
}

TEST(Fingerprint, it_changes_with_repacking_and_with_the_cache) {
  WeightPlacement plain;
  plain.repack = false;
  StageOptions wider;
  wider.cache_type_v = CacheType::kF16;
  const std::string usual = kernel_fingerprint(WeightPlacement{}, StageOptions{});
  EXPECT_NE(kernel_fingerprint(plain, StageOptions{}), usual);
  EXPECT_NE(kernel_fingerprint(WeightPlacement{}, wider), usual);
}

}  // namespace
}  // namespace salvage::engine
