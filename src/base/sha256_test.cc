// Goal: it is SHA-256, however the message is cut. Method: the vectors of FIPS 180-4 and its
// examples.

#include "base/sha256.h"

#include <gtest/gtest.h>

namespace salvage {
namespace {

std::string sha256(std::string_view message) {
  Sha256 hash;
  hash.update(message);
  return hash.hex();
}

TEST(Sha256, gives_the_standards_examples) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, does_not_see_where_the_message_was_cut) {
  Sha256 hash;
  for (int i = 0; i < 1000; ++i) hash.update(std::string(1000, 'a'));
  EXPECT_EQ(hash.hex(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace salvage
