// The promise on real models: cut over real worker processes, with default settings, a model gives
// the bits that upstream's own whole-model decode gives. One suite a number of stages; within it
// the pipeline is loaded once and asked alone, in company, with a prefix to reuse, and with
// everything computed anew in the middle of an answer. Compared are the logits of every position
// that was computed, bit for bit, and the greedy tokens.
//
// Paths of the models come from the environment: SALVAGE_MODEL_SMOLLM2 (must be set) and
// SALVAGE_MODEL_QWEN (tools/run_tests.sh sets both). The whole binary is one ctest test, since the
// upstream answers are computed once for all suites.

#include <chrono>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "agent/local_pipeline.h"
#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/process.h"
#include "engine/llama/llama_text.h"
#include "model/manifest.h"
#include "planner/split.h"
#include "store/shard_cache.h"
#include "transport/tcp/local_transport.h"
#include "upstream_model.h"

namespace salvage::e2e {
namespace {

constexpr std::uint32_t kContext = 512;
constexpr std::uint32_t kSequences = 5;  // one answer and four others beside it
constexpr std::uint32_t kAnswer = 256;
constexpr std::uint32_t kSecondAnswer = 24;
constexpr std::uint32_t kOtherAnswer = 48;
constexpr auto kPatience = std::chrono::minutes(4);  // for one answer on a busy machine
constexpr std::uint64_t kCacheBytesMax = std::uint64_t{4} << 30;

const char* const kPrompt =
    "An old laptop, a desktop computer from 2012 and a small server share a shelf in the library "
    "of a village. None of them has enough memory for a language model, but each of them can hold "
    "a few of its layers. Explain step by step, in plain words for the people who come to the "
    "library, how the three machines could answer a question together, what travels between them, "
    "and what happens when one of them is switched off:\n";
const char* const kShortPrompt =
    "Write a Python function that reads a CSV file with the columns name, city and year, and "
    "prints how many people live in each city:\n";
const char* const kSecondPrompt = "\nThank you. Now say the same in one short sentence:";
const std::vector<std::string> kOtherPrompts = {
    "The three largest rivers of Europe are", "def fibonacci(n):\n    ",
    "Once upon a time, in a valley between two mountains, there lived",
    "Q: What is 17 times 23?\nA:"};

// What one request gave, by position.
struct Observed {
  std::vector<TokenId> tokens;
  std::map<std::uint32_t, std::vector<float>> logits;
  pipeline::RequestStats stats;
};

struct PipelineShape {
  std::uint32_t stages = 1;
  wire::HiddenType hidden = wire::HiddenType::kF32;
  bool exact = false;
  bool self_check = true;
};

// A model cut, loaded into worker processes and ready to be asked.
class Cluster {
 public:
  static Result<std::unique_ptr<Cluster>> start(const std::filesystem::path& model,
                                                const PipelineShape& shape) {
    std::unique_ptr<Cluster> cluster(new Cluster);
    RETURN_IF_ERROR(cluster->load(model, shape));
    return cluster;
  }

  agent::LocalPipeline& pipeline() { return *pipeline_; }

  // What the session statistics say: did every stage prove that its bits don't move?
  bool claims_exact() const {
    bool exact = true;
    for (const agent::LoadedStage& stage : pipeline_->stages()) {
      exact = exact && stage.self_checked && stage.check.exact;
    }
    return exact;
  }

  struct Ask {
    std::vector<TokenId> prompt;
    std::uint32_t tokens = 0;
    bool prompt_logits = false;         // rules prefix reuse out
    std::uint32_t replay_at_token = 0;  // 0: no replay
  };
  // Asks everything at once; answers in the order of `asks`.
  Result<std::vector<Observed>> ask(const std::vector<Ask>& asks);
  Result<Observed> ask_one(const Ask& one) {
    ASSIGN_OR_RETURN(std::vector<Observed> all, ask({one}));
    return std::move(all.front());
  }

 private:
  Cluster() = default;
  Result<void> load(const std::filesystem::path& model, const PipelineShape& shape);

  SteadyClock clock_;
  std::unique_ptr<transport::Transport> transport_ = transport::make_local_transport();
  engine::TextTools text_;
  std::unique_ptr<agent::LocalPipeline> pipeline_;
};

// One for all suites; goes with the process.
Result<std::string> shard_folder() {
  static const Result<RunFolder> folder = RunFolder::create();
  if (!folder) return fail(folder.error());
  return folder->path();
}

engine::StageOptions default_options(const std::filesystem::path& weights, bool exact) {
  engine::StageOptions options;  // as `run` has them, but for room for all logits of a prompt
  options.weights = weights;
  options.context_per_sequence = kContext;
  options.sequence_count_max = kSequences;
  options.rows_max = 128;
  options.logit_rows_max = 128;
  options.exact = exact;
  return options;
}

Result<void> Cluster::load(const std::filesystem::path& model, const PipelineShape& shape) {
  ASSIGN_OR_RETURN(const model::Gguf file, model::Gguf::open(model));
  ASSIGN_OR_RETURN(const model::Manifest manifest, model::read_manifest(file));
  ASSIGN_OR_RETURN(const auto split, planner::plan_split(manifest, shape.stages));
  ASSIGN_OR_RETURN(const std::string folder, shard_folder());
  store::ShardCache cache(folder, kCacheBytesMax);
  agent::LocalPipelineOptions options;
  if (shape.stages == 1) {
    options.stages.push_back(default_options(model, shape.exact));
    ASSIGN_OR_RETURN(const auto vocabulary, cache.prepare_vocabulary(file));
    ASSIGN_OR_RETURN(text_, engine::make_llama_text_tools(vocabulary));
  } else {
    ASSIGN_OR_RETURN(const store::ModelFiles files, cache.prepare(file, split, {}));
    for (const auto& shard : files.shards) {
      options.stages.push_back(default_options(shard, shape.exact));
    }
    options.stages.front().embedding_table = files.embedding_table;
    ASSIGN_OR_RETURN(text_, engine::make_llama_text_tools(files.vocabulary));
  }
  options.executable = SALVAGE_BINARY;
  options.llama_pin = "v0.4.0";
  options.hidden_type = shape.hidden;
  options.self_check = shape.self_check;
  ASSIGN_OR_RETURN(pipeline_, agent::LocalPipeline::start(options, *transport_, clock_));
  return {};
}

Result<std::vector<Observed>> Cluster::ask(const std::vector<Ask>& asks) {
  using Outcome = Result<void>;
  struct State {  // outlives the requests: handlers share it
    std::vector<Observed> observed;
    BoundedQueue<Outcome> ends{64};
    BoundedQueue<int> replays{64};
  };
  const auto state = std::make_shared<State>();
  state->observed.resize(asks.size());
  std::size_t replays_wanted = 0;
  for (std::size_t i = 0; i < asks.size(); ++i) {
    pipeline::GenerateRequest request;
    request.prompt = asks[i].prompt;
    request.answer_tokens_max = asks[i].tokens;
    request.wants_all_logits = true;
    request.logits_for_prompt = asks[i].prompt_logits;
    ASSIGN_OR_RETURN(request.sampler, text_.make_sampler({.temperature = 0}));
    const std::uint32_t replay_at = asks[i].replay_at_token;
    replays_wanted += replay_at != 0 ? 1 : 0;
    request.handler.token = [state, i, replay_at](TokenId token) {
      state->observed[i].tokens.push_back(token);
      if (state->observed[i].tokens.size() == replay_at) (void)state->replays.push(0);
    };
    request.handler.logits = [state, i](std::uint32_t position, std::span<const float> row) {
      state->observed[i].logits[position].assign(row.begin(), row.end());
    };
    request.handler.done = [state, i](pipeline::FinishReason, const pipeline::RequestStats& stats) {
      state->observed[i].stats = stats;
      (void)state->ends.push({});
    };
    request.handler.failed = [state](const Error& error) { (void)state->ends.push(fail(error)); };
    RETURN_IF_ERROR(pipeline_->client().generate(std::move(request)));
  }
  const TimePoint deadline = deadline_after(clock_.now(), kPatience);
  for (std::size_t i = 0; i < replays_wanted; ++i) {
    if (!state->replays.pop(deadline)) return fail(ErrorCode::kDeadlineExceeded, "no token came");
    pipeline_->client().replay();
  }
  for (std::size_t i = 0; i < asks.size(); ++i) {
    const auto end = state->ends.pop(deadline);
    if (!end) return fail(ErrorCode::kDeadlineExceeded, "an answer did not end");
    RETURN_IF_ERROR(*end);
  }
  return std::move(state->observed);
}

// How far logits are from the truth.
struct Difference {
  std::uint32_t rows = 0;
  std::uint32_t rows_other_bits = 0;
  std::uint32_t rows_other_argmax = 0;
  double error = 0;
  double power = 0;
  double nmse() const { return power > 0 ? error / power : 0; }
};

Difference compare(const std::map<std::uint32_t, std::vector<float>>& got,
                   std::span<const float> truth, std::size_t width) {
  Difference difference;
  for (const auto& [position, row] : got) {
    if ((position + 1) * width > truth.size()) continue;
    const std::span<const float> wanted = truth.subspan(position * width, width);
    ++difference.rows;
    if (row.size() != width || std::memcmp(row.data(), wanted.data(), width * sizeof(float)) != 0) {
      ++difference.rows_other_bits;
    }
    if (row.size() != width || argmax(row) != argmax(wanted)) ++difference.rows_other_argmax;
    for (std::size_t i = 0; i < std::min(row.size(), width); ++i) {
      const double delta = static_cast<double>(row[i]) - static_cast<double>(wanted[i]);
      difference.error += delta * delta;
      difference.power += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
    }
  }
  return difference;
}

std::string percent(std::uint32_t part, std::uint32_t whole) {
  return fmt::format("{:.1f} %", whole == 0 ? 0 : 100.0 * part / whole);
}

// A prompt, upstream's answer to it, and upstream's answer to a second turn of that conversation.
struct Truth {
  std::vector<TokenId> prompt;
  UpstreamModel::Answer answer;
  std::vector<TokenId> second_prompt;
  UpstreamModel::Answer second_answer;
  std::vector<std::vector<TokenId>> other_prompts;
  std::size_t vocabulary = 0;
};

Result<Truth> make_truth(UpstreamModel& model, const std::string& prompt, std::uint32_t answer,
                         std::uint32_t second) {
  Truth truth;
  truth.vocabulary = model.vocabulary_size();
  truth.prompt = model.tokenize(prompt);
  ASSIGN_OR_RETURN(truth.answer, model.greedy(truth.prompt, answer));
  truth.second_prompt = truth.prompt;
  const std::vector<TokenId> more = model.tokenize(kSecondPrompt);
  truth.second_prompt.insert(truth.second_prompt.end(), truth.answer.tokens.begin(),
                             truth.answer.tokens.end());
  truth.second_prompt.insert(truth.second_prompt.end(), more.begin(), more.end());
  ASSIGN_OR_RETURN(truth.second_answer, model.greedy(truth.second_prompt, second));
  for (const std::string& text : kOtherPrompts) {
    truth.other_prompts.push_back(model.tokenize(text));
  }
  return truth;
}

void expect_same(const Observed& observed, const UpstreamModel::Answer& truth,
                 std::size_t vocabulary, std::size_t rows_at_least) {
  EXPECT_EQ(observed.tokens, truth.tokens);
  const Difference difference = compare(observed.logits, truth.logits, vocabulary);
  EXPECT_GE(difference.rows, rows_at_least);
  EXPECT_EQ(difference.rows_other_bits, 0U) << "of " << difference.rows << " rows";
}

std::string model_path(const char* variable) {
  return environment(variable).value_or("");
}

class SmolLm2 : public testing::TestWithParam<std::uint32_t> {
 protected:
  static void SetUpTestSuite() {
    if (truth_) return;  // another suite made it
    auto model = UpstreamModel::load(model_path("SALVAGE_MODEL_SMOLLM2"), {.context = kContext});
    ASSERT_TRUE(model) << "SALVAGE_MODEL_SMOLLM2 must name SmolLM2's file, which `make model` "
                          "fetches and tools/run_tests.sh e2e sets: "
                       << model.error().message();
    auto truth = make_truth(*model, kPrompt, kAnswer, kSecondAnswer);
    ASSERT_TRUE(truth) << truth.error().message();
    // Upstream itself must not depend on how the positions are grouped, or nothing can be compared.
    for (const std::uint32_t rows : {7U, 48U, 128U}) {
      std::vector<TokenId> all = truth->prompt;
      all.insert(all.end(), truth->answer.tokens.begin(), truth->answer.tokens.end() - 1);
      const auto chunked = model->logits(all, rows);
      ASSERT_TRUE(chunked) << chunked.error().message();
      ASSERT_EQ(*chunked == truth->answer.logits, true) << "upstream in chunks of " << rows;
    }
    truth_ = std::make_unique<Truth>(std::move(*truth));
  }

  void SetUp() override {
    ASSERT_NE(truth_, nullptr) << "upstream's answers could not be made";
    auto cluster = Cluster::start(model_path("SALVAGE_MODEL_SMOLLM2"), {.stages = GetParam()});
    ASSERT_TRUE(cluster) << cluster.error().message();
    cluster_ = std::move(*cluster);
  }

  void expect_first_turn(const Observed& observed, bool with_prompt) {
    const std::size_t prompt_rows = with_prompt ? truth_->prompt.size() : 1;
    expect_same(observed, truth_->answer, truth_->vocabulary, prompt_rows + kAnswer - 1);
  }
  std::vector<Cluster::Ask> with_four_others(const Cluster::Ask& main, std::uint32_t tokens) {
    std::vector<Cluster::Ask> asks{main};
    for (const auto& prompt : truth_->other_prompts) {
      asks.push_back({.prompt = prompt, .tokens = tokens});
    }
    return asks;
  }

  static std::unique_ptr<Truth> truth_;
  std::unique_ptr<Cluster> cluster_;
};
std::unique_ptr<Truth> SmolLm2::truth_;

TEST_P(SmolLm2, gives_the_bits_of_upstream) {
  EXPECT_TRUE(cluster_->claims_exact());
  EXPECT_EQ(cluster_->pipeline().stages().size(), GetParam());
  {
    SCOPED_TRACE("alone, nothing reused");
    const auto alone =
        cluster_->ask_one({.prompt = truth_->prompt, .tokens = kAnswer, .prompt_logits = true});
    ASSERT_TRUE(alone) << alone.error().message();
    EXPECT_EQ(alone->stats.reused_tokens, 0U);
    expect_first_turn(*alone, true);
  }
  {
    SCOPED_TRACE("the second turn, which reuses the first");
    const auto second =
        cluster_->ask_one({.prompt = truth_->second_prompt, .tokens = kSecondAnswer});
    ASSERT_TRUE(second) << second.error().message();
    EXPECT_GE(second->stats.reused_tokens, truth_->prompt.size() + kAnswer - 1);
    expect_same(*second, truth_->second_answer, truth_->vocabulary, kSecondAnswer);
  }
  {
    SCOPED_TRACE("the second turn without reuse");
    const auto second = cluster_->ask_one(
        {.prompt = truth_->second_prompt, .tokens = kSecondAnswer, .prompt_logits = true});
    ASSERT_TRUE(second) << second.error().message();
    EXPECT_EQ(second->stats.reused_tokens, 0U);
    expect_same(*second, truth_->second_answer, truth_->vocabulary,
                truth_->second_prompt.size() + kSecondAnswer - 1);
  }
}

TEST_P(SmolLm2, gives_the_same_bits_in_company_and_after_a_replay_of_everything) {
  std::vector<Observed> first;
  {
    SCOPED_TRACE("with four other sequences");
    auto asks = with_four_others(
        {.prompt = truth_->prompt, .tokens = kAnswer, .prompt_logits = true}, kOtherAnswer);
    auto answers = cluster_->ask(asks);
    ASSERT_TRUE(answers) << answers.error().message();
    expect_first_turn(answers->front(), true);
    first = std::move(*answers);
  }
  {
    SCOPED_TRACE("with four others, all of it computed anew in the middle of the answer");
    auto asks = with_four_others(
        {.prompt = truth_->prompt, .tokens = kAnswer, .replay_at_token = 40}, kOtherAnswer);
    const auto answers = cluster_->ask(asks);
    ASSERT_TRUE(answers) << answers.error().message();
    expect_first_turn(answers->front(), false);
    for (std::size_t i = 1; i < first.size(); ++i) {
      EXPECT_EQ(first[i].tokens, (*answers)[i].tokens) << "other sequence " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(stages, SmolLm2, testing::Values(1U, 2U, 3U, 5U),
                         [](const testing::TestParamInfo<std::uint32_t>& stages) {
                           return fmt::format("over_{}", stages.param);
                         });

// What the options for slow links cost. That the statistics call them inexact is in cli_test.py.
class SmallerHiddenStates : public SmolLm2 {
 protected:
  void SetUp() override { ASSERT_NE(truth_, nullptr) << "upstream's answers could not be made"; }
  void measure(wire::HiddenType type, double nmse_max) {
    const auto cluster =
        Cluster::start(model_path("SALVAGE_MODEL_SMOLLM2"),
                       {.stages = GetParam(), .hidden = type, .self_check = false});
    ASSERT_TRUE(cluster) << cluster.error().message();
    const auto read = (*cluster)->ask_one({.prompt = truth_->second_prompt, .prompt_logits = true});
    ASSERT_TRUE(read) << read.error().message();
    const Difference difference =
        compare(read->logits, truth_->second_answer.logits, truth_->vocabulary);
    const std::string other =
        fmt::format("{} of {} rows ({}) with another argmax", difference.rows_other_argmax,
                    difference.rows, percent(difference.rows_other_argmax, difference.rows));
    std::cout << fmt::format("hidden states as {} over {} stages: NMSE {:.1e}, {}\n",
                             wire::hidden_type_name(type), GetParam(), difference.nmse(), other);
    EXPECT_EQ(difference.rows, truth_->second_prompt.size());
    EXPECT_GT(difference.rows_other_bits, 0U) << "it is not inexact, so why say that it is?";
    EXPECT_LT(difference.nmse(), nmse_max);
    EXPECT_LT(difference.rows_other_argmax, difference.rows / 3);
  }
};

TEST_P(SmallerHiddenStates, cost_little_as_f16) {
  measure(wire::HiddenType::kF16, 0.1);
}

TEST_P(SmallerHiddenStates, cost_more_as_q8) {
  measure(wire::HiddenType::kQ8, 0.3);
}

INSTANTIATE_TEST_SUITE_P(stages, SmallerHiddenStates, testing::Values(3U),
                         [](const testing::TestParamInfo<std::uint32_t>& stages) {
                           return fmt::format("over_{}", stages.param);
                         });

// Q4_K_M: its repacked kernels move bits with the grouping of rows, so `run` leaves them out (where
// that costs nothing unasked, else with --exact). The claim must be what is seen, either way.
class Qwen : public testing::Test {
 protected:
  static constexpr std::uint32_t kTokens = 16;

  // What the pipeline says of itself, and whether its prompt, computed in chunks, and its answer,
  // alone and beside four others, have upstream's bits.
  void check(bool exact, std::uint32_t stages) {
    auto upstream = UpstreamModel::load(model_path("SALVAGE_MODEL_QWEN"),
                                        {.context = kContext, .repack = !exact});
    ASSERT_TRUE(upstream) << upstream.error().message();
    const auto truth = make_truth(*upstream, kShortPrompt, kTokens, 1);
    ASSERT_TRUE(truth) << truth.error().message();
    const auto cluster =
        Cluster::start(model_path("SALVAGE_MODEL_QWEN"), {.stages = stages, .exact = exact});
    ASSERT_TRUE(cluster) << cluster.error().message();
    std::vector<Cluster::Ask> asks{
        {.prompt = truth->prompt, .tokens = kTokens, .prompt_logits = true}};
    for (const auto& prompt : truth->other_prompts) {
      asks.push_back({.prompt = prompt, .tokens = kTokens});
    }
    const auto answers = (*cluster)->ask(asks);
    ASSERT_TRUE(answers) << answers.error().message();
    const Observed& main = answers->front();
    const Difference difference = compare(main.logits, truth->answer.logits, truth->vocabulary);
    std::cout << fmt::format(
        "Qwen over {} stages{}: claims {}; {} of {} rows with other bits, NMSE {:.1e}, {} of them "
        "with another argmax\n",
        stages, exact ? " with exact kernels" : " with all kernels repacked",
        (*cluster)->claims_exact() ? "exact" : "inexact", difference.rows_other_bits,
        difference.rows, difference.nmse(), difference.rows_other_argmax);
    EXPECT_EQ((*cluster)->claims_exact(), difference.rows_other_bits == 0);
    if (!exact) return;
    EXPECT_TRUE((*cluster)->claims_exact());
    expect_same(main, truth->answer, truth->vocabulary, truth->prompt.size() + kTokens - 1);
  }
};

TEST_F(Qwen, says_of_repacked_kernels_what_they_do) {
  check(false, 2);
}

TEST_F(Qwen, has_upstream_s_bits_with_exact_kernels) {
  check(true, 3);
}

}  // namespace
}  // namespace salvage::e2e
