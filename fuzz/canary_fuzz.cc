// The fuzzer that must find something. Its fault lies behind four bytes, which blind guessing finds
// once in four thousand million inputs and coverage guidance in seconds, and only the address
// sanitizer can see it. If a run doesn't report it, nothing that the other fuzzers say counts.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

bool names_the_bird(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return false;
  if (data[0] != 'b') return false;
  if (data[1] != 'i') return false;
  if (data[2] != 'r') return false;
  return data[3] == 'd';
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> copy(data, data + size);
  if (names_the_bird(data, size)) {
    volatile std::uint8_t past_the_end = copy.data()[size];  // the planted fault
    (void)past_the_end;
  }
  return 0;
}
