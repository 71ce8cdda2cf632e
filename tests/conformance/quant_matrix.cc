#include "quant_matrix.h"

#include <algorithm>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "child_pool.h"
#include "llama.h"
#include "logits.h"
#include "shard_set.h"
#include "stage_chain.h"
#include "whole_model.h"

namespace salvage::conformance {
namespace {

constexpr std::uint64_t kSeed = 7;
constexpr std::uint32_t kNeighbours = 4;
constexpr std::size_t kTrimTo = 30;  // positions kept

struct QuantType {
  const char* name;
  llama_ftype type;
};
constexpr QuantType kTypes[] = {
    {"F16", LLAMA_FTYPE_MOSTLY_F16},       {"Q8_0", LLAMA_FTYPE_MOSTLY_Q8_0},
    {"Q6_K", LLAMA_FTYPE_MOSTLY_Q6_K},     {"Q5_K_M", LLAMA_FTYPE_MOSTLY_Q5_K_M},
    {"Q4_K_M", LLAMA_FTYPE_MOSTLY_Q4_K_M}, {"Q4_0", LLAMA_FTYPE_MOSTLY_Q4_0},
    {"Q3_K_M", LLAMA_FTYPE_MOSTLY_Q3_K_M}, {"IQ4_XS", LLAMA_FTYPE_MOSTLY_IQ4_XS}};

using Stages = std::vector<engine::StageEngine*>;

Result<void> quantise(const std::filesystem::path& from, const std::filesystem::path& to,
                      llama_ftype type) {
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.ftype = type;
  params.nthread = 1;
  if (llama_model_quantize(from.c_str(), to.c_str(), &params) != 0) {
    return fail(ErrorCode::kInternal, "llama_model_quantize failed");
  }
  return {};
}

std::size_t chunk_of_at_most(const Stages& stages, std::size_t wanted) {
  for (const engine::StageEngine* stage : stages) {
    const std::uint32_t rows_max = stage->facts().rows_exact_max;
    if (rows_max > 0) wanted = std::min<std::size_t>(wanted, rows_max);
  }
  return wanted;
}

// Other texts of the same lengths, each in its own sequence.
std::vector<RunPlan> neighbour_plans(std::uint32_t vocabulary_size, std::size_t chunk) {
  std::vector<RunPlan> plans;
  for (std::uint32_t i = 1; i <= kNeighbours; ++i) {
    plans.push_back(make_run_plan(vocabulary_size, chunk, kSeed + i));
  }
  return plans;
}

Result<void> clear_all(const Stages& stages) {
  for (std::uint32_t i = 0; i <= kNeighbours; ++i) {
    const engine::SequenceOp forget{engine::SequenceOpKind::kClear, {i}, {}, 0};
    for (engine::StageEngine* stage : stages) RETURN_IF_ERROR(stage->apply({&forget, 1}));
  }
  return {};
}

// Reads all prompts, in chunks that take turns. Sequence 0's logits are appended.
Result<void> read_prompts(const Stages& stages, const std::vector<RunPlan>& plans,
                          std::vector<float>& logits) {
  std::size_t begin = 0;
  for (std::size_t group = 0; begin < kPromptTokens; ++group) {
    const std::size_t count = plans[0].groups[group];
    for (std::uint32_t sequence = 0; sequence < plans.size(); ++sequence) {
      Rows rows;
      for (std::size_t i = begin; i < begin + count; ++i) {
        rows.tokens.push_back(plans[sequence].tokens[i]);
        rows.positions.push_back(static_cast<std::int32_t>(i));
        rows.sequences.push_back({sequence});
      }
      ASSIGN_OR_RETURN(const std::vector<float> made, run_rows(stages, rows));
      if (sequence == 0) logits.insert(logits.end(), made.begin(), made.end());
    }
    begin += count;
  }
  return {};
}

// Sequence 0 as in `plan`, with four others in the cache and, from the prompt's end on, in each
// micro-batch.
Result<Logits> with_neighbours(const Stages& stages, const RunPlan& plan, std::size_t chunk) {
  RETURN_IF_ERROR(clear_all(stages));
  Logits logits;
  logits.vocabulary_size = stages.back()->facts().vocabulary_size;
  std::vector<RunPlan> plans =
      neighbour_plans(static_cast<std::uint32_t>(logits.vocabulary_size), chunk);
  plans.insert(plans.begin(), plan);
  RETURN_IF_ERROR(read_prompts(stages, plans, logits.values));
  for (std::size_t position = kPromptTokens; position < kPositions; ++position) {
    Rows rows;
    for (std::uint32_t sequence = 0; sequence < plans.size(); ++sequence) {
      rows.tokens.push_back(plans[sequence].tokens[position]);
      rows.positions.push_back(static_cast<std::int32_t>(position));
      rows.sequences.push_back({sequence});
    }
    ASSIGN_OR_RETURN(const std::vector<float> made, run_rows(stages, rows));
    const auto width = static_cast<std::ptrdiff_t>(logits.vocabulary_size);
    logits.values.insert(logits.values.end(), made.begin(), made.begin() + width);
  }
  RETURN_IF_ERROR(clear_all(stages));
  return logits;
}

// Another text's end is cut off behind a common prefix, then this text's end is read.
Result<Logits> after_trim(const Stages& stages, const RunPlan& plan, std::size_t chunk) {
  RunPlan other = plan;
  for (std::size_t i = kTrimTo; i < kPositions; ++i) {
    other.tokens[i] = plan.tokens[kPositions - 1 - i];
  }
  ASSIGN_OR_RETURN(Logits logits, run_stages(stages, other));
  logits.values.resize(kTrimTo * logits.vocabulary_size);
  const engine::SequenceOp trim{engine::SequenceOpKind::kTrim, {}, {}, kTrimTo};
  for (engine::StageEngine* stage : stages) RETURN_IF_ERROR(stage->apply({&trim, 1}));
  for (std::size_t begin = kTrimTo; begin < kPositions; begin += chunk) {
    Rows rows;
    for (std::size_t i = begin; i < std::min(begin + chunk, kPositions); ++i) {
      rows.tokens.push_back(plan.tokens[i]);
      rows.positions.push_back(static_cast<std::int32_t>(i));
    }
    rows.sequences.resize(rows.tokens.size());
    ASSIGN_OR_RETURN(const std::vector<float> made, run_rows(stages, rows));
    logits.values.insert(logits.values.end(), made.begin(), made.end());
  }
  return logits;
}

struct Grouping {
  std::string name;
  Logits logits;
};

Result<std::vector<Grouping>> all_groupings(const Stages& stages, bool limit_rows) {
  const std::uint32_t vocabulary = stages.back()->facts().vocabulary_size;
  const auto chunk = [&](std::size_t rows) {
    return limit_rows ? chunk_of_at_most(stages, rows) : rows;
  };
  const std::size_t whole = chunk(kPromptTokens);
  const std::size_t some = chunk(12);
  const RunPlan single = make_run_plan(vocabulary, 1, kSeed);
  std::vector<Grouping> made;
  ASSIGN_OR_RETURN(Logits alone, run_stages(stages, single));
  made.push_back({"one by one", std::move(alone)});
  ASSIGN_OR_RETURN(Logits chunks, run_stages(stages, make_run_plan(vocabulary, some, kSeed)));
  made.push_back({fmt::format("chunks of {}", some), std::move(chunks)});
  ASSIGN_OR_RETURN(Logits threes, run_stages(stages, make_run_plan(vocabulary, 3, kSeed)));
  made.push_back({"chunks of 3", std::move(threes)});
  ASSIGN_OR_RETURN(Logits company,
                   with_neighbours(stages, make_run_plan(vocabulary, some, kSeed), some));
  made.push_back({"with four others", std::move(company)});
  ASSIGN_OR_RETURN(Logits trimmed, after_trim(stages, single, some));
  made.push_back({"after a trim", std::move(trimmed)});
  ASSIGN_OR_RETURN(Logits replayed, run_stages(stages, make_replay_plan(single, whole)));
  made.push_back({fmt::format("replayed in chunks of {}", whole), std::move(replayed)});
  return made;
}

Split equal_split(std::uint32_t layer_count, std::uint32_t stage_count) {
  Split split;
  const std::uint32_t each = layer_count / stage_count;
  for (std::uint32_t i = 0; i < stage_count; ++i) split.push_back({i * each, (i + 1) * each});
  split.back().end = layer_count;
  return split;
}

// Whether upstream's own decode gives these bits, and with which placement of weights.
Result<std::string> upstream_agrees(const std::filesystem::path& path, const Logits& logits) {
  for (const bool repack : {true, false}) {
    ASSIGN_OR_RETURN(WholeModel whole, WholeModel::load(path, CacheType::kQ8_0, repack));
    ASSIGN_OR_RETURN(const Logits expected,
                     whole.run(make_run_plan(whole.vocabulary_size(), 1, kSeed)));
    if (!compare_bits(expected, logits)) return std::string(repack ? "repacked" : "not repacked");
  }
  return std::string("only with mixed placement");
}

// Compares every grouping at every stage count with one stage, one by one. Each difference is a
// line; nothing in `lines` if all bits are equal.
Result<Logits> compare_groupings(const model::Gguf& model, const std::filesystem::path& path,
                                 const std::filesystem::path& folder, bool exact,
                                 std::vector<std::string>& lines) {
  ASSIGN_OR_RETURN(const std::uint32_t layer_count, model::model_layer_count(model));
  ShardSet shards(model, path, folder, model::Unproven::kRefuse);
  shards.use_settings({.exact = exact, .sequence_count_max = kNeighbours + 1});
  std::optional<Logits> expected;
  for (const std::uint32_t stage_count : {1U, 2U, 3U}) {
    ASSIGN_OR_RETURN(const Stages stages, shards.stages(equal_split(layer_count, stage_count)));
    ASSIGN_OR_RETURN(std::vector<Grouping> made, all_groupings(stages, exact));
    if (!expected) expected = made[0].logits;
    for (const Grouping& grouping : made) {
      const auto difference = compare_bits(*expected, grouping.logits);
      if (!difference) continue;
      lines.push_back(fmt::format(
          "{} stage(s), {}: NMSE {:.1e}, {:.1f} % other argmax", stage_count, grouping.name,
          difference->nmse,
          100.0 * static_cast<double>(difference->argmax_count) / static_cast<double>(kPositions)));
    }
  }
  return *std::move(expected);
}

// "exact" or what is not, then what default settings change.
Result<std::string> judge(const QuantType& type, const std::filesystem::path& model,
                          const std::filesystem::path& folder) {
  std::error_code ignored;  // Writing there reports it.
  std::filesystem::create_directories(folder, ignored);
  const std::filesystem::path path = folder / fmt::format("{}.gguf", type.name);
  RETURN_IF_ERROR(quantise(model, path, type.type));
  ASSIGN_OR_RETURN(const model::Gguf file, model::Gguf::open(path));
  std::vector<std::string> wrong;
  ASSIGN_OR_RETURN(const Logits exact,
                   compare_groupings(file, path, folder / "exact", true, wrong));
  if (const auto why = degenerate(exact)) wrong.push_back(*why);
  ASSIGN_OR_RETURN(const std::string upstream, upstream_agrees(path, exact));
  std::vector<std::string> changes;
  RETURN_IF_ERROR(compare_groupings(file, path, folder / "default", false, changes));
  std::string text = fmt::format("{} {}: with exact settings {} (llama.cpp's own bits: {})\n",
                                 wrong.empty() ? "exact   " : "WRONG   ", type.name,
                                 wrong.empty() ? "all bits equal" : "bits differ", upstream);
  for (const std::string& line : wrong) text += "           " + line + "\n";
  text += fmt::format("           default settings: {}\n",
                      changes.empty() ? "all bits equal" : "these change bits");
  // More stages change nothing more, so one line says it; another figure gets another line.
  std::set<std::string> said;
  for (const std::string& line : changes) {
    if (said.insert(line.substr(line.find(','))).second) text += "           " + line + "\n";
  }
  std::filesystem::remove_all(folder, ignored);
  return text;
}

}  // namespace

QuantTotals check_quantisations(const std::filesystem::path& model,
                                const std::filesystem::path& work_folder, unsigned jobs,
                                const std::function<void(const std::string&)>& print) {
  QuantTotals totals;
  totals.type_count = std::size(kTypes);
  run_in_children(
      {.job_count = totals.type_count, .parallel = jobs, .seconds_max = 300},
      [&](std::size_t index) {
        llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
        const QuantType& type = kTypes[index];
        const auto judged = judge(type, model, work_folder / type.name);
        return judged ? *judged
                      : fmt::format("WRONG    {}: {}\n", type.name, judged.error().message());
      },
      [&](std::size_t index, const ChildResult& result) {
        totals.exact += result.finished && result.output.starts_with("exact");
        print(result.finished ? result.output.substr(0, result.output.size() - 1)
                              : fmt::format("WRONG    {}: {}", kTypes[index].name, result.ending));
      });
  return totals;
}

}  // namespace salvage::conformance
