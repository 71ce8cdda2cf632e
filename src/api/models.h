#pragma once

// The models that are served, as clients list and name them. Pure, any thread.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/errors.h"

namespace salvage::api {

enum class ModelState { kUnloaded, kDownloading, kLoading, kLoaded };

struct ModelEntry {
  std::string id;
  std::vector<std::string> aliases;
  std::string description;
  std::int64_t created_s = 0;  // Unix time: when the cluster came to know it
  ModelState state = ModelState::kUnloaded;
  std::optional<double> progress;    // 0 to 1, while it is loaded
  std::uint32_t context_tokens = 0;  // of one sequence; 0: not loaded
  // From the file; 0 or empty: not known.
  std::uint32_t trained_context_tokens = 0;
  std::uint64_t parameter_count = 0;
  std::uint64_t bytes = 0;
  std::uint32_t vocabulary_size = 0;
  std::uint32_t hidden_size = 0;
  std::string quantisation;
  bool has_tools = false;  // its chat template knows them
  bool has_thinking = false;
};

// The entry that a client means: by its id, an alias, either in other capitals, or with ":latest"
// behind it. A client that names none means the only one that is loaded, or, if none is, on its
// way.
Parsed<const ModelEntry*> find_model(std::span<const ModelEntry> models, std::string_view name);

// OpenAI's list with what llama.cpp's page and other front ends read, or Anthropic's.
std::string models_body(std::span<const ModelEntry> models, Dress dress);
std::string model_body(const ModelEntry& model, Dress dress);

}  // namespace salvage::api
