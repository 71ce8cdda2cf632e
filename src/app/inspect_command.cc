#include <algorithm>
#include <iostream>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/command.h"
#include "app/format.h"
#include "app/words.h"
#include "model/manifest.h"

namespace salvage::app {
namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
  std::string model;
  bool json = false;
};

Json layers_json(const model::Manifest& manifest) {
  Json layers = Json::array();
  for (const model::LayerFacts& layer : manifest.layers) {
    layers.push_back(
        {{"weight_bytes", layer.weight_bytes},
         {"kv_bytes_per_token_f16", layer.cache_bytes_per_token(CacheType::kF16, CacheType::kF16)},
         {"kv_bytes_per_token_q8_0",
          layer.cache_bytes_per_token(CacheType::kQ8_0, CacheType::kQ8_0)},
         {"recurrent", layer.recurrent},
         {"windowed", layer.windowed},
         {"state_bytes", layer.state_bytes}});
  }
  return layers;
}

Json types_json(const model::Manifest& manifest) {
  Json types = Json::array();
  for (const model::TypeFacts& type : manifest.types) {
    types.push_back({{"type", type.type}, {"tensors", type.tensor_count}, {"bytes", type.bytes}});
  }
  return types;
}

Json to_json(const model::Manifest& m) {
  return {{"architecture", m.architecture},
          {"name", m.name},
          {"layer_count", m.layer_count},
          {"file_bytes", m.file_bytes},
          {"embedding_bytes", m.embedding_bytes},
          {"output_bytes", m.output_bytes},
          {"output_is_embedding", m.output_is_embedding},
          {"embedding_length", m.embedding_length},
          {"context_length", m.context_length},
          {"sliding_window", m.window},
          {"vocabulary_size", m.vocabulary_size},
          {"tokenizer", m.tokenizer_model},
          {"chat_template", m.has_chat_template},
          {"expert_count", m.expert_count},
          {"expert_used_count", m.expert_used_count},
          {"recurrent", m.recurrent},
          {"hybrid", m.hybrid},
          {"kv_bytes_per_token_f16", m.cache_bytes_per_token(CacheType::kF16, CacheType::kF16)},
          {"kv_bytes_per_token_q8_0", m.cache_bytes_per_token(CacheType::kQ8_0, CacheType::kQ8_0)},
          {"generation_problem", m.generation_problem},
          {"splittable", m.split.splittable()},
          {"split_refusal", m.split.refusal},
          {"cuts", m.split.splittable() ? Json(m.split.cuts()) : Json::array()},
          {"types", types_json(m)},
          {"layers", layers_json(m)}};
}

std::string cuts_text(const model::Manifest& manifest) {
  if (!manifest.split.splittable()) return words("inspect.split_no", manifest.split.refusal);
  const auto cuts = manifest.split.cuts();
  if (cuts.empty()) return words("inspect.split_no", words("inspect.no_cut"));
  if (cuts.size() + 1 == manifest.layer_count)
    return words("inspect.split_everywhere", cuts.size());
  return words("inspect.split_at", fmt::format("{}", fmt::join(cuts, ", ")));
}

std::string layers_text(const model::Manifest& manifest) {
  std::uint64_t least = ~std::uint64_t{0};
  std::uint64_t most = 0;
  for (const model::LayerFacts& layer : manifest.layers) {
    least = std::min(least, layer.weight_bytes);
    most = std::max(most, layer.weight_bytes);
  }
  const std::string each = least == most
                               ? format_bytes(most)
                               : fmt::format("{} - {}", format_bytes(least), format_bytes(most));
  return words("inspect.layers_value", manifest.layer_count, each);
}

void print_row(std::string_view key, const std::string& value) {
  std::cout << padded(words(key), 22) << value << '\n';
}

void print_table(const model::Manifest& m) {
  std::cout << (m.name.empty() ? m.architecture : m.name) << '\n';
  print_row("inspect.architecture", m.architecture);
  print_row("inspect.file", format_bytes(m.file_bytes));
  print_row("inspect.layers", layers_text(m));
  for (const model::TypeFacts& type : m.types) {
    print_row("inspect.type", words("inspect.type_value", padded(type.type, 8),
                                    padded(format_bytes(type.bytes), 10, true), type.tensor_count));
  }
  print_row("inspect.embeddings", format_bytes(m.embedding_bytes));
  print_row("inspect.output", format_bytes(m.output_bytes) +
                                  (m.output_is_embedding ? words("inspect.tied") : std::string()));
  print_row("inspect.kv",
            words("inspect.kv_value",
                  format_bytes(m.cache_bytes_per_token(CacheType::kF16, CacheType::kF16)),
                  format_bytes(m.cache_bytes_per_token(CacheType::kQ8_0, CacheType::kQ8_0))));
  if (m.recurrent) print_row("inspect.state", words("inspect.state_value"));
  if (m.window != 0) print_row("inspect.window", std::to_string(m.window));
  print_row("inspect.context", std::to_string(m.context_length));
  if (m.expert_count != 0) {
    print_row("inspect.experts",
              words("inspect.experts_value", m.expert_count, m.expert_used_count));
  }
  print_row("inspect.tokenizer",
            words("inspect.tokenizer_value", m.tokenizer_model.empty() ? "-" : m.tokenizer_model,
                  m.vocabulary_size));
  print_row("inspect.template", words(m.has_chat_template ? "yes" : "no"));
  if (!m.generation_problem.empty()) print_row("inspect.generates", m.generation_problem);
  print_row("inspect.split", cuts_text(m));
}

Result<void> inspect(const InspectOptions& options) {
  ASSIGN_OR_RETURN(const model::Gguf file, model::Gguf::open(options.model));
  ASSIGN_OR_RETURN(const model::Manifest manifest, model::read_manifest(file));
  if (options.json) {
    std::cout << to_json(manifest).dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  } else {
    print_table(manifest);
  }
  return {};
}

}  // namespace

void add_inspect(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("inspect", words("inspect.about"));
  auto options = std::make_shared<InspectOptions>();
  command->add_option("MODEL", options->model, words("option.model"))->required();
  command->add_flag("--json", options->json, words("option.json"));
  command->callback(
      [&context, options] { context.chosen = [options] { return inspect(*options); }; });
}

}  // namespace salvage::app
