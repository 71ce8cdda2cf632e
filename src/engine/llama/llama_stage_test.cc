// Goal: whatever the way rows take (whole model or shards in a chain, one by one, in chunks, in
// groups of sequences, after trims and copies), the same bits come out; and bad input is refused.
// Method: a small random llama (tiny_model.h); what the whole model gives for one row at a time in
// sequence 0 is the reference.
#include "engine/llama/llama_stage.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/llama/tiny_model.h"

namespace salvage::engine {
namespace {

using testing::HasSubstr;

constexpr std::size_t kTokens = 30;

std::unique_ptr<StageEngine> load(const StageOptions& options) {
  auto made = make_llama_stage_engine(options, {});
  EXPECT_TRUE(made) << made.error().message();
  return made ? std::move(*made) : nullptr;
}

TokenId token_at(std::size_t position) {
  return static_cast<TokenId>((position * 97 + 11) % kTinyVocabulary);
}

// One row of a micro-batch: the token of that position in that sequence.
struct Row {
  std::uint32_t sequence = 0;
  std::size_t position = 0;
};

std::vector<Row> chunk(std::uint32_t sequence, std::size_t begin, std::size_t end) {
  std::vector<Row> rows;
  for (std::size_t position = begin; position < end; ++position)
    rows.push_back({sequence, position});
  return rows;
}

// Runs rows through a chain of stages and gives the logits of every row.
class Chain {
 public:
  explicit Chain(std::vector<std::unique_ptr<StageEngine>> stages) : stages_(std::move(stages)) {}

  Result<std::vector<float>> try_run(const std::vector<Row>& rows) {
    std::vector<TokenId> tokens;
    std::vector<std::int32_t> positions;
    std::vector<SequenceId> sequences;
    for (const Row& row : rows) {
      tokens.push_back(token_at(row.position));
      positions.push_back(static_cast<std::int32_t>(row.position));
      sequences.push_back({row.sequence});
    }
    const std::vector<std::uint8_t> wants_logits(rows.size(), 1);
    std::vector<float> hidden;
    for (auto& stage : stages_) {
      RETURN_IF_ERROR(stage->run({.tokens = tokens,
                                  .hidden = hidden,
                                  .positions = positions,
                                  .sequences = sequences,
                                  .wants_logits = wants_logits},
                                 output_));
      hidden = output_.hidden;
    }
    return std::vector<float>(output_.logits.begin(), output_.logits.end());
  }
  std::vector<float> run(const std::vector<Row>& rows) {
    auto logits = try_run(rows);
    EXPECT_TRUE(logits) << logits.error().message();
    return logits ? *logits : std::vector<float>();
  }
  Result<void> apply(SequenceOp op) {
    for (auto& stage : stages_) RETURN_IF_ERROR(stage->apply({&op, 1}));
    return {};
  }
  StageEngine& stage(std::size_t index) { return *stages_[index]; }

 private:
  std::vector<std::unique_ptr<StageEngine>> stages_;
  StepOutput output_;
};

class LlamaStageTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = new TinyModel(GGML_TYPE_Q8_0);
    Chain whole = LlamaStageTest::whole();
    reference_ = new std::vector<float>;
    for (std::size_t position = 0; position < kTokens; ++position) {
      const auto logits = whole.run({{0, position}});
      reference_->insert(reference_->end(), logits.begin(), logits.end());
    }
  }
  static void TearDownTestSuite() {
    delete model_;
    delete reference_;
  }

  static Chain whole() {
    std::vector<std::unique_ptr<StageEngine>> stages;
    stages.push_back(load(tiny_options(model_->whole())));
    return Chain(std::move(stages));
  }
  static Chain shards(const std::vector<std::uint32_t>& cuts, std::uint32_t thread_count = 1) {
    std::vector<std::unique_ptr<StageEngine>> stages;
    std::uint32_t begin = 0;
    for (std::size_t i = 0; i <= cuts.size(); ++i) {
      const std::uint32_t end = i < cuts.size() ? cuts[i] : kTinyLayers;
      StageOptions options = tiny_options(model_->shard({begin, end}));
      options.thread_count = thread_count;
      if (begin == 0) options.embedding_table = model_->table();
      stages.push_back(load(options));
      begin = end;
    }
    return Chain(std::move(stages));
  }
  static std::vector<float> expected(const std::vector<Row>& rows) {
    std::vector<float> result;
    for (const Row& row : rows) {
      const auto begin =
          reference_->begin() + static_cast<std::ptrdiff_t>(row.position * kTinyVocabulary);
      result.insert(result.end(), begin, begin + kTinyVocabulary);
    }
    return result;
  }
  // Equal as values; none is NaN, so equal bits but for the sign of zero.
  static void expect_exact(Chain& chain, const std::vector<Row>& rows) {
    EXPECT_TRUE(chain.run(rows) == expected(rows))
        << "sequence " << rows.front().sequence << " from " << rows.front().position;
  }

  static TinyModel* model_;
  static std::vector<float>* reference_;
};
TinyModel* LlamaStageTest::model_ = nullptr;
std::vector<float>* LlamaStageTest::reference_ = nullptr;

TEST_F(LlamaStageTest, the_reference_is_alive) {
  // Were all logits 0 or NaN, every comparison below would be worth nothing.
  for (std::size_t position = 0; position < kTokens; ++position) {
    const auto row = expected({{0, position}});
    const auto [low, high] = std::minmax_element(row.begin(), row.end());
    EXPECT_GT(*high - *low, 1.0F);
    EXPECT_LT(*high - *low, 100.0F);
  }
  EXPECT_NE(expected({{0, 3}}), expected({{0, 4}}));
}

TEST_F(LlamaStageTest, a_chain_of_shards_gives_the_bits_of_the_whole_model) {
  for (const auto& cuts : std::vector<std::vector<std::uint32_t>>{{}, {1}, {2}, {3}, {1, 2, 3}}) {
    Chain chain = shards(cuts);
    expect_exact(chain, chunk(0, 0, 11));
    for (std::size_t position = 11; position < kTokens; ++position) {
      expect_exact(chain, {{0, position}});
    }
  }
}

TEST_F(LlamaStageTest, chunks_of_any_size_give_the_bits_of_single_rows) {
  Chain chain = whole();
  for (std::uint32_t size : {2U, 3U, 4U, 5U, 16U}) {
    for (std::size_t begin = 0; begin < kTokens; begin += size) {
      expect_exact(chain, chunk(1, begin, std::min<std::size_t>(begin + size, kTokens)));
    }
    ASSERT_TRUE(chain.apply({.kind = SequenceOpKind::kClear, .sequence = {1}, .source = {}}));
  }
}

TEST_F(LlamaStageTest, a_group_of_sequences_gives_the_bits_of_each_alone) {
  Chain chain = shards({2});
  for (std::uint32_t sequence = 0; sequence < 4; ++sequence) {
    chain.run(chunk(sequence, 0, 3 + 2 * sequence));
  }
  for (std::size_t step = 0; step < 10; ++step) {
    expect_exact(chain, {{0, 3 + step}, {1, 5 + step}, {2, 7 + step}, {3, 9 + step}});
  }
}

TEST_F(LlamaStageTest, rows_come_back_in_order_whatever_the_sequence_ids) {
  // Ids with gaps run as several ubatches, ids out of order are laid out anew.
  for (const auto& ids : std::vector<std::vector<std::uint32_t>>{
           {0, 2, 4, 7}, {3, 2, 1, 0}, {7, 0, 5, 4}, {6, 7, 0, 1, 3}}) {
    Chain chain = shards({1, 3});
    std::vector<Row> rows;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i > 0) chain.run(chunk(ids[i], 0, i));
      rows.push_back({ids[i], i});
    }
    expect_exact(chain, rows);
  }
}

TEST_F(LlamaStageTest, only_rows_that_want_logits_get_them_in_the_order_of_the_batch) {
  const auto engine = load(tiny_options(model_->whole()));
  const std::vector<TokenId> tokens(3, token_at(0));
  const std::vector<std::int32_t> positions(3, 0);
  const std::vector<SequenceId> sequences = {{5}, {1}, {3}};
  const std::vector<std::uint8_t> wants_logits = {1, 0, 1};
  StepOutput output;
  ASSERT_TRUE(engine->run({.tokens = tokens,
                           .hidden = {},
                           .positions = positions,
                           .sequences = sequences,
                           .wants_logits = wants_logits},
                          output));
  const std::vector<float> got(output.logits.begin(), output.logits.end());
  EXPECT_TRUE(got == expected({{5, 0}, {3, 0}}));
  const std::vector<std::uint8_t> none(3, 0);
  const std::vector<std::int32_t> next(3, 1);
  ASSERT_TRUE(engine->run({.tokens = tokens,
                           .hidden = {},
                           .positions = next,
                           .sequences = sequences,
                           .wants_logits = none},
                          output));
  EXPECT_TRUE(output.logits.empty());
}

TEST_F(LlamaStageTest, going_on_after_a_trim_gives_the_bits_of_a_fresh_run) {
  Chain chain = shards({2});
  chain.run(chunk(2, 0, 16));
  ASSERT_TRUE(
      chain.apply({.kind = SequenceOpKind::kTrim, .sequence = {2}, .source = {}, .position = 5}));
  expect_exact(chain, chunk(2, 5, 20));
}

TEST_F(LlamaStageTest, what_was_trimmed_away_leaves_no_trace) {
  Chain chain = whole();
  chain.run(chunk(2, 0, 6));
  // Other tokens at positions 6 and 7, cut off again.
  const std::vector<TokenId> strange = {1, 2};
  const std::vector<std::int32_t> positions = {6, 7};
  const std::vector<SequenceId> sequences(2, SequenceId{2});
  const std::vector<std::uint8_t> wants_logits(2, 0);
  StepOutput output;
  ASSERT_TRUE(chain.stage(0).run({.tokens = strange,
                                  .hidden = {},
                                  .positions = positions,
                                  .sequences = sequences,
                                  .wants_logits = wants_logits},
                                 output));
  ASSERT_TRUE(
      chain.apply({.kind = SequenceOpKind::kTrim, .sequence = {2}, .source = {}, .position = 6}));
  expect_exact(chain, chunk(2, 6, 12));
}

TEST_F(LlamaStageTest, a_copied_sequence_goes_on_like_its_source_and_apart_from_it) {
  Chain chain = shards({2});
  chain.run(chunk(0, 0, 9));
  chain.run(chunk(3, 0, 12));  // what the copy replaces
  ASSERT_TRUE(chain.apply({.kind = SequenceOpKind::kCopy, .sequence = {3}, .source = {0}}));
  ASSERT_TRUE(chain.apply({.kind = SequenceOpKind::kClear, .sequence = {0}, .source = {}}));
  expect_exact(chain, chunk(3, 9, 14));
  expect_exact(chain, chunk(0, 0, 4));
  expect_exact(chain, {{0, 4}, {3, 14}});
}

TEST_F(LlamaStageTest, copies_in_a_row_are_done_in_order) {
  Chain chain = whole();
  chain.run(chunk(0, 0, 7));
  for (const auto& [to, from] : {std::pair{1U, 0U}, std::pair{2U, 1U}, std::pair{5U, 2U}}) {
    ASSERT_TRUE(chain.apply({.kind = SequenceOpKind::kCopy, .sequence = {to}, .source = {from}}));
  }
  ASSERT_TRUE(chain.apply({.kind = SequenceOpKind::kClear, .sequence = {1}, .source = {}}));
  expect_exact(chain, {{2, 7}, {5, 7}});
  expect_exact(chain, {{1, 0}});
}

TEST_F(LlamaStageTest, two_threads_give_the_bits_of_one) {
  Chain chain = shards({2}, 2);
  expect_exact(chain, chunk(0, 0, 16));
  expect_exact(chain, {{0, 16}});
}

TEST_F(LlamaStageTest, facts_say_what_the_stage_is) {
  Chain chain = shards({1, 3});
  const StageFacts& first = chain.stage(0).facts();
  const StageFacts& middle = chain.stage(1).facts();
  const StageFacts& last = chain.stage(2).facts();
  EXPECT_TRUE(first.takes_tokens);
  EXPECT_FALSE(first.gives_logits);
  EXPECT_EQ(first.row_width_in, 0U);
  EXPECT_EQ(first.row_width_out, kTinyWidth);
  EXPECT_EQ(middle.layers, (LayerRange{1, 3}));
  EXPECT_EQ(middle.layer_count, kTinyLayers);
  EXPECT_EQ(middle.row_width_in, kTinyWidth);
  EXPECT_EQ(middle.vocabulary_size, kTinyVocabulary);
  EXPECT_TRUE(last.gives_logits);
  EXPECT_FALSE(last.takes_tokens);
  EXPECT_TRUE(last.can_trim);
  EXPECT_EQ(first.kernel_fingerprint, last.kernel_fingerprint);
  EXPECT_GT(middle.memory.weights_bytes, std::uint64_t{1} << 20);
  EXPECT_GT(middle.memory.kv_cache_bytes, 0U);
  // Two of four layers, no table and no output matrix: less than the first and last together.
  EXPECT_LT(middle.memory.weights_bytes, first.memory.weights_bytes + last.memory.weights_bytes);
}

TEST_F(LlamaStageTest, positions_that_do_not_go_on_where_the_cache_ends_are_refused) {
  Chain chain = whole();
  const auto gap = chain.try_run({{0, 1}});
  ASSERT_FALSE(gap);
  EXPECT_EQ(gap.error().code(), ErrorCode::kInvalidArgument);
  chain.run(chunk(0, 0, 5));
  EXPECT_FALSE(chain.try_run({{0, 4}}));
  EXPECT_FALSE(chain.try_run({{0, 6}}));
  EXPECT_FALSE(chain.try_run({{0, 5}, {1, 1}}));
  expect_exact(chain, {{0, 5}});  // refused batches have changed nothing
}

TEST_F(LlamaStageTest, sequence_operations_out_of_range_are_refused) {
  Chain chain = whole();
  EXPECT_FALSE(chain.apply({.kind = SequenceOpKind::kClear, .sequence = {8}, .source = {}}));
  EXPECT_FALSE(chain.apply({.kind = SequenceOpKind::kCopy, .sequence = {0}, .source = {64}}));
  EXPECT_FALSE(
      chain.apply({.kind = SequenceOpKind::kTrim, .sequence = {0}, .source = {}, .position = -1}));
  EXPECT_FALSE(
      chain.apply({.kind = static_cast<SequenceOpKind>(9), .sequence = {0}, .source = {}}));
  EXPECT_TRUE(chain.apply(
      {.kind = SequenceOpKind::kTrim, .sequence = {0}, .source = {}, .position = 1000}));
}

TEST_F(LlamaStageTest, the_context_can_be_filled_to_its_end_and_not_beyond) {
  Chain chain = whole();
  for (std::size_t begin = 0; begin < 64; begin += 16) chain.run(chunk(7, begin, begin + 16));
  const auto beyond = chain.try_run({{7, 64}});
  ASSERT_FALSE(beyond);
  EXPECT_THAT(beyond.error().message(), HasSubstr("context of 64"));
}

TEST_F(LlamaStageTest, hidden_states_of_another_width_are_refused) {
  Chain chain = shards({2});
  const std::vector<TokenId> tokens = {1};
  const std::vector<std::int32_t> positions = {0};
  const std::vector<SequenceId> sequences = {{0}};
  const std::vector<std::uint8_t> wants_logits = {1};
  const std::vector<float> hidden(kTinyWidth - 1);
  StepOutput output;
  EXPECT_FALSE(chain.stage(1).run({.tokens = tokens,
                                   .hidden = hidden,
                                   .positions = positions,
                                   .sequences = sequences,
                                   .wants_logits = wants_logits},
                                  output));
}

TEST_F(LlamaStageTest, a_first_shard_needs_the_table_of_its_own_model) {
  StageOptions options = tiny_options(model_->shard({0, 2}));
  EXPECT_THAT(make_llama_stage_engine(options, {}).error().message(),
              HasSubstr("needs its embedding table"));
  const TinyModel other(GGML_TYPE_Q8_0, 2);
  options.embedding_table = other.table();
  EXPECT_THAT(make_llama_stage_engine(options, {}).error().message(),
              HasSubstr("of another model"));
  options = tiny_options(model_->shard({2, 4}));
  options.embedding_table = model_->table();
  EXPECT_FALSE(make_llama_stage_engine(options, {}));
}

TEST_F(LlamaStageTest, files_and_limits_that_cannot_be_are_refused) {
  EXPECT_FALSE(make_llama_stage_engine(tiny_options("/nonexistent.gguf"), {}));
  EXPECT_FALSE(make_llama_stage_engine(tiny_options(model_->table()), {}));
  for (const auto& change : std::vector<std::function<void(StageOptions&)>>{
           [](StageOptions& options) { options.sequence_count_max = 65; },
           [](StageOptions& options) { options.sequence_count_max = 0; },
           [](StageOptions& options) { options.rows_max = 0; },
           [](StageOptions& options) { options.logit_rows_max = 0; },
           [](StageOptions& options) { options.context_per_sequence = 0; },
           [](StageOptions& options) { options.context_per_sequence = 4'000'000'000; },
           [](StageOptions& options) { options.thread_count = 0; },
           [](StageOptions& options) { options.thread_count = 100'000; }}) {
    StageOptions options = tiny_options(model_->whole());
    change(options);
    const auto made = make_llama_stage_engine(options, {});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), ErrorCode::kInvalidArgument);
  }
}

TEST_F(LlamaStageTest, loading_reports_progress_and_can_be_cancelled) {
  double last = -1;
  const auto made = make_llama_stage_engine(tiny_options(model_->whole()), [&](double done) {
    EXPECT_GE(done, last);
    last = done;
    return true;
  });
  ASSERT_TRUE(made);
  EXPECT_EQ(last, 1.0);
  const auto cancelled = make_llama_stage_engine(tiny_options(model_->whole()),
                                                 [](double done) { return done < 0.5; });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code(), ErrorCode::kCancelled);
}

TEST_F(LlamaStageTest, a_shard_cut_short_is_refused) {
  const auto path = model_->shard({1, 2});
  std::filesystem::resize_file(path, std::filesystem::file_size(path) * 7 / 10);
  const auto made = make_llama_stage_engine(tiny_options(path), {});
  std::filesystem::remove(path);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), ErrorCode::kCorrupt);
}

// Which types are exact, as measured: the self check must agree in both directions.
struct TypeCase {
  ggml_type type;
  std::optional<bool> exact_by_default;  // nothing: depends on the instruction set
};

class SelfCheckTest : public testing::TestWithParam<TypeCase> {};

TEST_P(SelfCheckTest, tells_exact_kernels_from_others_and_exact_stages_pass) {
  const TinyModel model(GetParam().type);
  StageOptions options = tiny_options(model.whole());
  const auto checked = load(options)->self_check();
  ASSERT_TRUE(checked) << checked.error().message();
  if (GetParam().exact_by_default) {
    EXPECT_EQ(checked->exact, *GetParam().exact_by_default) << checked->condition;
  }
  EXPECT_EQ(checked->condition.empty(), checked->exact);
  if (checked->exact) {
    EXPECT_EQ(checked->nmse, 0);
  }
  EXPECT_GT(checked->rows_compared, 20U);
  options.exact = true;
  const auto exactly = load(options)->self_check();
  ASSERT_TRUE(exactly);
  EXPECT_TRUE(exactly->exact) << exactly->condition;
}

INSTANTIATE_TEST_SUITE_P(
    Types, SelfCheckTest,
    testing::Values(TypeCase{GGML_TYPE_F32, true}, TypeCase{GGML_TYPE_F16, true},
                    TypeCase{GGML_TYPE_Q8_0, true}, TypeCase{GGML_TYPE_Q4_0, true},
                    TypeCase{GGML_TYPE_Q4_1, true}, TypeCase{GGML_TYPE_Q6_K, true},
                    TypeCase{GGML_TYPE_Q5_K, true}, TypeCase{GGML_TYPE_Q3_K, true},
                    TypeCase{GGML_TYPE_Q2_K, std::nullopt}, TypeCase{GGML_TYPE_BF16, true},
                    TypeCase{GGML_TYPE_IQ4_NL, true}, TypeCase{GGML_TYPE_IQ4_XS, false}),
    [](const auto& tested) { return ggml_type_name(tested.param.type); });

TEST(SelfCheckTest, finds_that_repacked_q4_k_depends_on_the_group) {
  const TinyModel model(GGML_TYPE_Q4_K);
  StageOptions options = tiny_options(model.whole());
  const auto engine = load(options);
  if (engine->facts().kernel_fingerprint.find("AVX2") == std::string::npos) {
    GTEST_SKIP() << "only measured with AVX2 kernels";
  }
  const auto checked = engine->self_check();
  ASSERT_TRUE(checked);
  EXPECT_FALSE(checked->exact);
  EXPECT_GT(checked->nmse, 0);
  EXPECT_THAT(checked->condition, HasSubstr("differ"));
  options.exact = true;
  const auto exactly = load(options)->self_check();
  ASSERT_TRUE(exactly);
  EXPECT_TRUE(exactly->exact) << exactly->condition;
}

TEST(SelfCheckTest, rows_beyond_what_it_tries_are_not_called_exact) {
  const TinyModel model(GGML_TYPE_Q8_0);
  StageOptions options = tiny_options(model.whole());
  options.cache_type_k = options.cache_type_v = CacheType::kF16;
  options.rows_max = 64;
  const auto checked = load(options)->self_check();
  ASSERT_TRUE(checked) << checked.error().message();
  EXPECT_FALSE(checked->exact);
  EXPECT_THAT(checked->condition, HasSubstr("more than 63 rows"));
  options.exact = true;  // whose callers keep to 63 rows
  const auto exactly = load(options)->self_check();
  ASSERT_TRUE(exactly);
  EXPECT_TRUE(exactly->exact) << exactly->condition;
}

TEST_F(LlamaStageTest, a_self_check_leaves_an_empty_cache) {
  Chain chain = shards({2});
  for (std::size_t i : {0U, 1U}) {
    const auto checked = chain.stage(i).self_check();
    ASSERT_TRUE(checked);
    EXPECT_TRUE(checked->exact) << checked->condition;
  }
  expect_exact(chain, chunk(0, 0, 9));
}

}  // namespace
}  // namespace salvage::engine
