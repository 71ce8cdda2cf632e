#pragma once

// For tests only: a model of a few kilobytes, built in memory, whose every part a test may change
// before it is turned into bytes.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "model/gguf.h"
#include "model/gguf_writer.h"

namespace salvage::model {

struct TinyModel {
  Metadata metadata;
  std::vector<OutputTensor> tensors;

  std::string bytes() const {
    MemorySink sink;
    const auto written = write_gguf(metadata, tensors, sink, {});
    CHECK(written.has_value());
    return sink.bytes();
  }
  Result<Gguf> open() const { return open_bytes(bytes()); }

  static Result<Gguf> open_bytes(std::string bytes) {
    std::vector<std::unique_ptr<ByteSource>> parts;
    parts.push_back(std::make_unique<MemorySource>(std::move(bytes)));
    return Gguf::from_parts(std::move(parts), {"tiny.gguf"});
  }
  void set(const std::string& suffix, Value value) {
    metadata.set(std::string(*metadata.text_value("general.architecture")) + "." + suffix,
                 std::move(value));
  }
  // A tensor of f32 values that tell its name and place apart.
  void add(const std::string& name, std::uint64_t width, std::uint64_t height) {
    std::string data;
    for (std::uint64_t i = 0; i < width * height; ++i) {
      const float value = static_cast<float>(tensors.size()) + static_cast<float>(i) / 1024.0F;
      data.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    tensors.push_back({.name = name,
                       .type = TensorType::kF32,
                       .shape = {width, height, 1, 1},
                       .dimension_count = height == 1 ? 1U : 2U,
                       .data = GivenData{std::move(data)}});
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const OutputTensor& tensor) { return tensor.name == name; });
  }
};

inline TinyModel tiny_model(const std::string& architecture, std::uint32_t layer_count) {
  constexpr std::uint32_t kWidth = 32;
  TinyModel tiny;
  tiny.metadata.set("general.architecture", Value::string(architecture));
  tiny.metadata.set("general.name", Value::string("tiny"));
  tiny.set("block_count", Value::u32(layer_count));
  tiny.set("context_length", Value::u32(256));
  tiny.set("embedding_length", Value::u32(kWidth));
  tiny.set("feed_forward_length", Value::u32(2 * kWidth));
  tiny.set("attention.head_count", Value::u32(2));
  tiny.set("attention.head_count_kv", Value::u32(1));
  tiny.metadata.set("tokenizer.ggml.model", Value::string("gpt2"));
  tiny.metadata.set("tokenizer.ggml.tokens", Value::string_array({"a", "b", "c", "ab", "ba", ""}));
  tiny.metadata.set("tokenizer.chat_template", Value::string("{{ messages }}"));
  tiny.add("token_embd.weight", kWidth, 6);
  tiny.add("output_norm.weight", kWidth, 1);
  tiny.add("output.weight", kWidth, 6);
  for (std::uint32_t i = 0; i < layer_count; ++i) {
    tiny.add(fmt::format("blk.{}.attn_norm.weight", i), kWidth, 1);
    tiny.add(fmt::format("blk.{}.ffn_up.weight", i), kWidth, 4);
  }
  return tiny;
}

}  // namespace salvage::model
