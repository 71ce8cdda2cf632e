// Goal: the right key in any of the places where clients put it, and nothing else. Method: values.

#include "gateway/api_keys.h"

#include <gtest/gtest.h>

namespace salvage::gateway {
namespace {

http::HttpRequest with(const std::string& name, const std::string& value) {
  http::HttpRequest request;
  request.headers.emplace_back(name, value);
  return request;
}

TEST(ApiKeys, are_found_where_clients_put_them) {
  EXPECT_EQ(key_of(with("Authorization", "Bearer  sk-1 ")), "sk-1");
  EXPECT_EQ(key_of(with("authorization", "bearer sk-2")), "sk-2");
  EXPECT_EQ(key_of(with("X-Api-Key", "sk-3")), "sk-3");
  EXPECT_EQ(key_of(with("api-key", "sk-4")), "sk-4");
  EXPECT_EQ(key_of(with("Authorization", "Digest sk-5")), "");
  EXPECT_EQ(key_of(with("Authorization", "Bearer ")), "");
  EXPECT_EQ(key_of({}), "");
}

TEST(ApiKeys, a_wrong_and_a_missing_one_are_told_apart) {
  const ApiKeys keys({ApiKeys::digest_of("good"), ApiKeys::digest_of("other")}, true);
  EXPECT_EQ(keys.check(with("Authorization", "Bearer good")), KeyCheck::kGood);
  EXPECT_EQ(keys.check(with("x-api-key", "other")), KeyCheck::kGood);
  EXPECT_EQ(keys.check(with("x-api-key", "Good")), KeyCheck::kWrong);
  EXPECT_EQ(keys.check(with("x-api-key", ApiKeys::digest_of("good"))), KeyCheck::kWrong)
      << "the digest itself opens nothing";
  EXPECT_EQ(keys.check({}), KeyCheck::kMissing);
}

TEST(ApiKeys, where_none_is_required_clients_may_send_what_they_must) {
  const ApiKeys keys({ApiKeys::digest_of("good")}, false);
  EXPECT_EQ(keys.check({}), KeyCheck::kGood);
  EXPECT_EQ(keys.check(with("Authorization", "Bearer none")), KeyCheck::kGood);
}

}  // namespace
}  // namespace salvage::gateway
