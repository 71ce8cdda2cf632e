// Goal: whatever requests come, in whatever order they start, end, are cancelled or replayed, each
// one gets the tokens that it would have got alone, and the rules on order and size hold.
// Method: a fake pipeline keeps a KV cache of token ids per sequence and chooses the next token as
// a hash of everything before it, so a row computed on a wrong cache changes the answer.

#include "pipeline/scheduler.h"

#include <algorithm>
#include <functional>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "pipeline/chunking.h"

namespace salvage::pipeline {
namespace {

TokenId hash_of(const std::vector<TokenId>& tokens) {
  std::uint32_t hash = 2166136261U;
  for (const TokenId token : tokens) hash = (hash ^ static_cast<std::uint32_t>(token)) * 16777619U;
  return static_cast<TokenId>(hash % 1000);
}

std::vector<TokenId> answer_alone(std::vector<TokenId> tokens, std::size_t count) {
  std::vector<TokenId> answer;
  for (std::size_t i = 0; i < count; ++i) {
    answer.push_back(hash_of(tokens));
    tokens.push_back(answer.back());
  }
  return answer;
}

// Applies steps in the order in which they were planned, as every stage does.
class FakePipeline {
 public:
  explicit FakePipeline(std::uint32_t sequence_count) : cache_(sequence_count) {}

  void send(const PlannedStep& step) {
    for (const auto& op : step.ops) {
      auto& tokens = cache_.at(op.sequence.value);
      if (op.kind == engine::SequenceOpKind::kClear) tokens.clear();
      if (op.kind == engine::SequenceOpKind::kTrim) {
        ASSERT_LE(static_cast<std::size_t>(op.position), tokens.size());
        tokens.resize(static_cast<std::size_t>(op.position));
      }
    }
    Result result{step.step, {}, {}};
    for (std::size_t row = 0; row < step.tokens.size(); ++row) {
      auto& tokens = cache_.at(step.sequences[row].value);
      ASSERT_EQ(tokens.size(), static_cast<std::size_t>(step.positions[row]));
      tokens.push_back(step.tokens[row]);
      if (step.wants_logits[row] == 0) continue;
      result.tokens.push_back(hash_of(tokens));
      result.requests.push_back(step.requests[row]);
    }
    rows_seen_ += step.tokens.size();
    results_.push_back(std::move(result));
  }

  struct Result {
    StepId step;
    std::vector<TokenId> tokens;
    std::vector<RequestId> requests;
  };
  Result receive() {
    Result result = std::move(results_.front());
    results_.pop_front();
    return result;
  }
  bool idle() const { return results_.empty(); }
  std::size_t rows_seen() const { return rows_seen_; }

 private:
  std::vector<std::vector<TokenId>> cache_;
  std::deque<Result> results_;
  std::size_t rows_seen_ = 0;
};

struct Answer {
  std::vector<TokenId> prompt;
  std::vector<TokenId> tokens;
  std::size_t wanted = 0;
};

// Drives a scheduler over the fake pipeline.
class Driver {
 public:
  explicit Driver(const SchedulerLimits& limits)
      : scheduler(limits), pipeline(limits.sequence_count) {}

  RequestId submit(std::vector<TokenId> prompt, std::size_t wanted, std::int32_t priority = 0) {
    const RequestId id{++last_id_};
    answers[id] = Answer{prompt, {}, wanted};
    EXPECT_TRUE(scheduler.submit({.request = id, .prompt = std::move(prompt), .priority = priority})
                    .has_value());
    return id;
  }
  void send_all() {
    while (auto step = scheduler.next()) {
      if (on_step) on_step(*step);
      EXPECT_LE(scheduler.in_flight(), scheduler.limits().in_flight_max);
      EXPECT_LE(step->tokens.size(), scheduler.limits().rows_max);
      pipeline.send(*step);
    }
  }
  void receive_one() {
    const auto result = pipeline.receive();
    const auto outcome = scheduler.on_result(result.step);
    ASSERT_TRUE(outcome.has_value());
    if (outcome->progress) progress.push_back(*outcome->progress);
    for (const ResultRow& row :
         outcome->rows) {  // rows of requests that ended meanwhile are left out
      ASSERT_EQ(result.requests.at(row.index), row.request);
      take(row, result.tokens[row.index]);
    }
  }
  void run_until(const std::function<bool()>& condition) {
    for (int turn = 0; turn < 100000 && !condition(); ++turn) {
      send_all();
      if (pipeline.idle()) return;
      receive_one();
    }
    EXPECT_TRUE(condition()) << "no end";
  }
  void run() {
    for (int turn = 0; turn < 100000; ++turn) {
      send_all();
      if (pipeline.idle()) return;
      receive_one();
    }
    FAIL() << "no end";
  }

  Scheduler scheduler;
  FakePipeline pipeline;
  std::map<RequestId, Answer> answers;
  std::vector<PromptProgress> progress;
  std::function<void(const PlannedStep&)> on_step;  // may be empty

 private:
  void take(const ResultRow& row, TokenId token) {
    if (!row.samples) return;
    Answer& answer = answers.at(row.request);
    answer.tokens.push_back(token);
    if (answer.tokens.size() == answer.wanted || !scheduler.has_room(row.request)) {
      scheduler.finish(row.request);
    } else {
      scheduler.on_token(row.request, token);
    }
  }
  std::uint64_t last_id_ = 0;
};

std::vector<TokenId> tokens_from(TokenId first, std::size_t count) {
  std::vector<TokenId> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = first + static_cast<TokenId>(i);
  return tokens;
}

void expect_as_alone(const Driver& driver) {
  for (const auto& [id, answer] : driver.answers) {
    EXPECT_EQ(answer.tokens, answer_alone(answer.prompt, answer.tokens.size())) << id.value;
  }
}

TEST(Scheduler, one_request_gets_the_tokens_it_would_get_alone) {
  Driver driver({.stage_count = 3, .rows_max = 16});
  const RequestId id = driver.submit(tokens_from(5, 100), 20);
  driver.run();
  EXPECT_EQ(driver.answers.at(id).tokens, answer_alone(tokens_from(5, 100), 20));
  EXPECT_EQ(driver.scheduler.live_count(), 0U);
}

TEST(Scheduler, a_prompts_chunks_are_all_under_way_at_once) {
  Driver driver({.stage_count = 3, .rows_max = 16, .in_flight_max = 5, .chunk_rows = 10});
  driver.submit(tokens_from(5, 100), 1);
  driver.send_all();
  EXPECT_EQ(driver.scheduler.in_flight(), 5U);
  EXPECT_EQ(driver.pipeline.rows_seen(), 50U);
}

TEST(Scheduler, four_streams_over_two_stages_form_two_groups_of_two) {
  Driver driver({.stage_count = 2, .sequence_count = 4, .in_flight_max = 4});
  for (TokenId i = 0; i < 4; ++i) driver.submit(tokens_from(i * 100, 8), 1000);
  for (int turn = 0; turn < 50; ++turn) {
    driver.send_all();
    driver.receive_one();
  }
  driver.send_all();
  EXPECT_EQ(driver.scheduler.in_flight(), 2U);
  driver.receive_one();
  const auto step = driver.scheduler.next();
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->tokens.size(), 2U);
}

TEST(Scheduler, decode_goes_before_a_waiting_prompt) {
  Driver driver(
      {.stage_count = 1, .sequence_count = 2, .rows_max = 8, .in_flight_max = 2, .chunk_rows = 8});
  driver.submit(tokens_from(0, 4), 100);
  driver.send_all();
  driver.submit(tokens_from(50, 800), 1);
  driver.send_all();  // one chunk behind the first prompt
  driver.receive_one();
  const auto step = driver.scheduler.next();
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->tokens.size(), 1U) << "the decode step, not the next chunk";
}

TEST(Scheduler, says_how_far_a_prompt_is_read) {
  Driver driver({.stage_count = 2, .rows_max = 8, .chunk_rows = 8});
  driver.submit(tokens_from(0, 20), 3);
  driver.run();
  std::vector<std::uint32_t> done;
  for (const PromptProgress& one : driver.progress) {
    done.push_back(one.done);
    EXPECT_EQ(one.total, 20U);
  }
  EXPECT_EQ(done, (std::vector<std::uint32_t>{8, 16, 20}));
}

TEST(Scheduler, a_short_question_does_not_wait_for_a_long_document) {
  Driver driver(
      {.stage_count = 1, .sequence_count = 2, .rows_max = 8, .in_flight_max = 1, .chunk_rows = 8});
  driver.submit(tokens_from(0, 800), 1);
  const RequestId question = driver.submit(tokens_from(5000, 16), 1);
  for (int turn = 0; turn < 2; ++turn) {
    driver.send_all();
    driver.receive_one();
  }
  EXPECT_EQ(driver.answers.at(question).tokens.size(), 1U);
}

TEST(Scheduler, a_short_question_overtakes_eight_long_documents) {
  for (std::uint32_t stages = 1; stages <= 4; ++stages) {
    const std::uint32_t under_way = 2 * stages + 1;
    Driver driver({.stage_count = stages,
                   .sequence_count = 9,
                   .rows_max = 8,
                   .in_flight_max = under_way,
                   .chunk_rows = 8});
    for (TokenId i = 0; i < 8; ++i) driver.submit(tokens_from(i * 1000, 800), 1);
    driver.send_all();
    const RequestId question = driver.submit(tokens_from(50000, 16), 1);
    std::uint32_t results = 0;
    while (driver.answers.at(question).tokens.empty() && results < 1000) {
      driver.receive_one();
      driver.send_all();
      ++results;
    }
    EXPECT_LE(results, under_way + 2) << "what was under way, and its own two chunks";
  }
}

// Between two tokens of a stream each stage computes one chunk of others for each stage that the
// token's own step passes: the step goes before every chunk that isn't under way yet.
TEST(Scheduler, a_stream_beside_long_documents_waits_for_one_chunk_a_stage) {
  for (std::uint32_t stages = 1; stages <= 4; ++stages) {
    Driver driver({.stage_count = stages,
                   .sequence_count = 12,
                   .rows_max = 8,
                   .in_flight_max = 2 * stages + 1,
                   .chunk_rows = 8});
    const std::vector<RequestId> streams{driver.submit(tokens_from(0, 4), 300),
                                         driver.submit(tokens_from(100, 4), 300)};
    driver.run_until([&] { return driver.answers.at(streams[1]).tokens.size() > 2; });
    for (TokenId i = 1; i <= 8; ++i) driver.submit(tokens_from(i * 1000, 400), 1);
    std::map<RequestId, std::uint32_t> chunks_since;
    std::uint32_t worst = 0;
    driver.on_step = [&](const PlannedStep& step) {
      const bool chunk =
          std::find(streams.begin(), streams.end(), step.requests.front()) == streams.end();
      for (const RequestId stream : streams) {
        if (chunk) ++chunks_since[stream];
      }
      if (chunk) return;
      for (const RequestId stream : step.requests) {
        worst = std::max(worst, std::exchange(chunks_since[stream], 0U));
      }
    };
    driver.run_until([&] { return driver.answers.at(streams[0]).tokens.size() > 200; });
    EXPECT_LE(worst, stages);
    EXPECT_GE(worst, 1U) << "documents are read meanwhile";
  }
}

TEST(Scheduler, a_prompt_that_nobody_waits_for_is_read_no_further_and_no_part_of_it_twice) {
  Driver driver({.stage_count = 3, .rows_max = 8, .in_flight_max = 7, .chunk_rows = 8});
  const RequestId gone = driver.submit(tokens_from(0, 800), 1);
  driver.send_all();
  driver.receive_one();
  driver.scheduler.finish(gone);
  EXPECT_FALSE(driver.scheduler.next().has_value());
  const std::size_t read = driver.pipeline.rows_seen();
  EXPECT_EQ(read, 7U * 8);
  const RequestId again = driver.submit(tokens_from(0, 800), 1);
  driver.send_all();
  EXPECT_EQ(driver.scheduler.reused_count(again), read);
  driver.run();
  EXPECT_EQ(driver.pipeline.rows_seen(), 800U);
  EXPECT_EQ(driver.answers.at(again).tokens, answer_alone(tokens_from(0, 800), 1));
}

TEST(Scheduler, a_long_document_is_passed_over_so_often_and_no_more) {
  Driver driver(
      {.stage_count = 1, .sequence_count = 2, .rows_max = 8, .in_flight_max = 1, .chunk_rows = 8});
  const RequestId document = driver.submit(tokens_from(0, 80), 1);
  TokenId next = 5000;
  int turns = 0;
  // Somebody always has a short question.
  while (driver.answers.at(document).tokens.empty() && turns < 1000) {
    if (driver.scheduler.live_count() < 2) driver.submit(tokens_from(next += 100, 8), 1);
    driver.send_all();
    driver.receive_one();
    ++turns;
  }
  EXPECT_LE(turns, 10 * static_cast<int>(kPassedMax + 1));
  EXPECT_GT(turns, 70) << "questions went first";
}

TEST(Scheduler, the_higher_priority_is_read_and_admitted_first) {
  Driver driver(
      {.stage_count = 1, .sequence_count = 1, .rows_max = 8, .in_flight_max = 1, .chunk_rows = 8});
  driver.submit(tokens_from(0, 8), 1);
  driver.send_all();
  driver.submit(tokens_from(100, 8), 1);
  const RequestId urgent = driver.submit(tokens_from(200, 8), 1, 5);
  driver.receive_one();
  const auto step = driver.scheduler.next();
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->requests.front(), urgent);
}

TEST(Scheduler, the_lowest_priority_gets_a_sequence_in_the_end) {
  Driver driver({.stage_count = 1, .sequence_count = 1, .rows_max = 8, .in_flight_max = 1});
  driver.submit(tokens_from(0, 8), 1);
  driver.send_all();
  const RequestId patient = driver.submit(tokens_from(100, 8), 1, -1);
  TokenId next = 1000;
  int turns = 0;
  while (driver.answers.at(patient).tokens.empty() && turns < 1000) {
    driver.submit(tokens_from(next += 100, 8), 1);
    driver.receive_one();
    driver.send_all();
    ++turns;
  }
  EXPECT_LE(turns, static_cast<int>(kPassedMax) + 3);
}

TEST(Scheduler, a_later_turn_of_a_conversation_computes_only_what_is_new) {
  Driver driver({.stage_count = 2, .rows_max = 32});
  const RequestId first = driver.submit(tokens_from(0, 200), 10);
  driver.run();
  std::vector<TokenId> conversation = tokens_from(0, 200);
  const auto& answer = driver.answers.at(first).tokens;
  conversation.insert(conversation.end(), answer.begin(), answer.end());
  conversation.push_back(77);
  const std::size_t before = driver.pipeline.rows_seen();
  driver.submit(conversation, 1);
  driver.run();
  EXPECT_LE(driver.pipeline.rows_seen() - before, 2U);  // the answer's last token and the new one
  expect_as_alone(driver);
}

TEST(Scheduler, recurrent_models_reuse_a_prefix_only_if_nothing_must_be_cut_back) {
  Driver driver({.stage_count = 1, .can_trim = false});
  driver.submit(tokens_from(0, 50), 1);
  driver.run();
  driver.submit(tokens_from(0, 60), 1);  // continues exactly: reused
  driver.run();
  EXPECT_EQ(driver.pipeline.rows_seen(), 60U);
  driver.submit(tokens_from(0, 55), 1);  // shorter: read again
  driver.run();
  EXPECT_EQ(driver.pipeline.rows_seen(), 115U);
  expect_as_alone(driver);
}

TEST(Scheduler, refuses_what_cannot_work_and_says_both_numbers) {
  Scheduler scheduler({.context_per_sequence = 10});
  EXPECT_FALSE(scheduler.submit({RequestId{1}, {}}).has_value());
  const auto too_long = scheduler.submit({RequestId{1}, tokens_from(0, 11)});
  ASSERT_FALSE(too_long.has_value());
  EXPECT_NE(too_long.error().message().find("11"), std::string::npos);
  EXPECT_NE(too_long.error().message().find("10"), std::string::npos);
  EXPECT_TRUE(scheduler.submit({RequestId{1}, tokens_from(0, 10)}).has_value());
  EXPECT_FALSE(scheduler.submit({RequestId{1}, tokens_from(0, 3)}).has_value());
}

TEST(Scheduler, a_result_out_of_order_is_an_error) {
  Scheduler scheduler({.in_flight_max = 4, .chunk_rows = 4});
  ASSERT_TRUE(scheduler.submit({RequestId{1}, tokens_from(0, 10)}).has_value());
  ASSERT_TRUE(scheduler.next().has_value());
  EXPECT_FALSE(scheduler.on_result(StepId{99}).has_value());
}

TEST(Scheduler, evaluation_asks_for_every_row_of_the_prompt) {
  Scheduler scheduler({.rows_max = 64, .logit_rows_max = 7, .in_flight_max = 9});
  ASSERT_TRUE(scheduler.submit({RequestId{1}, tokens_from(0, 20), true}).has_value());
  std::size_t wanted = 0;
  while (auto step = scheduler.next()) {
    EXPECT_LE(step->tokens.size(), 7U);
    for (const auto wants : step->wants_logits) wanted += wants;
  }
  EXPECT_EQ(wanted, 20U);
}

// Everything at once, by seed: submissions that share prefixes, cancels, replays, any interleaving.
TEST(Scheduler, who_waits_for_a_sequence_stands_in_line_by_priority_then_age) {
  Scheduler scheduler({.sequence_count = 1, .in_flight_max = 1});
  const auto submit = [&](std::uint64_t id, std::int32_t priority) {
    ASSERT_TRUE(scheduler.submit({RequestId{id}, tokens_from(0, 4), false, priority}).has_value());
  };
  submit(1, 0);
  EXPECT_TRUE(scheduler.line().empty()) << "a sequence is idle";
  EXPECT_FALSE(scheduler.has_sequence(RequestId{1}));
  const auto step = scheduler.next();
  ASSERT_TRUE(step);
  EXPECT_TRUE(scheduler.has_sequence(RequestId{1}));
  const std::uint64_t version = scheduler.line_version();
  submit(2, 0);
  submit(3, 5);
  submit(4, 0);
  EXPECT_NE(scheduler.line_version(), version);
  EXPECT_EQ(scheduler.line(), (std::vector<RequestId>{{3}, {2}, {4}}));
  // The sequence is free, but nobody has got it yet: the first one doesn't wait for anybody.
  scheduler.finish(RequestId{1});
  EXPECT_EQ(scheduler.line(), (std::vector<RequestId>{{2}, {4}}));
  ASSERT_TRUE(scheduler.on_result(step->step).has_value());
  ASSERT_TRUE(scheduler.next());
  EXPECT_TRUE(scheduler.has_sequence(RequestId{3})) << "as the line said";
  EXPECT_EQ(scheduler.line(), (std::vector<RequestId>{{2}, {4}}));
}

TEST(Scheduler, sequences_tell_what_they_hold_and_for_whom) {
  Driver driver({.stage_count = 1, .sequence_count = 2, .rows_max = 16, .chunk_rows = 4});
  const RequestId first = driver.submit(tokens_from(0, 10), 3);
  driver.send_all();
  const auto busy = driver.scheduler.sequences();
  ASSERT_EQ(busy.size(), 2U);
  EXPECT_EQ(busy[0].request, first);
  EXPECT_EQ(busy[0].prompt_tokens, 10U);
  EXPECT_EQ(busy[0].read_tokens, busy[0].tokens);
  EXPECT_EQ(busy[0].answer_tokens, 0U);
  EXPECT_FALSE(busy[1].request);
  driver.run();
  const auto idle = driver.scheduler.sequences();
  EXPECT_FALSE(idle[0].request);
  EXPECT_EQ(idle[0].tokens, 12U) << "the prompt and the answer but its last token";
  driver.submit(tokens_from(0, 10), 3);
  driver.run();
  EXPECT_EQ(driver.scheduler.sequences()[0].reused_tokens, 0U) << "idle again";
}

TEST(Scheduler, random_histories_change_no_answer) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto up_to = [&](std::uint32_t bound) {
      return static_cast<std::uint32_t>(random() % bound);
    };
    const std::uint32_t stages = 1 + up_to(5);
    Driver driver({.stage_count = stages,
                   .sequence_count = 1 + up_to(6),
                   .context_per_sequence = 90,
                   .rows_max = 1 + up_to(20),
                   .logit_rows_max = 1 + up_to(8),
                   .in_flight_max = stages + up_to(4),
                   .can_trim = up_to(2) == 0});
    for (int event = 0; event < 120; ++event) {
      const std::uint32_t kind = up_to(12);
      if (kind < 3)
        driver.submit(tokens_from(static_cast<TokenId>(up_to(2)), 1 + up_to(80)), 1 + up_to(15));
      if (kind == 3) driver.scheduler.finish(RequestId{1 + up_to(20)});
      if (kind == 4) driver.scheduler.replay();
      if (kind >= 5 && kind < 9) driver.send_all();
      if (kind >= 9 && !driver.pipeline.idle()) driver.receive_one();
    }
    driver.run();
    EXPECT_EQ(driver.scheduler.live_count(), 0U) << "seed " << seed;
    expect_as_alone(driver);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(Chunking, one_stage_takes_the_largest_chunk) {
  EXPECT_EQ(choose_chunk_rows(512, 1, 128), 128U);
}

TEST(Chunking, more_stages_take_smaller_chunks) {
  EXPECT_GT(choose_chunk_rows(512, 2, 128), choose_chunk_rows(512, 8, 128));
  EXPECT_EQ(choose_chunk_rows(512, 2, 128) % kChunkRowsStep, 0U);
}

TEST(Chunking, never_exceeds_the_limit_or_the_prompt) {
  for (std::uint32_t tokens = 1; tokens < 300; tokens += 7) {
    for (std::uint32_t stages = 1; stages < 9; ++stages) {
      EXPECT_LE(choose_chunk_rows(tokens, stages, 7), 7U);
      EXPECT_LE(choose_chunk_rows(tokens, stages, 512), tokens);
    }
  }
}

}  // namespace
}  // namespace salvage::pipeline
