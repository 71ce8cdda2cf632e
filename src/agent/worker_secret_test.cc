#include "agent/worker_secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::agent {
namespace {

const std::string kToken(64, 'a');

TEST(WorkerSecret, comes_back_as_it_went_and_fits_one_line) {
  const WorkerSecret secret{kToken, "key\nof\nlines\n", "certificate\n", "authority\n"};
  const std::string line = encode_worker_secret(secret);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto back = parse_worker_secret(line);
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->token, kToken);
  EXPECT_EQ(back->key, secret.key);
  EXPECT_EQ(back->certificate, secret.certificate);
  EXPECT_EQ(back->authority, secret.authority);
}

TEST(WorkerSecret, needs_no_identity_within_a_machine) {
  const auto back = parse_worker_secret(encode_worker_secret({.token = kToken}));
  ASSERT_TRUE(back);
  EXPECT_FALSE(back->has_identity());
}

TEST(WorkerSecret, is_refused_without_being_quoted) {
  for (const std::string& line :
       {std::string("geheim"), std::string("[]"), std::string(R"({"token":"geheim"})"),
        R"({"token":")" + kToken + R"(","key":"geheim"})", R"({"token":7})" + std::string()}) {
    const auto back = parse_worker_secret(line);
    ASSERT_FALSE(back) << line;
    EXPECT_THAT(back.error().message(), testing::Not(testing::HasSubstr("geheim")));
  }
}

}  // namespace
}  // namespace salvage::agent
