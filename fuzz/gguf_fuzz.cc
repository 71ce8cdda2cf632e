// Any bytes, read as a model file: the reader and everything that looks at metadata must answer.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/digest.h"
#include "model/gguf.h"
#include "model/manifest.h"
#include "model/shard.h"
#include "model/validate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace salvage;
  std::vector<std::unique_ptr<ByteSource>> parts;
  parts.push_back(
      std::make_unique<MemorySource>(std::string(reinterpret_cast<const char*>(data), size)));
  const auto gguf = model::Gguf::from_parts(std::move(parts), {"fuzz"});
  if (!gguf) return 0;
  (void)model::read_manifest(*gguf, model::Unproven::kAllow);
  (void)model::validate_for_engine(*gguf);
  (void)model::read_shard_facts(*gguf);
  (void)model::model_digest(*gguf);
  for (const auto& [key, value] : gguf->metadata().entries()) (void)value.texts();
  return 0;
}
