#include "base/random.h"

#include <bit>
#include <cerrno>
#include <cstddef>
#include <vector>

#include <sys/random.h>

#include "base/check.h"

namespace salvage {
namespace {

// Spreads a seed over the whole state, so that seeds 1 and 2 have nothing in common.
std::uint64_t splitmix(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace

Result<std::string> random_hex(std::size_t byte_count) {
  std::vector<unsigned char> bytes(byte_count);
  for (std::size_t done = 0; done < byte_count;) {
    const auto got = ::getrandom(bytes.data() + done, byte_count - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(ErrorCode::kUnavailable, "the system gives no random bytes");
    done += static_cast<std::size_t>(got);
  }
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * byte_count);
  for (const unsigned char byte : bytes) {
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

bool equal_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  // Volatile: the compiler must not find out that it could leave the loop early.
  volatile unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = difference | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

Random::Random(std::uint64_t seed) {
  for (auto& word : state_) word = splitmix(seed);
}

Random::result_type Random::operator()() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Random::below(std::uint64_t bound) {
  CHECK(bound > 0);
  // Numbers under `skip` would make the low results likelier than the others.
  const std::uint64_t skip = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t number = (*this)();
    if (number >= skip) return number % bound;
  }
}

double Random::unit() {
  return static_cast<double>((*this)() >> 11) * 0x1.0p-53;
}

}  // namespace salvage
