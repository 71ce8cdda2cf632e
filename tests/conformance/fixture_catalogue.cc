#include "fixture_catalogue.h"

#include <map>
#include <set>
#include <utility>

namespace salvage::conformance {
namespace {

using Layers = std::vector<std::uint32_t>;

// Architectures whose rules repeat every so many layers get enough layers for three legal stages.
const std::map<std::string, std::uint32_t>& layer_counts() {
  static const std::map<std::string, std::uint32_t> counts = {
      {"llama4", 12},     {"smollm3", 12},      {"smallthinker", 24}, {"gemma3", 18},
      {"gemma3n", 25},    {"cohere2", 12},      {"olmo2", 12},        {"plamo3", 24},
      {"exaone-moe", 12}, {"afmoe", 12},        {"mellum", 12},       {"laguna", 12},
      {"cohere2moe", 12}, {"muse-glimmer", 12}, {"nemotron_h", 9},    {"nemotron_h_moe", 9},
  };
  return counts;
}

// Upstream's generator gives every architecture a period of 2; these are what models have.
std::vector<MetadataEdit> period_edits(const std::string& architecture) {
  const std::map<std::string, std::uint32_t> periods = {
      {"gemma3", 6}, {"cohere2", 4},    {"olmo2", 4},  {"plamo3", 8},       {"exaone-moe", 4},
      {"afmoe", 4},  {"cohere2moe", 4}, {"mellum", 4}, {"muse-glimmer", 4}, {"laguna", 4}};
  const auto found = periods.find(architecture);
  if (found == periods.end()) return {};
  return {{"attention.sliding_window_pattern", found->second}};
}

// Half of upstream's width: a quarter of the bytes, and nothing that a cut could get wrong less.
std::vector<MetadataEdit> narrow_edits(const std::string& architecture) {
  static const std::set<std::string> as_wide_as_upstream = {
      "mamba", "jamba", "granitehybrid", "nemotron_h", "nemotron_h_moe", "qwen3tts", "qwen4exp"};
  if (as_wide_as_upstream.count(architecture) != 0) return {};
  std::vector<MetadataEdit> edits = {{"embedding_length", 128U}, {"feed_forward_length", 192U}};
  if (architecture == "deepseek32" || architecture == "glm-dsa" || architecture == "dots3note") {
    edits.push_back({"attention.q_lora_rank", 64U});
    edits.push_back({"attention.indexer.head_count", 8U});
  } else if (architecture != "deepseek4" && architecture != "kimi-linear") {
    edits.push_back({"rope.dimension_sections", Layers{16, 16, 16, 16}});  // of a head of 64
  }
  return edits;
}

Fixture from_upstream(const UpstreamCase& upstream) {
  Fixture fixture;
  fixture.name = upstream.architecture + (upstream.experts ? "-moe" : "-dense");
  fixture.architecture = upstream.architecture;
  fixture.experts = upstream.experts;
  fixture.upstream = upstream.saver_supports;
  fixture.saved_by_upstream = upstream.saver_supports;
  const auto count = layer_counts().find(upstream.architecture);
  if (count != layer_counts().end()) fixture.layer_count = count->second;
  fixture.edits = narrow_edits(upstream.architecture);
  for (MetadataEdit& edit : period_edits(upstream.architecture)) {
    fixture.edits.push_back(std::move(edit));
  }
  return fixture;
}

// A narrow model with many layers: what it is about comes from the layer count alone.
Fixture deep(std::string name, std::string architecture, std::uint32_t layer_count,
             std::vector<MetadataEdit> more = {}) {
  Fixture fixture;
  fixture.name = std::move(name);
  fixture.architecture = std::move(architecture);
  fixture.layer_count = layer_count;
  fixture.edits = {{"embedding_length", 64U},
                   {"feed_forward_length", 96U},
                   {"attention.key_length", 32U},
                   {"attention.value_length", 32U},
                   {"rope.dimension_count", 32U}};
  for (MetadataEdit& edit : more) fixture.edits.push_back(std::move(edit));
  return fixture;
}

std::vector<Fixture> layer_count_cases() {
  const std::vector<MetadataEdit> wide_head = {{"attention.key_length", 64U},
                                               {"attention.value_length", 64U},
                                               {"rope.dimension_count", 64U}};
  std::vector<MetadataEdit> gemma3 = wide_head;
  gemma3.push_back({"attention.sliding_window_pattern", 6U});
  std::vector<Fixture> cases = {
      deep("gemma2-27b", "gemma2", 46, wide_head),
      deep("gemma3-27b", "gemma3", 62, gemma3),
      deep("baichuan-7b", "baichuan", 32),
      deep("baichuan-13b", "baichuan", 40),
      deep("command-r-64", "command-r", 64),
      deep("exaone4-64", "exaone4", 64, {{"attention.sliding_window_pattern", 4U}}),
      deep("minicpm-10", "minicpm", 10),
  };
  cases.back().removed_keys = {"embedding_scale", "residual_scale", "logit_scale"};
  for (const std::uint32_t count : {26U, 27U}) {
    Fixture lite = deep("deepseek2-lite-" + std::to_string(count), "deepseek2", count);
    lite.experts = true;
    lite.edits = {{"embedding_length", 64U},           {"feed_forward_length", 96U},
                  {"expert_feed_forward_length", 32U}, {"attention.kv_lora_rank", 64U},
                  {"attention.key_length", 128U},      {"attention.value_length", 64U},
                  {"attention.key_length_mla", 96U},   {"attention.value_length_mla", 32U}};
    lite.removed_keys = {"attention.q_lora_rank", "expert_gating_func"};
    cases.push_back(std::move(lite));
  }
  return cases;
}

Fixture own(std::string name, std::string architecture, std::uint32_t layer_count,
            std::vector<MetadataEdit> edits) {
  Fixture fixture;
  fixture.name = std::move(name);
  fixture.architecture = std::move(architecture);
  fixture.layer_count = layer_count;
  fixture.edits = std::move(edits);
  return fixture;
}

std::vector<Fixture> gemma4_cases() {
  const std::vector<bool> pattern = {true, true, true, true, false, true, true, true, true, false};
  const std::vector<MetadataEdit> common = {{"attention.sliding_window_pattern", pattern},
                                            {"attention.key_length", 64U},
                                            {"attention.value_length", 64U},
                                            {"rope.dimension_count", 64U},
                                            {"rope.dimension_count_swa", 64U}};
  Fixture dense = own("gemma4-31b", "gemma4", 10, common);
  dense.edits.push_back({"embedding_length_per_layer_input", 0U});
  Fixture small = own("gemma4-e2b", "gemma4", 10, common);
  small.edits.push_back({"embedding_length_per_layer_input", 32U});
  Fixture shared = own("gemma4-e2b-shared-kv", "gemma4", 15, common);
  std::vector<bool> longer = pattern;
  longer.insert(longer.end(), pattern.begin(), pattern.begin() + 5);
  shared.edits[0].value = longer;
  shared.edits.push_back({"embedding_length_per_layer_input", 32U});
  shared.edits.push_back({"attention.shared_kv_layers", 5U});
  Fixture experts = own("gemma4-26b-a4b", "gemma4", 10, common);
  experts.experts = true;
  experts.edits.push_back({"embedding_length_per_layer_input", 0U});
  return {dense, small, shared, experts};
}

std::vector<Fixture> variant_cases() {
  Fixture no_window = own("olmo2-no-window", "olmo2", 8, {});
  no_window.removed_keys = {"attention.sliding_window"};
  Fixture llama_tied = own("llama-tied", "llama", 8, {});
  Fixture qwen2_tied = own("qwen2-tied", "qwen2", 8, {});
  Fixture gemma3_tied =
      own("gemma3-tied", "gemma3", 12, {{"attention.sliding_window_pattern", 6U}});
  for (Fixture* tied : {&llama_tied, &qwen2_tied, &gemma3_tied}) {
    tied->removed_tensors = {"output.weight", "output.bias"};
  }
  Fixture deepstack = own("qwen3vl-deepstack", "qwen3vl", 8, {{"n_deepstack_layers", 3U}});
  Fixture no_rope = own("smallthinker-no-window", "smallthinker", 8, {});
  no_rope.experts = true;
  no_rope.removed_keys = {"attention.sliding_window"};
  // Rows that every quantisation's blocks divide: the matrix of quantisations starts from it.
  Fixture wide = own("llama-wide", "llama", 6,
                     {{"vocab_size", 512U},
                      {"feed_forward_length", 512U},
                      {"attention.head_count", 4U},
                      {"attention.head_count_kv", 2U},
                      {"rope.dimension_count", 64U}});
  return {wide, no_window, llama_tied, qwen2_tied, gemma3_tied, deepstack, no_rope};
}

}  // namespace

std::vector<Fixture> fixture_catalogue(const std::vector<UpstreamCase>& upstream_cases) {
  std::vector<Fixture> fixtures;
  for (const UpstreamCase& upstream : upstream_cases) fixtures.push_back(from_upstream(upstream));
  for (auto make : {layer_count_cases, gemma4_cases, variant_cases}) {
    for (Fixture& fixture : make()) fixtures.push_back(std::move(fixture));
  }
  return fixtures;
}

}  // namespace salvage::conformance
