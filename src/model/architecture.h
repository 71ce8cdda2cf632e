#pragma once

// Where a model may be cut. split_rules() reads a model's metadata against the table of
// architectures (architecture_table.h) and answers for every cut and every stage; a model that may
// not be cut still runs whole on one machine. Plain values, no I/O.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/architecture_table.h"
#include "model/gguf.h"

namespace salvage::model {

inline constexpr std::uint32_t kLayerCountMax = 512;  // libllama's own limit

struct SplitRules {
  std::string architecture;
  std::uint32_t layer_count = 0;
  std::string refusal;  // Why the model may not be cut at all; empty = it may.
  // cut_legal[i]: a stage may end before layer i and the next begin there. 0 .. layer_count; both
  // ends are always true.
  std::vector<bool> cut_legal;
  // What each layer keeps in memory, as bits; every stage needs all bits of kinds_needed.
  std::vector<std::uint8_t> layer_kinds;
  std::uint8_t kinds_needed = 0;
  std::vector<std::uint32_t> stage_sizes_refused;  // Layer counts that no stage may have.

  bool splittable() const { return refusal.empty(); }
  // Cuts at which two legal stages meet, that is 0 < cut < layer_count.
  std::vector<std::uint32_t> cuts() const;
  // Whether `layers` may be one stage; the whole model always may. The error names the rule.
  Result<void> check_stage(LayerRange layers) const;
  // Whether `stages` cover the model in order and each is legal.
  Result<void> check_split(std::span<const LayerRange> stages) const;
};

// The conformance suite cuts architectures that have rules but no proof yet.
enum class Unproven { kRefuse, kAllow };

// Fails for files that are no models of their own (mmproj, encoders, draft heads), for
// architectures that llama.cpp v0.4.0 does not know, and for damaged layer counts.
Result<SplitRules> split_rules(const Gguf& model, Unproven unproven = Unproven::kRefuse);

// The model's row of the table. Fails as split_rules() does.
Result<const ArchitectureRow*> architecture_row(const Gguf& model);

// Layers that compute hidden states: block_count without the layers that only guess ahead (nextn).
Result<std::uint32_t> model_layer_count(const Gguf& model);

// "<arch>.<suffix>"
std::string architecture_key(const Gguf& model, std::string_view suffix);

// Value of `<arch>.<suffix>`, or `otherwise` where the file doesn't have it as a number.
std::uint64_t architecture_number(const Gguf& model, std::string_view suffix,
                                  std::uint64_t otherwise);

// Value of `<arch>.<suffix>` for one layer: of an array its element, of a number the number.
std::uint64_t layer_value(const Gguf& model, std::string_view suffix, std::uint32_t layer,
                          std::uint64_t otherwise);

// Layers with a recurrent state; all false for architectures without any.
std::vector<bool> recurrent_layers(const Gguf& model);

// glm-dsa: layers that choose tokens themselves; the others reuse the choice of one before.
std::vector<bool> full_indexer_layers(const Gguf& model);

// The layer number in "blk.<number>.", or nothing.
std::optional<std::uint64_t> layer_of_tensor(std::string_view name);

// deepseek2: libllama tells its "lite" files apart by layer count and vocabulary alone.
bool is_lite_by_count(std::uint32_t layer_count, std::uint64_t vocabulary_size);

// Tokens in the vocabulary: the tokenizer's list, else <arch>.vocab_size, else the table's height.
std::uint64_t vocabulary_size(const Gguf& model);

}  // namespace salvage::model
