#pragma once

// CHECK(condition) states an invariant of our own code and is always on: a violated one prints
// where it stands and aborts. Bytes, counts or ids that come from a peer, a file or a user never
// reach a CHECK; they yield a Result.

namespace salvage {
[[noreturn]] void check_failed(const char* file, int line, const char* condition);
}  // namespace salvage

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) ::salvage::check_failed(__FILE__, __LINE__, #condition); \
  } while (false)
