#include "base/environment.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace salvage {
namespace {

TEST(Environment, gives_what_is_set) {
  ::setenv("SALVAGE_TEST_VARIABLE", "a value", 1);
  EXPECT_EQ(environment("SALVAGE_TEST_VARIABLE"), "a value");
}

TEST(Environment, an_empty_variable_counts_as_unset) {
  ::setenv("SALVAGE_TEST_VARIABLE", "", 1);
  EXPECT_EQ(environment("SALVAGE_TEST_VARIABLE"), std::nullopt);
  ::unsetenv("SALVAGE_TEST_VARIABLE");
  EXPECT_EQ(environment("SALVAGE_TEST_VARIABLE"), std::nullopt);
}

}  // namespace
}  // namespace salvage
