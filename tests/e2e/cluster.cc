#include "cluster.h"

#include <chrono>
#include <string>
#include <utility>

#include "base/bounded_queue.h"
#include "base/process.h"
#include "engine/llama/llama_text.h"
#include "engine/llama/weight_placement.h"
#include "model/manifest.h"
#include "planner/split.h"
#include "store/shard_cache.h"
#include "transport/tcp/local_transport.h"

namespace salvage::e2e {
namespace {

constexpr auto kPatience = std::chrono::minutes(4);  // for one answer on a busy machine
constexpr std::uint64_t kCacheBytesMax = std::uint64_t{4} << 30;

// One for all clusters; goes with the process.
Result<std::string> shard_folder() {
  static const Result<RunFolder> folder = RunFolder::create();
  if (!folder) return fail(folder.error());
  return folder->path();
}

engine::StageOptions stage_options(const std::filesystem::path& weights, bool exact) {
  engine::StageOptions options;  // as `run` has them, but for room for all logits of a prompt
  options.weights = weights;
  options.context_per_sequence = kContext;
  options.sequence_count_max = kSequences;
  options.rows_max = 128;
  options.logit_rows_max = 128;
  options.exact = exact;
  return options;
}

}  // namespace

// Shared by the handlers of all requests of one `ask`, which may outlive it when it gives up.
struct Cluster::Answers {
  std::vector<Observed> observed;
  BoundedQueue<Result<void>> ends{64};
  BoundedQueue<int> replays{64};
};

Cluster::Cluster() : transport_(transport::make_local_transport()) {}
Cluster::~Cluster() = default;

Result<std::unique_ptr<Cluster>> Cluster::start(const std::filesystem::path& model,
                                                const PipelineShape& shape) {
  std::unique_ptr<Cluster> cluster(new Cluster);
  RETURN_IF_ERROR(cluster->load(model, shape));
  return cluster;
}

Result<void> Cluster::load(const std::filesystem::path& model, const PipelineShape& shape) {
  ASSIGN_OR_RETURN(const model::Gguf file, model::Gguf::open(model));
  ASSIGN_OR_RETURN(const model::Manifest manifest, model::read_manifest(file));
  ASSIGN_OR_RETURN(const auto split, planner::plan_split(manifest, shape.stages));
  ASSIGN_OR_RETURN(const std::string folder, shard_folder());
  store::ShardCache cache(folder, kCacheBytesMax);
  const bool exact = shape.exact.value_or(engine::exact_is_free(file.tensors()));
  agent::LocalPipelineOptions options;
  if (shape.stages == 1) {
    options.stages.push_back(stage_options(model, exact));
    ASSIGN_OR_RETURN(const auto vocabulary, cache.prepare_vocabulary(file));
    ASSIGN_OR_RETURN(text_, engine::make_llama_text_tools(vocabulary));
  } else {
    ASSIGN_OR_RETURN(const store::ModelFiles files, cache.prepare(file, split, {}));
    for (const auto& shard : files.shards) options.stages.push_back(stage_options(shard, exact));
    options.stages.front().embedding_table = files.embedding_table;
    ASSIGN_OR_RETURN(text_, engine::make_llama_text_tools(files.vocabulary));
  }
  options.executable = SALVAGE_BINARY;
  options.llama_pin = "v0.4.0";
  options.hidden_type = shape.hidden;
  options.self_check = shape.self_check;
  options.chunk_rows = shape.chunk_rows;
  ASSIGN_OR_RETURN(pipeline_, agent::LocalPipeline::start(options, *transport_, clock_));
  return {};
}

bool Cluster::claims_exact() const {
  bool exact = true;
  for (const agent::LoadedStage& stage : pipeline_->stages()) {
    exact = exact && stage.self_checked && stage.check.exact;
  }
  return exact;
}

Result<pipeline::GenerateRequest> Cluster::make_request(const Ask& ask, std::size_t index,
                                                        const std::shared_ptr<Answers>& answers) {
  pipeline::GenerateRequest request;
  request.prompt = ask.prompt;
  request.answer_tokens_max = ask.tokens;
  request.wants_all_logits = true;
  request.logits_for_prompt = ask.prompt_logits;
  ASSIGN_OR_RETURN(request.sampler, text_.make_sampler({.temperature = 0}));
  Observed* const observed = &answers->observed[index];
  const std::uint32_t replay_at = ask.replay_at_token;
  request.handler.token = [answers, observed, replay_at](TokenId token) {
    observed->tokens.push_back(token);
    if (observed->tokens.size() == replay_at) (void)answers->replays.push(0);
  };
  request.handler.logits = [answers, observed](std::uint32_t position, std::span<const float> row) {
    observed->logits[position].assign(row.begin(), row.end());
  };
  request.handler.done = [answers, observed](pipeline::FinishReason,
                                             const pipeline::RequestStats& stats) {
    observed->stats = stats;
    (void)answers->ends.push({});
  };
  request.handler.failed = [answers](const Error& error) { (void)answers->ends.push(fail(error)); };
  return request;
}

Result<std::vector<Observed>> Cluster::ask(const std::vector<Ask>& asks) {
  const auto answers = std::make_shared<Answers>();
  answers->observed.resize(asks.size());
  std::size_t replays_wanted = 0;
  for (std::size_t i = 0; i < asks.size(); ++i) {
    replays_wanted += asks[i].replay_at_token != 0 ? 1 : 0;
    ASSIGN_OR_RETURN(pipeline::GenerateRequest request, make_request(asks[i], i, answers));
    RETURN_IF_ERROR(pipeline_->client().generate(std::move(request)));
  }
  const TimePoint deadline = deadline_after(clock_.now(), kPatience);
  for (std::size_t i = 0; i < replays_wanted; ++i) {
    if (!answers->replays.pop(deadline)) return fail(ErrorCode::kDeadlineExceeded, "no token came");
    pipeline_->client().replay();
  }
  for (std::size_t i = 0; i < asks.size(); ++i) {
    const auto end = answers->ends.pop(deadline);
    if (!end) return fail(ErrorCode::kDeadlineExceeded, "an answer did not end");
    RETURN_IF_ERROR(*end);
  }
  return std::move(answers->observed);
}

Result<Observed> Cluster::ask_one(const Ask& one) {
  ASSIGN_OR_RETURN(std::vector<Observed> all, ask({one}));
  return std::move(all.front());
}

}  // namespace salvage::e2e
