// Goal: only whole ids are taken for ids, and people see them in two fixed forms.

#include "identity/fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.h"

namespace salvage::identity {
namespace {

const std::string kId = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

TEST(Fingerprint, a_whole_id_reads_and_anything_else_is_quoted) {
  const auto node = parse_node_id(kId);
  ASSERT_TRUE(node);
  EXPECT_EQ(node->value, kId);
  const std::string rest = kId.substr(1);
  for (const std::string& text :
       {std::string(), rest, kId + "0", std::string(1, 'A').append(rest),
        std::string(1, 'g').append(rest), std::string(1, ' ').append(rest)}) {
    const auto refused = parse_node_id(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message(), testing::HasSubstr(text.substr(0, 64)));
    EXPECT_FALSE(is_digest(text));
  }
}

TEST(Fingerprint, the_short_form_has_twelve_digits_and_the_grouped_one_all) {
  EXPECT_EQ(short_form(NodeId{kId}), "0123456789ab");
  EXPECT_EQ(short_form("0123"), "0123");
  EXPECT_EQ(grouped_form("0123456789"), "0123-4567-89");
  EXPECT_EQ(grouped_form(kId).size(), 64U + 15U);
  EXPECT_EQ(grouped_form(""), "");
}

}  // namespace
}  // namespace salvage::identity
