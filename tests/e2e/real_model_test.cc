// The promise on real models: cut over real worker processes, with default settings, a model gives
// the bits that upstream's own whole-model decode gives. One suite for all models; an instance is a
// model and a number of stages. In it the pipeline is loaded once and asked alone, with a prefix to
// reuse, in company, and with everything computed anew in the middle of an answer; another pass
// computes a prompt token by token. Compared are the logits of every position that was computed,
// bit for bit, and the greedy tokens.
//
// Paths of the models come from the environment: SALVAGE_MODEL_SMOLLM2 and SALVAGE_MODEL_QWEN must
// be set (tools/run_tests.sh sets both); with SALVAGE_MODEL_GEMMA, Gemma's tests exist too. The
// whole binary is one ctest test, since a model's upstream answers are computed once for all its
// stages.

#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/environment.h"
#include "cluster.h"
#include "upstream_model.h"

namespace salvage::e2e {
namespace {

constexpr std::uint32_t kAnswer = 256;
constexpr std::uint32_t kSecondAnswer = 24;
constexpr std::uint32_t kShortAnswer = 16;
constexpr std::uint32_t kReplayAt = 8;  // answer tokens; every answer in company is longer
constexpr std::uint32_t kOneByOneStages = 3;
constexpr std::uint32_t kGroupedRows = 192;

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

// What is run, and how much of it beside the 256 tokens that every model answers alone.
struct RealModel {
  const char* name;
  const char* path_variable;
  const char* prompt;
  // Whether upstream repacks weights, as it does by itself. No where salvage, unasked, keeps some
  // of this model's matrices from kernels that move bits: upstream can only leave out all of them,
  // and those of the other types give the same bits either way.
  bool upstream_repacks;
  std::uint32_t company_answer;  // tokens of the one that four others run beside
  std::uint32_t other_answer;    // tokens of each of the four
};
const RealModel kSmolLm2{"smollm2", "SALVAGE_MODEL_SMOLLM2", kPrompt, true, 64, 16};
const RealModel kQwen{"qwen", "SALVAGE_MODEL_QWEN", kShortPrompt, false, 48, 12};
const RealModel kGemma{"gemma", "SALVAGE_MODEL_GEMMA", kPrompt, false, 48, 12};

std::string path_of(const RealModel& model) {
  return environment(model.path_variable).value_or("");
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

// Upstream's answer to a prompt, and to a second turn of that conversation.
struct Truth {
  std::vector<TokenId> prompt;
  UpstreamModel::Answer answer;
  std::vector<TokenId> second_prompt;
  UpstreamModel::Answer second_answer;
  std::vector<std::vector<TokenId>> other_prompts;
  std::size_t vocabulary = 0;
};

// Upstream itself must not depend on how the positions are grouped, or nothing can be compared.
Result<void> check_grouping(UpstreamModel& upstream, const Truth& truth) {
  const std::span<const TokenId> read = std::span(truth.second_prompt).first(kGroupedRows);
  for (const std::uint32_t rows : {7U, 128U}) {
    ASSIGN_OR_RETURN(const auto grouped, upstream.logits(read, rows));
    if (!std::equal(grouped.begin(), grouped.end(), truth.second_answer.logits.begin())) {
      return fail(ErrorCode::kInternal,
                  fmt::format("upstream has other bits in groups of {}", rows));
    }
  }
  return {};
}

Result<Truth> make_truth(const RealModel& model) {
  ASSIGN_OR_RETURN(
      UpstreamModel upstream,
      UpstreamModel::load(path_of(model), {.context = kContext, .repack = model.upstream_repacks}));
  Truth truth;
  truth.vocabulary = upstream.vocabulary_size();
  truth.prompt = upstream.tokenize(model.prompt);
  ASSIGN_OR_RETURN(truth.answer, upstream.greedy(truth.prompt, kAnswer));
  const std::vector<TokenId> more = upstream.tokenize(kSecondPrompt);
  ASSIGN_OR_RETURN(truth.second_answer, upstream.go_on(truth.answer, more, kSecondAnswer));
  truth.second_prompt = truth.prompt;
  truth.second_prompt.insert(truth.second_prompt.end(), truth.answer.tokens.begin(),
                             truth.answer.tokens.end());
  truth.second_prompt.insert(truth.second_prompt.end(), more.begin(), more.end());
  RETURN_IF_ERROR(check_grouping(upstream, truth));
  for (const std::string& text : kOtherPrompts) {
    truth.other_prompts.push_back(upstream.tokenize(text));
  }
  return truth;
}

// Made once a model; only the last asked for is kept, since one can take half a gigabyte. Null if
// it can't be made; the test has failed then.
const Truth* truth_of(const RealModel& model) {
  static const RealModel* kept_model = nullptr;
  static std::unique_ptr<Truth> kept;
  if (kept_model == &model) return kept.get();
  kept_model = &model;
  kept.reset();
  auto truth = make_truth(model);
  if (truth) {
    kept = std::make_unique<Truth>(std::move(*truth));
  } else {
    ADD_FAILURE() << "no upstream answers for " << model.name << ", whose file "
                  << model.path_variable
                  << " must name (tools/run_tests.sh e2e does): " << truth.error().message();
  }
  return kept.get();
}

// Every row that came has upstream's bits, and there were at least so many; the tokens are the
// first of upstream's.
void expect_same(const Observed& observed, const UpstreamModel::Answer& answer,
                 std::size_t vocabulary, std::size_t tokens, std::size_t rows_at_least) {
  ASSERT_LE(tokens, answer.tokens.size());
  EXPECT_EQ(observed.tokens,
            std::vector<TokenId>(answer.tokens.begin(),
                                 answer.tokens.begin() + static_cast<std::ptrdiff_t>(tokens)));
  const Difference difference = compare(observed.logits, answer.logits, vocabulary);
  EXPECT_EQ(difference.rows, observed.logits.size());
  EXPECT_GE(difference.rows, rows_at_least);
  EXPECT_EQ(difference.rows_other_bits, 0U) << "of " << difference.rows << " rows";
}

struct Case {
  const RealModel* model;
  std::uint32_t stages;
  // What gtest prints of a failed instance.
  friend std::ostream& operator<<(std::ostream& out, const Case& shown) {
    return out << shown.model->name << " over " << shown.stages;
  }
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return fmt::format("{}_over_{}", info.param.model->name, info.param.stages);
}

class ModelTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    truth_ = truth_of(*GetParam().model);
    ASSERT_NE(truth_, nullptr);
  }

  std::unique_ptr<Cluster> start(PipelineShape shape) {
    shape.stages = GetParam().stages;
    auto cluster = Cluster::start(path_of(*GetParam().model), shape);
    if (cluster) return std::move(*cluster);
    ADD_FAILURE() << cluster.error().message();
    return nullptr;
  }
  void expect_first_turn(const Observed& observed, std::size_t tokens, bool with_prompt) {
    const std::size_t prompt_rows = with_prompt ? truth_->prompt.size() : 1;
    expect_same(observed, truth_->answer, truth_->vocabulary, tokens, prompt_rows + tokens - 1);
  }

  const Truth* truth_ = nullptr;
};

// What the options for slow links cost. That the statistics call them inexact is in cli_test.py.
class SmallerHiddenStates : public ModelTest {
 protected:
  void measure(wire::HiddenType type, double nmse_max) {
    const auto cluster = start({.hidden = type, .self_check = false});
    ASSERT_NE(cluster, nullptr);
    const auto read = cluster->ask_one({.prompt = truth_->second_prompt, .prompt_logits = true});
    ASSERT_TRUE(read) << read.error().message();
    const Difference difference =
        compare(read->logits, truth_->second_answer.logits, truth_->vocabulary);
    const std::string other =
        fmt::format("{} of {} rows ({}) with another argmax", difference.rows_other_argmax,
                    difference.rows, percent(difference.rows_other_argmax, difference.rows));
    std::cout << fmt::format("hidden states as {} over {} stages: NMSE {:.1e}, {}\n",
                             wire::hidden_type_name(type), GetParam().stages, difference.nmse(),
                             other);
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

INSTANTIATE_TEST_SUITE_P(real, SmallerHiddenStates, testing::Values(Case{&kSmolLm2, 3}), name_of);

class UpstreamsBits : public ModelTest {
 protected:
  void expect_bits_alone(Cluster& cluster);
  void expect_bits_of_second_turn(Cluster& cluster);
  void expect_bits_in_company(Cluster& cluster);
  void expect_bits_one_by_one();

  std::vector<Cluster::Ask> with_four_others(const Cluster::Ask& main) {
    std::vector<Cluster::Ask> asks{main};
    for (const auto& prompt : truth_->other_prompts) {
      asks.push_back({.prompt = prompt, .tokens = GetParam().model->other_answer});
    }
    return asks;
  }
};

void UpstreamsBits::expect_bits_alone(Cluster& cluster) {
  SCOPED_TRACE("alone, nothing reused");
  const auto alone =
      cluster.ask_one({.prompt = truth_->prompt, .tokens = kAnswer, .prompt_logits = true});
  ASSERT_TRUE(alone) << alone.error().message();
  EXPECT_EQ(alone->stats.reused_tokens, 0U);
  expect_first_turn(*alone, kAnswer, true);
}

// Right after expect_bits_alone, whose answer is the prefix.
void UpstreamsBits::expect_bits_of_second_turn(Cluster& cluster) {
  const std::size_t vocabulary = truth_->vocabulary;
  {
    SCOPED_TRACE("the second turn, which reuses the first");
    const auto second = cluster.ask_one({.prompt = truth_->second_prompt, .tokens = kSecondAnswer});
    ASSERT_TRUE(second) << second.error().message();
    EXPECT_GE(second->stats.reused_tokens, truth_->prompt.size() + kAnswer - 1);
    expect_same(*second, truth_->second_answer, vocabulary, kSecondAnswer, kSecondAnswer);
  }
  {
    SCOPED_TRACE("the second turn without reuse");
    const auto second = cluster.ask_one(
        {.prompt = truth_->second_prompt, .tokens = kSecondAnswer, .prompt_logits = true});
    ASSERT_TRUE(second) << second.error().message();
    EXPECT_EQ(second->stats.reused_tokens, 0U);
    expect_same(*second, truth_->second_answer, vocabulary, kSecondAnswer,
                truth_->second_prompt.size() + kSecondAnswer - 1);
  }
}

void UpstreamsBits::expect_bits_in_company(Cluster& cluster) {
  const std::uint32_t tokens = GetParam().model->company_answer;
  std::vector<Observed> first;
  {
    SCOPED_TRACE("with four other sequences");
    auto answers = cluster.ask(
        with_four_others({.prompt = truth_->prompt, .tokens = tokens, .prompt_logits = true}));
    ASSERT_TRUE(answers) << answers.error().message();
    expect_first_turn(answers->front(), tokens, true);
    first = std::move(*answers);
  }
  {
    SCOPED_TRACE("with four others, all of it computed anew in the middle of the answer");
    const auto answers = cluster.ask(with_four_others(
        {.prompt = truth_->prompt, .tokens = tokens, .replay_at_token = kReplayAt}));
    ASSERT_TRUE(answers) << answers.error().message();
    expect_first_turn(answers->front(), tokens, false);
    for (std::size_t i = 1; i < first.size(); ++i) {
      EXPECT_EQ(first[i].tokens, (*answers)[i].tokens) << "other sequence " << i;
    }
  }
}

// A pipeline of its own, which sends every position as a step of its own.
void UpstreamsBits::expect_bits_one_by_one() {
  SCOPED_TRACE("prompt and answer computed one by one");
  const auto cluster = start({.self_check = false, .chunk_rows = 1});
  ASSERT_NE(cluster, nullptr);
  const auto observed =
      cluster->ask_one({.prompt = truth_->prompt, .tokens = kShortAnswer, .prompt_logits = true});
  ASSERT_TRUE(observed) << observed.error().message();
  expect_first_turn(*observed, kShortAnswer, true);
  const auto stats = cluster->pipeline().stats(false);
  ASSERT_TRUE(stats) << stats.error().message();
  EXPECT_EQ(stats->front().steps, truth_->prompt.size() + kShortAnswer - 1);
}

TEST_P(UpstreamsBits, come_alone_with_reuse_in_company_and_after_a_replay_of_everything) {
  auto cluster = start({});
  ASSERT_NE(cluster, nullptr);
  EXPECT_TRUE(cluster->claims_exact());
  EXPECT_EQ(cluster->pipeline().stages().size(), GetParam().stages);
  expect_bits_alone(*cluster);
  expect_bits_of_second_turn(*cluster);
  expect_bits_in_company(*cluster);
  cluster.reset();
  if (GetParam().stages == kOneByOneStages) expect_bits_one_by_one();
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const RealModel* model : {&kSmolLm2, &kQwen}) {
    for (const std::uint32_t stages : {1U, 2U, 3U, 5U}) cases.push_back({model, stages});
  }
  if (!path_of(kGemma).empty()) {  // its legal cuts, at 6 and 12, allow no more than three stages
    for (const std::uint32_t stages : {1U, 2U, 3U}) cases.push_back({&kGemma, stages});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(real, UpstreamsBits, testing::ValuesIn(all_cases()), name_of);

// Q4_K_M has repacked kernels that move bits with the grouping of rows; asked for, they are used,
// and the claim must be what is seen.
TEST(RepackedKernels, are_called_inexact_where_they_move_bits) {
  const std::string path = path_of(kQwen);
  auto upstream = UpstreamModel::load(path, {.context = kContext});
  ASSERT_TRUE(upstream) << upstream.error().message();
  const std::vector<TokenId> prompt = upstream->tokenize(kQwen.prompt);
  const auto answer = upstream->greedy(prompt, kShortAnswer);
  ASSERT_TRUE(answer) << answer.error().message();
  const auto cluster = Cluster::start(path, {.stages = 2, .exact = false});
  ASSERT_TRUE(cluster) << cluster.error().message();
  std::vector<Cluster::Ask> asks{{.prompt = prompt, .tokens = kShortAnswer, .prompt_logits = true}};
  for (const std::string& text : kOtherPrompts) {
    asks.push_back({.prompt = upstream->tokenize(text), .tokens = kShortAnswer});
  }
  const auto answers = (*cluster)->ask(asks);
  ASSERT_TRUE(answers) << answers.error().message();
  const Difference difference =
      compare(answers->front().logits, answer->logits, upstream->vocabulary_size());
  std::cout << fmt::format(
      "Qwen with all kernels repacked: claims {}; {} of {} rows with other bits, NMSE {:.1e}, {} "
      "of "
      "them with another argmax\n",
      (*cluster)->claims_exact() ? "exact" : "inexact", difference.rows_other_bits, difference.rows,
      difference.nmse(), difference.rows_other_argmax);
  EXPECT_EQ((*cluster)->claims_exact(), difference.rows_other_bits == 0);
}

}  // namespace
}  // namespace salvage::e2e
