// The first two bytes choose layers, the rest is a model: whatever shard can be made of it must be
// a file that the reader takes back, with the facts that were meant.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/shard.h"
#include "model/shard_plan.h"

namespace {

using namespace salvage;

Result<model::Gguf> open(std::string bytes) {
  std::vector<std::unique_ptr<ByteSource>> parts;
  parts.push_back(std::make_unique<MemorySource>(std::move(bytes)));
  return model::Gguf::from_parts(std::move(parts), {"fuzz"});
}

void write_and_read(const model::FilePlan& plan, bool is_shard) {
  MemorySink sink;
  if (!model::write_gguf(plan.metadata, plan.tensors, sink, {})) return;
  const auto bytes = model::gguf_bytes(plan.metadata, plan.tensors);
  CHECK(bytes && *bytes == sink.bytes().size());
  const auto made = open(sink.bytes());
  CHECK(made.has_value());
  const auto facts = model::read_shard_facts(*made);
  if (facts) CHECK(facts->has_value() == is_shard);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto model = open(std::string(reinterpret_cast<const char*>(data) + 2, size - 2));
  if (!model) return 0;
  const auto rules = model::split_rules(*model, model::Unproven::kAllow);
  if (!rules) return 0;
  const LayerRange layers = {data[0] % rules->layer_count,
                             std::min<std::uint32_t>(data[1], rules->layer_count)};
  const std::string digest(64, '0');
  if (const auto plan = model::plan_shard(*model, layers, *rules, digest)) {
    write_and_read(*plan, true);
  }
  if (const auto plan = model::plan_embedding_table(*model, digest)) write_and_read(*plan, false);
  write_and_read(model::plan_vocabulary(*model), false);
  return 0;
}
