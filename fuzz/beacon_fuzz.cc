// Any datagram as one of discovery's: refused, or read and written again to the same bytes.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "discovery/beacon.h"

using namespace salvage::discovery;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto datagram = std::as_bytes(std::span(data, size));
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto kind = datagram_kind(datagram);
  const auto beacon = parse_beacon(datagram);
  const auto query = parse_query(datagram);
  if ((beacon || query) && !kind) std::abort();
  if (beacon && query) std::abort();
  constexpr std::size_t kReserved = 6;  // two bytes that a reader ignores
  if (beacon) {
    const auto again = encode_beacon(*beacon);
    if (!again || again->size() != size) std::abort();
    if (again->substr(0, kReserved) != text.substr(0, kReserved)) std::abort();
    if (again->substr(kReserved + 2) != text.substr(kReserved + 2)) std::abort();
    if (*parse_beacon(std::as_bytes(std::span(*again))) != *beacon) std::abort();
  }
  if (query && encode_query(*query).substr(kReserved + 2) != text.substr(kReserved + 2))
    std::abort();
  return 0;
}
