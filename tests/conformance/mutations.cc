#include "mutations.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "child_pool.h"
#include "llama.h"
#include "logits.h"
#include "model/shard.h"
#include "mutation_catalogue.h"
#include "shard_set.h"
#include "stage_chain.h"
#include "whole_model.h"

namespace salvage::conformance {
namespace {

constexpr std::uint64_t kSeed = 7;
// A child's answers; anything else means that there was nothing to compare.
constexpr const char* kExact = "exact";
constexpr const char* kDiffers = "differs";

Result<void> rewrite(const model::Gguf& whole, const std::filesystem::path& path,
                     const std::function<void(ShardContents&)>& change) {
  const std::filesystem::path changed = path.string() + ".changed";
  ASSIGN_OR_RETURN(const model::Gguf file, model::Gguf::open(path));
  ShardContents contents{whole, file, file.metadata(), {}};
  for (const model::TensorInfo& tensor : file.tensors()) {
    contents.tensors.push_back(model::copy_of(file, tensor, tensor.name));
  }
  if (change) change(contents);
  ASSIGN_OR_RETURN(const std::uint64_t bytes,
                   model::gguf_bytes(contents.metadata, contents.tensors));
  ASSIGN_OR_RETURN(AtomicFile out, AtomicFile::create(changed, bytes));
  RETURN_IF_ERROR(model::write_gguf(contents.metadata, contents.tensors, out, {}));
  RETURN_IF_ERROR(out.commit());
  std::error_code failure;
  std::filesystem::rename(changed, path, failure);
  if (failure) return fail(ErrorCode::kUnavailable, "cannot replace " + path.string());
  return {};
}

HiddenHook hidden_hook(const Mutation& mutation) {
  if (!mutation.hidden_by_an_ulp) return {};
  return [](std::size_t, std::vector<float>& hidden) {
    hidden[0] = std::nextafter(hidden[0], std::numeric_limits<float>::infinity());
  };
}

// What the comparison says about the mutated stages: kExact, kDiffers with how much, or an error.
Result<std::string> judge(const Mutation& mutation, const std::filesystem::path& model_path,
                          const std::filesystem::path& folder) {
  ASSIGN_OR_RETURN(WholeModel whole, WholeModel::load(model_path));
  const RunPlan plan = make_run_plan(whole.vocabulary_size(), kPromptTokens, kSeed);
  ASSIGN_OR_RETURN(const Logits expected, whole.run(plan));
  ASSIGN_OR_RETURN(const model::Gguf model, model::Gguf::open(model_path));
  ASSIGN_OR_RETURN(const std::uint32_t layer_count, model::model_layer_count(model));
  ShardSet shards(model, model_path, folder, model::Unproven::kRefuse);
  if (mutation.illegal_cut) RETURN_IF_ERROR(shards.allow_all_cuts());
  shards.on_shard([&](LayerRange layers, const std::filesystem::path& path) -> Result<void> {
    if (layers.begin == 0) return {};
    return rewrite(model, path, mutation.change);
  });
  ASSIGN_OR_RETURN(const auto stages,
                   shards.stages({{0, mutation.cut}, {mutation.cut, layer_count}}));
  ASSIGN_OR_RETURN(const Logits logits, run_stages(stages, plan, hidden_hook(mutation)));
  const auto difference = compare_bits(expected, logits);
  if (!difference) return std::string(kExact);
  return fmt::format("{} at {} positions, NMSE {:.1e}", kDiffers, difference->position_count,
                     difference->nmse);
}

// Each mutation's fixture and cut once more, unspoiled; illegal cuts have no such twin.
std::vector<Mutation> controls() {
  std::vector<Mutation> all;
  std::set<std::pair<std::string, std::uint32_t>> seen;
  for (const Mutation& mutation : mutation_catalogue()) {
    if (mutation.illegal_cut || !seen.emplace(mutation.fixture, mutation.cut).second) continue;
    all.push_back({"no change", mutation.fixture, mutation.cut});
  }
  return all;
}

bool caught(const Mutation& mutation, const std::string& text) {
  return text.starts_with(kDiffers) || (mutation.may_not_load && text != kExact);
}

std::string answer(const Mutation& mutation, const std::filesystem::path& model_path,
                   const std::filesystem::path& folder) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  const auto judged = judge(mutation, model_path, folder);
  return judged ? *judged : "refused: " + judged.error().message();
}

}  // namespace

std::vector<std::string> mutated_fixtures() {
  std::set<std::string> names;
  for (const Mutation& mutation : mutation_catalogue()) names.insert(mutation.fixture);
  return {names.begin(), names.end()};
}

MutationTotals check_mutations(const FixtureStore& store, const std::vector<Fixture>& fixtures,
                               const std::filesystem::path& work_folder,
                               const std::function<void(const std::string&)>& print) {
  std::vector<Mutation> jobs = mutation_catalogue();
  MutationTotals totals;
  totals.mutation_count = jobs.size();
  for (Mutation& control : controls()) jobs.push_back(std::move(control));
  totals.control_count = jobs.size() - totals.mutation_count;
  run_in_children(
      {.job_count = jobs.size(), .parallel = store.jobs, .seconds_max = 60},
      [&](std::size_t index) {
        const Mutation& job = jobs[index];
        const auto fixture =
            std::find_if(fixtures.begin(), fixtures.end(),
                         [&](const Fixture& other) { return other.name == job.fixture; });
        return answer(job, store.path(*fixture), work_folder / fmt::format("mutation-{}", index));
      },
      [&](std::size_t index, const ChildResult& result) {
        const std::string text = result.finished ? result.output : result.ending;
        const bool control = index >= totals.mutation_count;
        const bool good = control ? text == kExact : caught(jobs[index], text);
        (control ? totals.controls_exact : totals.caught) += good;
        if (control && good) return;
        const char* verdict = control ? "SPOILED" : good ? "caught" : "MISSED";
        print(fmt::format("{:<8} {}, {} at {}: {}", verdict, jobs[index].name, jobs[index].fixture,
                          jobs[index].cut, text));
      });
  return totals;
}

}  // namespace salvage::conformance
