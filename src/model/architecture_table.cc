#include "model/architecture_table.h"

#include <algorithm>

namespace salvage::model {
namespace {

constexpr std::string_view kWindowPattern = "attention.sliding_window_pattern";
constexpr std::string_view kDiffusion =
    "it is a diffusion model: it fills in a whole text at once and does not continue a prompt";
constexpr std::string_view kEmbeds =
    "it is an embedding model: it turns text into vectors and does not answer";
constexpr std::string_view kDrafts =
    "it is a draft head for another model and cannot answer on its own";
constexpr std::string_view kNotExact = "it has not been proven exact when cut";

// clang-format off
constexpr ArchitectureRow kArchitectures[] = {
    // Exact at every cut, nothing to do.
    {.name = "arcee"}, {.name = "arctic"}, {.name = "bailingmoe"}, {.name = "bailingmoe2"},
    {.name = "chatglm"}, {.name = "codeshell"}, {.name = "dbrx"}, {.name = "deci"},
    {.name = "deepseek"}, {.name = "deepseek32"}, {.name = "dots1"}, {.name = "ernie4_5"},
    {.name = "exaone"}, {.name = "falcon"}, {.name = "falcon-h1"}, {.name = "glm4"},
    {.name = "glm4moe"}, {.name = "gptneox"}, {.name = "grovemoe"}, {.name = "hunyuan-dense"},
    {.name = "hunyuan-moe"}, {.name = "hunyuan_vl"}, {.name = "hy_v3"}, {.name = "internlm2"},
    {.name = "jais"}, {.name = "jais2"}, {.name = "llama"}, {.name = "maincoder"},
    {.name = "mamba"}, {.name = "mamba2"}, {.name = "minimax-m2"}, {.name = "mistral3"},
    {.name = "mistral4"}, {.name = "nanbeige"}, {.name = "nemotron"}, {.name = "olmo"},
    {.name = "olmoe"}, {.name = "openelm"}, {.name = "orion"}, {.name = "paddleocr"},
    {.name = "pangu-embedded"}, {.name = "phi2"}, {.name = "phi3"}, {.name = "phimoe"},
    {.name = "plamo"}, {.name = "pockettts"}, {.name = "qwen"}, {.name = "qwen2"},
    {.name = "qwen2moe"}, {.name = "qwen2vl"}, {.name = "qwen3"}, {.name = "qwen3moe"},
    {.name = "refact"}, {.name = "seed_oss"}, {.name = "stablelm"}, {.name = "starcoder2"},
    {.name = "xverse"},

    // Exact at every cut, with a treatment.
    {.name = "bloom", .treatments = kReplaceInput, .replace_tensor = "inp_norm-0"},
    {.name = "cogvlm", .treatments = kReplaceInput | kFirstTakesTokens, .replace_tensor = "embd"},
    {.name = "gemma", .treatments = kUnscaleInput},
    {.name = "gpt2", .treatments = kZeroPositionTable},
    {.name = "granite", .treatments = kZeroEmbeddingScale | kDropDeepstackMap},
    {.name = "granitemoe", .treatments = kZeroEmbeddingScale},
    {.name = "grok", .treatments = kZeroEmbeddingScale},
    {.name = "minicpm", .treatments = kZeroEmbeddingScale | kWriteResidualScale},
    {.name = "minicpm3", .treatments = kUnscaleInput | kScaleResidualPatch},
    {.name = "mpt", .treatments = kDropPositionTable},
    {.name = "qwen3vl", .treatments = kDropDeepstack},
    {.name = "qwen3vlmoe", .treatments = kDropDeepstack},
    {.name = "starcoder", .treatments = kZeroPositionTable},

    // Exact unless the layer count has a meaning of its own.
    {.name = "baichuan", .special_counts = {32, 40}},
    {.name = "command-r", .special_counts_from = 64},
    {.name = "deepseek2", .treatments = kLiteByLayerCount},
    {.name = "exaone4", .special_counts = {64}},

    // Exact at multiples of what repeats.
    {.name = "gemma2", .treatments = kUnscaleInput | kScaleQueryPatch,
     .steps = {{{kWindowPattern, 2}}}},
    {.name = "gemma3", .treatments = kScaleFirstInput | kScaleQueryPatch,
     .steps = {{{kWindowPattern, 6, true}}}},
    {.name = "gpt-oss", .steps = {{{kWindowPattern, 2}}}},
    {.name = "llama4", .steps = {{{{}, 4}, {kWindowPattern, 4}, {"interleave_moe_layer_step", 1}}}},
    {.name = "smollm3", .steps = {{{{}, 4}}}},
    {.name = "ernie4_5-moe", .steps = {{{"interleave_moe_layer_step", 1}}}},
    {.name = "glm-dsa", .treatments = kWriteIndexerTypes},

    // Exact if each stage has layers of each kind.
    {.name = "qwen35", .treatments = kWriteRecurrentLayers,
     .kinds = LayerKinds::kIntervalRecurrent},
    {.name = "qwen35moe", .treatments = kWriteRecurrentLayers,
     .kinds = LayerKinds::kIntervalRecurrent},
    {.name = "qwen3next", .treatments = kWriteRecurrentLayers,
     .kinds = LayerKinds::kIntervalRecurrent},
    {.name = "bailingmoe3", .treatments = kScalarHeadCount, .kinds = LayerKinds::kNoHeadsRecurrent},
    {.name = "granitehybrid", .treatments = kZeroEmbeddingScale | kScalarHeadCount,
     .kinds = LayerKinds::kNoHeadsRecurrent},
    {.name = "jamba", .treatments = kScalarHeadCount, .kinds = LayerKinds::kNoHeadsRecurrent},
    {.name = "kimi-linear", .treatments = kScalarHeadCount, .kinds = LayerKinds::kNoHeadsRecurrent},
    {.name = "lfm2", .treatments = kScalarHeadCount, .kinds = LayerKinds::kNoHeadsRecurrent},
    {.name = "lfm2moe", .treatments = kScalarHeadCount, .kinds = LayerKinds::kNoHeadsRecurrent},
    {.name = "nemotron_h", .treatments = kScalarHeadCount,
     .kinds = LayerKinds::kNoHeadsNoFfnRecurrent, .output_tensor = "nemotron_h_block_out"},
    {.name = "nemotron_h_moe", .treatments = kScalarHeadCount,
     .kinds = LayerKinds::kNoHeadsNoFfnRecurrent, .output_tensor = "nemotron_h_block_out"},
    {.name = "plamo2", .treatments = kScalarHeadCount, .kinds = LayerKinds::kNoHeadsRecurrent,
     .output_tensor = "ffn_residual"},
    {.name = "minimax-m3", .kinds = LayerKinds::kSparseNeeded},

    // Architectures that llama.cpp's own generator cannot write; proven with fixtures of our own.
    {.name = "afmoe", .treatments = kUnscaleInput,
     .steps = {{{{}, 4}, {kWindowPattern, 4, true}}}, .scaled_input = "inp_embd_scaled"},
    {.name = "apertus"},
    {.name = "bitnet"},
    {.name = "cohere2", .steps = {{{kWindowPattern, 4}}}},
    {.name = "cohere2moe", .steps = {{{kWindowPattern, 1}}},
     .kinds = LayerKinds::kWindowArray},
    {.name = "dots3note", .kinds = LayerKinds::kWindowArray},
    {.name = "exaone-moe", .steps = {{{kWindowPattern, 4}}}},
    {.name = "gemma4",
     .treatments = kScaleFirstInput | kTailSharesCache, .kinds = LayerKinds::kWindowArray},
    {.name = "granite_swa",
     .treatments = kZeroEmbeddingScale | kDropDeepstackMap, .kinds = LayerKinds::kWindowArray},
    {.name = "laguna", .steps = {{{kWindowPattern, 4, true}}}},
    {.name = "mellum", .steps = {{{kWindowPattern, 1, true}}},
     .kinds = LayerKinds::kWindowArray},
    {.name = "mimo2", .kinds = LayerKinds::kWindowArray},
    {.name = "muse-glimmer", .treatments = kReplaceInput,
     .steps = {{{kWindowPattern, 1}}}, .kinds = LayerKinds::kWindowArray,
     .replace_tensor = "embd_norm"},
    {.name = "olmo2", .steps = {{{kWindowPattern, 4, true}}}},
    {.name = "plamo3", .steps = {{{kWindowPattern, 8, true}}}},
    {.name = "smallthinker",
     .steps = {{{{}, 4, true}, {kWindowPattern, 4, true}}}, .special_counts = {4}},
    {.name = "step35", .kinds = LayerKinds::kWindowArray,
     .output_tensor = "h_nextn", .output_numbered = false},

    // Whole on one machine only.
    {.name = "deepseek4", .proof = Proof::kRefused,
     .reason = "its layers exchange several streams of hidden states"},
    {.name = "gemma3n", .proof = Proof::kRefused,
     .reason = "its layers exchange four streams of hidden states"},
    {.name = "kimi-k3", .proof = Proof::kRefused,
     .reason = "its layers read the outputs of far earlier layers"},
    {.name = "minimax-01", .proof = Proof::kRefused, .reason = kNotExact},
    {.name = "qwen3tts", .proof = Proof::kRefused, .reason = kNotExact},
    {.name = "qwen4exp", .proof = Proof::kRefused,
     .reason = "its layers exchange several streams of hidden states"},
    {.name = "talkie", .proof = Proof::kRefused, .reason = "its layers read the embedding again"},

    {.name = "arwkv7", .proof = Proof::kRefused, .reason = kNotExact},
    {.name = "chameleon", .proof = Proof::kRefused, .reason = kNotExact},
    {.name = "deepseek2-ocr", .proof = Proof::kRefused, .reason = kNotExact},
    {.name = "graniteswitch", .proof = Proof::kRefused, .reason = kNotExact},
    {.name = "plm", .proof = Proof::kCandidate},  // No random model of it to prove it with.
    {.name = "rwkv6", .proof = Proof::kRefused, .reason = kNotExact},
    {.name = "rwkv6qwen2", .proof = Proof::kRefused, .reason = kNotExact},
    {.name = "rwkv7", .proof = Proof::kRefused, .reason = kNotExact},

    // Not models that answer. The first four can be cut, exactly, but nothing here runs them.
    {.name = "dream", .reason = kDiffusion}, {.name = "llada", .reason = kDiffusion},
    {.name = "llada-moe", .reason = kDiffusion}, {.name = "rnd1", .reason = kDiffusion},
    {.name = "bert", .proof = Proof::kNoModel, .reason = kEmbeds},
    {.name = "modern-bert", .proof = Proof::kNoModel, .reason = kEmbeds},
    {.name = "nomic-bert", .proof = Proof::kNoModel, .reason = kEmbeds},
    {.name = "nomic-bert-moe", .proof = Proof::kNoModel, .reason = kEmbeds},
    {.name = "neo-bert", .proof = Proof::kNoModel, .reason = kEmbeds},
    {.name = "jina-bert-v2", .proof = Proof::kNoModel, .reason = kEmbeds},
    {.name = "jina-bert-v3", .proof = Proof::kNoModel, .reason = kEmbeds},
    {.name = "eurobert", .proof = Proof::kNoModel, .reason = kEmbeds},
    {.name = "gemma-embedding", .proof = Proof::kNoModel, .reason = kEmbeds},
    {.name = "llama-embed", .proof = Proof::kNoModel, .reason = kEmbeds},
    {.name = "t5encoder", .proof = Proof::kNoModel, .reason = kEmbeds},
    {.name = "t5", .proof = Proof::kNoModel,
     .reason = "it is an encoder-decoder model, which this program does not run"},
    {.name = "clip", .proof = Proof::kNoModel,
     .reason = "it is the image or audio part (mmproj) of a model; name the model's own file"},
    {.name = "eagle3", .proof = Proof::kNoModel, .reason = kDrafts},
    {.name = "dflash", .proof = Proof::kNoModel, .reason = kDrafts},
    {.name = "gemma4-assistant", .proof = Proof::kNoModel, .reason = kDrafts},
    {.name = "wavtokenizer-dec", .proof = Proof::kNoModel,
     .reason = "it turns audio tokens into sound and reads no text"},
};
// clang-format on

}  // namespace

std::span<const ArchitectureRow> architecture_table() {
  return kArchitectures;
}

const ArchitectureRow* find_architecture(std::string_view name) {
  const auto found = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                  [&](const ArchitectureRow& row) { return row.name == name; });
  return found == std::end(kArchitectures) ? nullptr : found;
}

}  // namespace salvage::model
