// Any bytes, read as a catalogue entry: what is taken must survive being written, and name the same
// model.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/sha256.h"
#include "model/piece_catalogue.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace salvage;
  const auto entry = model::parse_entry({reinterpret_cast<const char*>(data), size});
  if (!entry) return 0;
  CHECK(entry->pieces.size() <= model::kPieceCountMax);
  CHECK(is_digest(entry->skeleton.value) && is_digest(entry->model_digest));
  for (const model::PieceEntry& piece : entry->pieces) CHECK(is_digest(piece.digest.value));
  const auto again = model::parse_entry(model::encode_entry(*entry));
  CHECK(again.has_value() && *again == *entry);
  CHECK(again->id() == entry->id() && again->bytes() == entry->bytes());
  return 0;
}
