// The first two bytes choose layers, the rest is a skeleton from a peer: it must be refused or read
// like a model, whose pieces can be listed, and from whose pieces a shard can be made.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/manifest.h"
#include "model/piece.h"
#include "model/shard_plan.h"
#include "model/skeleton.h"

namespace {

using namespace salvage;

constexpr std::uint64_t kDataBytesMax = std::uint64_t{1} << 20;

// Pieces of zeros, if they are small enough to be written.
void make_shard(const std::string& bytes, const std::vector<model::Piece>& pieces,
                LayerRange layers) {
  std::uint64_t total = 0;
  for (const model::Piece& piece : pieces) {
    total += piece.bytes;
    if (total > kDataBytesMax) return;
  }
  model::PieceContents contents;
  for (const model::Piece& piece : pieces) {
    contents.push_back(std::make_unique<MemorySource>(std::string(piece.bytes, '\0')));
  }
  const auto pieced = model::open_skeleton(bytes, std::move(contents));
  CHECK(pieced.has_value());
  const auto rules = model::split_rules(*pieced, model::Unproven::kAllow);
  if (!rules) return;
  const auto plan = model::plan_shard(*pieced, layers, *rules, std::string(64, '0'));
  if (!plan) return;
  const auto size = model::gguf_bytes(plan->metadata, plan->tensors);
  if (!size || *size > 2 * kDataBytesMax) return;
  MemorySink sink;
  CHECK(model::write_gguf(plan->metadata, plan->tensors, sink, {}).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto bare = model::open_skeleton(bytes);
  if (!bare) return 0;
  const auto pieces = model::list_pieces(*bare);
  CHECK(pieces.has_value());
  std::size_t tensors = 0;
  for (const model::Piece& piece : *pieces) tensors += piece.tensors.size();
  CHECK(tensors == bare->tensors().size());
  (void)model::read_manifest(*bare, model::Unproven::kAllow);
  for (const model::TensorInfo& tensor : bare->tensors()) {
    std::byte first{};
    const auto read = bare->read(tensor, 0, std::span(&first, tensor.bytes > 0 ? 1 : 0));
    CHECK(!read && read.error().code() == ErrorCode::kNotFound);
  }
  const auto again = model::make_skeleton(*bare);
  CHECK(again.has_value());
  const auto reopened = model::open_skeleton(*again);
  CHECK(reopened && reopened->tensors().size() == bare->tensors().size());
  const LayerRange layers = {data[0], data[1]};
  (void)model::needed_pieces(*bare, *pieces, layers);
  make_shard(bytes, *pieces, layers);
  return 0;
}
