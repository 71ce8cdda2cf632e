#include "app/session.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "app/command.h"
#include "app/format.h"
#include "app/progress.h"
#include "app/words.h"
#include "base/process.h"
#include "base/system_info.h"
#include "engine/llama/llama_stage.h"
#include "engine/llama/llama_text.h"
#include "engine/llama/weight_placement.h"
#include "planner/memory.h"
#include "planner/placement.h"
#include "planner/split.h"
#include "store/shard_cache.h"
#include "transport/tcp/local_transport.h"

namespace salvage::app {
namespace {

constexpr std::uint32_t kRowsMax = 128;         // rows of a micro-batch unless --chunk says more
constexpr std::uint32_t kSessionLogitRows = 4;  // the smallest buffer worth having
// Left to everything else on the machine: 1 GiB or a tenth, whichever is more.
constexpr std::uint64_t kReserveBytesMin = std::uint64_t{1} << 30;
// Shards that stay on disk; a model in use is never evicted.
constexpr std::uint64_t kShardCacheBytesMax = std::uint64_t{64} << 30;

Result<CacheType> parse_cache_type(const std::string& name) {
  return name == "f16" ? CacheType::kF16 : CacheType::kQ8_0;  // CLI11 has checked the name
}

Result<std::vector<LayerRange>> choose_split(const model::Manifest& manifest,
                                             const SessionOptions& options) {
  if (options.split.empty()) return planner::plan_split(manifest, std::max(options.stages, 1U));
  if (options.stages != 0 && options.stages != options.split.size()) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("--stages {} and --split with {} numbers contradict each other; give one",
                    options.stages, options.split.size()));
  }
  return planner::plan_split(manifest, options.split);
}

std::uint64_t usable_memory(std::uint64_t available) {
  const std::uint64_t reserve = std::max(kReserveBytesMin, available / 10);
  return available > reserve ? available - reserve : 0;
}

}  // namespace

void add_session_options(CLI::App& command, SessionOptions& options) {
  command.add_option("MODEL", options.model, words("option.model"))->required();
  command.add_option("--stages", options.stages, words("option.stages"))
      ->check(CLI::Range(1U, planner::kStageCountMax));
  command.add_option("--split", options.split, words("option.split"))
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--threads", options.threads, words("option.threads"))
      ->check(CLI::Range(1U, 512U));
  command.add_option("--ctx", options.context, words("option.ctx"))
      ->check(CLI::Range(1U, 1U << 24));
  for (auto* option :
       {command.add_option("--cache-type-k", options.cache_type_k, words("option.cache_k")),
        command.add_option("--cache-type-v", options.cache_type_v, words("option.cache_v"))}) {
    option->check(CLI::IsMember({"q8_0", "f16"}));
  }
  command.add_option("--hidden", options.hidden, words("option.hidden"))
      ->check(CLI::IsMember({"f32", "f16", "q8"}));
  command.add_option("--chunk", options.chunk, words("option.chunk"))->check(CLI::Range(1U, 4096U));
  command.add_flag("--exact", options.exact, words("option.exact"));
  command.add_option("--cores", options.cores, words("option.cores"))
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_flag("-q,--quiet", options.quiet, words("option.quiet"));
}

Result<std::unique_ptr<Session>> Session::open(const SessionOptions& options,
                                               const StopToken& stop) {
  std::unique_ptr<Session> session(new Session(options));
  RETURN_IF_ERROR(session->start(stop));
  return session;
}

Result<void> Session::start(const StopToken& stop) {
  const TimePoint begin = clock_.now();
  ASSIGN_OR_RETURN(const model::Gguf file, model::Gguf::open(options_.model));
  exact_ = options_.exact || engine::exact_is_free(file.tensors());
  ASSIGN_OR_RETURN(manifest_, model::read_manifest(file));
  if (!manifest_.generation_problem.empty()) {
    return fail(ErrorCode::kUnsupported, fmt::format("{} cannot answer prompts: {}", options_.model,
                                                     manifest_.generation_problem));
  }
  // Shards have a tokenizer in name only.
  if (manifest_.tokenizer_model.empty() || manifest_.tokenizer_model == "no_vocab") {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("{} cannot answer prompts: it has no tokenizer, as a part of a model or "
                    "an incomplete conversion has none; take the whole model's file",
                    options_.model));
  }
  ASSIGN_OR_RETURN(const std::vector<LayerRange> stages, choose_split(manifest_, options_));
  const auto cores = static_cast<std::uint32_t>(usable_cores().size());
  const auto count = static_cast<std::uint32_t>(stages.size());
  threads_ = options_.threads != 0 ? options_.threads : std::max(1U, cores / count);
  if (options_.threads == 0 && !options_.cores.empty()) {
    threads_ = std::max(1U, static_cast<std::uint32_t>(options_.cores.size()) / count);
  }
  RETURN_IF_ERROR(choose_context(stages));
  ASSIGN_OR_RETURN(auto stage_list, stage_options(file, stages, stop));
  ASSIGN_OR_RETURN(text_, engine::make_llama_text_tools(vocabulary_));
  RETURN_IF_ERROR(start_workers(std::move(stage_list), stop));
  load_seconds_ = seconds_between(begin, clock_.now());
  return {};
}

// A context that was asked for must fit; one that was not is made to fit.
Result<void> Session::choose_context(const std::vector<LayerRange>& stages) {
  const std::uint32_t trained =
      manifest_.context_length != 0 ? manifest_.context_length : planner::kContextDefault;
  context_ = options_.context != 0 ? options_.context : std::min(trained, planner::kContextDefault);
  checkpoints_ = planner::checkpoints_wanted(manifest_, options_.sequences);
  const auto available = memory_available_bytes();
  if (!available) return {};  // unknown is not zero: let the system decide
  const std::uint64_t usable = usable_memory(*available);
  planner::MemoryRequest request;
  request.sequence_count = options_.sequences;
  request.rows_max = std::max(options_.chunk, kRowsMax);
  request.checkpoint_count = checkpoints_;
  ASSIGN_OR_RETURN(request.keys, parse_cache_type(options_.cache_type_k));
  ASSIGN_OR_RETURN(request.values, parse_cache_type(options_.cache_type_v));
  const auto need_with = [&](std::uint32_t context) {
    std::uint64_t need = 0;
    request.context_per_sequence = context;
    for (const LayerRange layers : stages) {
      request.layers = layers;
      need += planner::memory_needed(manifest_, request).total_bytes();
    }
    return need;
  };
  std::uint64_t need = need_with(context_);
  while (need > usable && checkpoints_ > 0) {
    request.checkpoint_count = checkpoints_ /= 2;
    need = need_with(context_);
  }
  if (need <= usable) return {};
  std::uint32_t fits = context_ / 256 * 256;
  while (fits != 0 && need_with(fits) > usable)
    fits -= std::min(fits, std::max(256U, fits / 16 / 256 * 256));
  if (fits != 0 && options_.context == 0) {
    context_ = fits;
    return {};
  }
  return fail(
      ErrorCode::kResourceExhausted,
      fmt::format("{} tokens of context need {}, this machine has {} free beside a reserve of "
                  "{}; {}",
                  context_, format_bytes(need), format_bytes(usable),
                  format_bytes(*available - usable),
                  fits != 0 ? fmt::format("--ctx {} fits", fits)
                            : "not even the shortest context fits: take a smaller model or a "
                              "smaller quantisation"));
}

Result<void> Session::check_cores(std::size_t stage_count) const {
  if (options_.cores.empty()) return {};
  const std::size_t needed = stage_count * threads_;
  if (options_.cores.size() != needed) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--cores names {} cores; {} stages with {} threads each need {}",
                            options_.cores.size(), stage_count, threads_, needed));
  }
  const std::vector<std::uint32_t> usable = usable_cores();
  for (const std::uint32_t core : options_.cores) {
    if (std::find(usable.begin(), usable.end(), core) == usable.end()) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("core {} is not one that this program may use: {}", core,
                              fmt::join(usable, ",")));
    }
  }
  return {};
}

engine::StageOptions Session::common_options(std::size_t stage) const {
  engine::StageOptions options;
  options.context_per_sequence = context_;
  options.sequence_count_max = options_.sequences;
  options.rows_max = std::max(options_.chunk, kRowsMax);
  options.logit_rows_max = std::max(options_.sequences, kSessionLogitRows);
  options.thread_count = threads_;
  options.cache_type_k = *parse_cache_type(options_.cache_type_k);
  options.cache_type_v = *parse_cache_type(options_.cache_type_v);
  options.exact = exact_;
  options.checkpoint_count = checkpoints_;
  // stage_options() has checked that there are enough.
  for (std::uint32_t i = 0; !options_.cores.empty() && i < threads_; ++i) {
    options.cores.push_back(options_.cores[stage * threads_ + i]);
  }
  return options;
}

Result<std::vector<engine::StageOptions>> Session::stage_options(
    const model::Gguf& file, const std::vector<LayerRange>& stages, const StopToken& stop) {
  RETURN_IF_ERROR(check_cores(stages.size()));
  std::vector<engine::StageOptions> options;
  for (std::size_t i = 0; i < stages.size(); ++i) options.push_back(common_options(i));
  store::ShardCache cache(store::ShardCache::default_root(), kShardCacheBytesMax);
  if (stages.size() == 1) {
    options.front().weights = options_.model;  // the whole model as it is
    ASSIGN_OR_RETURN(vocabulary_, cache.prepare_vocabulary(file));
    return options;
  }
  Progress progress(clock_, options_.quiet);
  ASSIGN_OR_RETURN(const store::ModelFiles files,
                   cache.prepare(file, stages, [&](const std::string& name, double fraction) {
                     progress.update(words("session.making", name), fraction);
                     return !stop.stop_requested();
                   }));
  for (std::size_t i = 0; i < stages.size(); ++i) options[i].weights = files.shards[i];
  options.front().embedding_table = files.embedding_table;
  vocabulary_ = files.vocabulary;
  return options;
}

Result<void> Session::start_workers(std::vector<engine::StageOptions> stages,
                                    const StopToken& stop) {
  // Shared with the links to the workers, which may report as long as they live.
  const auto progress = std::make_shared<Progress>(clock_, options_.quiet);
  agent::LocalPipelineOptions options;
  ASSIGN_OR_RETURN(options.executable, own_executable());
  options.llama_pin = kLlamaPin;
  options.stages = std::move(stages);
  ASSIGN_OR_RETURN(options.hidden_type, wire::parse_hidden_type(options_.hidden));
  options.chunk_rows = options_.chunk;
  options.stop = stop;
  options.progress = [progress](std::uint32_t stage, double fraction, const std::string& phase) {
    const char* key = phase == "weights" ? "session.loading" : "session.checking";
    progress->update(words(key, stage), fraction);
  };
  transport_ = transport::make_local_transport();
  auto started = agent::LocalPipeline::start(options, *transport_, clock_);
  progress->clear();
  ASSIGN_OR_RETURN(pipeline_, std::move(started));
  return {};
}

std::vector<std::string> Session::inexact_conditions() const {
  std::vector<std::string> conditions;
  if (options_.hidden != "f32" && pipeline_->stages().size() > 1) {
    conditions.push_back(fmt::format("hidden states travel as {}", options_.hidden));
  }
  const auto& stages = pipeline_->stages();
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (!stages[i].self_checked) conditions.push_back(fmt::format("stage {} was not checked", i));
    if (stages[i].self_checked && !stages[i].check.exact) {
      conditions.push_back(fmt::format("stage {}: {} (NMSE {:.1e}){}", i, stages[i].check.condition,
                                       stages[i].check.nmse, exact_ ? "" : "; --exact avoids it"));
    }
    if (stages[i].facts.kernel_fingerprint != stages[0].facts.kernel_fingerprint) {
      conditions.push_back(fmt::format("stage {} has other kernels than stage 0", i));
    }
  }
  return conditions;
}

std::string Session::layer_table(const std::vector<wire::Stats>& stats) const {
  struct Column {
    std::string title;
    std::vector<std::string> cells;
  };
  std::vector<Column> columns;
  for (const char* key : {"table.stage", "table.layers", "table.weights", "table.kv",
                          "table.compute", "table.resident", "table.process", "table.exact"}) {
    columns.push_back({words(key), {}});
  }
  const auto& stages = pipeline_->stages();
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const engine::StageFacts& facts = stages[i].facts;
    std::string layers = format_layers(facts.layers);
    if (facts.layers.begin == 0) layers += words("table.embeds");
    if (facts.gives_logits) layers += words("table.output");
    const std::vector<std::string> row{
        std::to_string(i),
        layers,
        format_bytes(facts.memory.weights_bytes),
        format_bytes(facts.memory.kv_cache_bytes),
        format_bytes(facts.memory.compute_bytes),
        i < stats.size() ? format_bytes(stats[i].rss_bytes) : "-",
        std::to_string(stages[i].pid),
        words(stages[i].check.exact ? "table.exact_yes" : "table.exact_no")};
    for (std::size_t c = 0; c < columns.size(); ++c) columns[c].cells.push_back(row[c]);
  }
  std::vector<std::string> lines(stages.size() + 1);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    std::size_t width = display_width(columns[c].title);
    for (const std::string& cell : columns[c].cells) width = std::max(width, display_width(cell));
    const bool right = c != 1;
    lines[0] += padded(columns[c].title, width, right) + "  ";
    for (std::size_t r = 0; r < stages.size(); ++r) {
      lines[r + 1] += padded(columns[c].cells[r], width, right) + "  ";
    }
  }
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

}  // namespace salvage::app
