// Goal: whatever requests come, in whatever order they start, end, are cancelled or replayed, each
// one gets the tokens that it would have got alone, and the rules on order and size hold.
// Method: a fake pipeline keeps a KV cache of token ids per sequence and chooses the next token as
// a hash of everything before it, so a row computed on a wrong cache changes the answer.

#include "pipeline/scheduler.h"

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "pipeline/chunking.h"
#include "pipeline/scheduler_driver.h"
#include "pipeline/scheduler_limits.h"

namespace salvage::pipeline {
namespace {

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

// A conversation as a reasoning model's template writes it: the prompt ends with kOpening, the
// answer's thoughts are left out of the next prompt.
constexpr std::size_t kOpening = 5;
struct Conversation {
  std::vector<TokenId> prompt;
  std::uint32_t turn() const { return static_cast<std::uint32_t>(prompt.size() - kOpening); }
};
Conversation first_question(std::size_t tokens, TokenId topic) {
  return {tokens_from(topic, tokens)};
}
// The next prompt: what came before the answer's turn, the answer as the template writes it, a new
// question.
Conversation next_question(const Conversation& before, std::size_t tokens, TokenId topic) {
  Conversation next = before;
  next.prompt.resize(before.turn());
  const auto more = tokens_from(topic, tokens);
  next.prompt.insert(next.prompt.end(), more.begin(), more.end());
  return next;
}

SchedulerLimits recurrent_limits(std::uint32_t lanes, std::uint32_t checkpoints) {
  return {.stage_count = 2,
          .sequence_count = lanes,
          .rows_max = 64,
          .can_trim = false,
          .checkpoint_count = checkpoints};
}

TEST(Checkpoints, a_long_conversation_s_next_turn_computes_what_is_new) {
  Driver driver(recurrent_limits(1, 4));
  const Conversation first = first_question(2000, 0);
  driver.submit(Submission{.request = {}, .prompt = first.prompt, .turn = first.turn()}, 50);
  driver.run();
  const Conversation second = next_question(first, 40, 9000);
  EXPECT_EQ(driver.rows_for(second.prompt, second.turn()), 40U);
  // And so on, however many turns.
  Conversation last = second;
  for (TokenId turn = 0; turn < 20; ++turn) {
    last = next_question(last, 40, 10000 + 100 * turn);
    EXPECT_EQ(driver.rows_for(last.prompt, last.turn()), 40U) << turn;
  }
  expect_as_alone(driver);
}

TEST(Checkpoints, without_them_every_turn_computes_all) {
  Driver driver(recurrent_limits(1, 0));
  const Conversation first = first_question(2000, 0);
  EXPECT_EQ(driver.rows_for(first.prompt, first.turn()), 2000U);
  const Conversation second = next_question(first, 40, 9000);
  EXPECT_EQ(driver.rows_for(second.prompt, second.turn()), second.prompt.size());
  expect_as_alone(driver);
}

TEST(Checkpoints, an_answer_that_is_taken_over_as_it_was_costs_nothing) {
  Driver driver(recurrent_limits(1, 4));
  const Conversation first = first_question(500, 0);
  const RequestId id =
      driver.submit(Submission{.request = {}, .prompt = first.prompt, .turn = first.turn()}, 50);
  driver.run();
  std::vector<TokenId> prompt = first.prompt;
  const auto& answer = driver.answers.at(id).tokens;
  prompt.insert(prompt.end(), answer.begin(), answer.end());
  const auto more = tokens_from(9000, 30);
  prompt.insert(prompt.end(), more.begin(), more.end());
  EXPECT_EQ(driver.rows_for(prompt, 570), 31U);  // the answer's last token was never computed
  expect_as_alone(driver);
}

TEST(Checkpoints, another_answer_to_the_same_prompt_reads_its_opening_only) {
  Driver driver(recurrent_limits(1, 2));
  const Conversation first = first_question(1000, 0);
  driver.submit(Submission{.request = {}, .prompt = first.prompt, .turn = first.turn()}, 300);
  driver.run();
  EXPECT_EQ(driver.rows_for(first.prompt, first.turn()), kOpening);
  // Of a prompt that no template wrote nobody knows the form: its last tokens are read again.
  EXPECT_EQ(driver.rows_for(tokens_from(7000, 400)), 400U);
  EXPECT_LE(driver.rows_for(tokens_from(7000, 400)), 4U);
  expect_as_alone(driver);
}

TEST(Checkpoints, where_prompts_were_seen_to_part_the_next_one_starts) {
  Driver driver(recurrent_limits(1, 4));
  // Two conversations with the same instructions of 700 tokens take turns on one lane.
  const auto talk = [](TokenId topic) {
    std::vector<TokenId> prompt = tokens_from(0, 700);
    const auto question = tokens_from(topic, 60);
    prompt.insert(prompt.end(), question.begin(), question.end());
    return prompt;
  };
  EXPECT_EQ(driver.rows_for(talk(5000)), 760U);
  EXPECT_LE(driver.rows_for(talk(6000)), 760U);  // parts at 700, where nothing was saved
  EXPECT_EQ(driver.rows_for(talk(5000)), 60U);
  EXPECT_EQ(driver.rows_for(talk(6000)), 60U);
  EXPECT_EQ(driver.rows_for(talk(7000)), 60U);
  expect_as_alone(driver);
}

TEST(Checkpoints, short_questions_about_one_document_do_not_read_it_again) {
  Driver driver(recurrent_limits(1, 2));
  const auto ask = [](TokenId question) {
    std::vector<TokenId> prompt = tokens_from(0, 1000);
    for (TokenId i = 0; i < 6; ++i) prompt.push_back(5000 + 10 * question + i);
    for (std::size_t i = 0; i < kOpening; ++i) prompt.push_back(77);
    return prompt;
  };
  const auto rows = [&](TokenId question) { return driver.rows_for(ask(question), 1006); };
  EXPECT_EQ(rows(1), 1011U);
  rows(2);  // parts where nobody could know
  for (TokenId question = 3; question < 8; ++question) EXPECT_EQ(rows(question), 11U);
  expect_as_alone(driver);
}

TEST(SchedulerLimits, a_checkpoint_is_one_on_every_stage_or_none) {
  const PipelineShape shape{.stage_count = 3, .sequence_count = 1};
  const StageAbility many{.can_trim = false, .checkpoint_count = 8};
  const StageAbility few{.can_trim = false, .checkpoint_count = 5};
  const StageAbility older{.can_trim = false};  // says nothing about them
  EXPECT_EQ(scheduler_limits(shape, std::array{many, few, many}).checkpoint_count, 5U);
  EXPECT_EQ(scheduler_limits(shape, std::array{many, older, many}).checkpoint_count, 0U);
  EXPECT_FALSE(scheduler_limits(shape, std::array{many, few, many}).can_trim);
}

TEST(Checkpoints, an_edit_in_the_middle_computes_from_the_one_before_it) {
  Driver driver(recurrent_limits(1, 8));
  driver.rows_for(tokens_from(0, 4000));
  std::vector<TokenId> edited = tokens_from(0, 4000);
  edited[3000] = 77;
  const std::size_t rows = driver.rows_for(edited);
  EXPECT_GE(rows, 1000U);
  EXPECT_LE(rows, 1000U + 4096 / 8 + 64) << "the distance between two checkpoints, and a chunk";
  expect_as_alone(driver);
}

TEST(Checkpoints, a_long_answer_has_some_too) {
  Driver driver(recurrent_limits(1, 8));
  const RequestId id =
      driver.submit(Submission{.request = {}, .prompt = tokens_from(0, 100), .turn = 95}, 2000);
  driver.run();
  // A stop string: the client takes over all but the last words.
  std::vector<TokenId> prompt = tokens_from(0, 100);
  const auto& answer = driver.answers.at(id).tokens;
  prompt.insert(prompt.end(), answer.begin(), answer.end() - 10);
  prompt.push_back(77);
  EXPECT_LE(driver.rows_for(prompt), 4096U / 8 + 1);
  expect_as_alone(driver);
}

TEST(Checkpoints, a_cancelled_prompt_s_are_as_good_as_any) {
  Driver driver(recurrent_limits(1, 4));
  const Conversation first = first_question(1500, 0);
  const RequestId id =
      driver.submit(Submission{.request = {}, .prompt = first.prompt, .turn = first.turn()}, 5);
  driver.send_all();
  driver.receive_one();
  driver.scheduler.finish(id);  // with chunks under way, others unsent
  const std::size_t sent = driver.pipeline.rows_seen();
  EXPECT_LT(sent, 1500U);
  EXPECT_EQ(driver.rows_for(first.prompt, first.turn()), 1500U - sent);
  expect_as_alone(driver);
}

TEST(Checkpoints, a_request_that_ends_before_its_first_row_leaves_the_caches_as_the_stages_know) {
  Driver driver(recurrent_limits(2, 4));
  const Conversation first = first_question(800, 0);
  driver.rows_for(first.prompt, first.turn());
  const Conversation second = next_question(first, 40, 9000);
  // It gets its lane while a more urgent prompt has all steps, and is cancelled before its rows go.
  driver.submit(tokens_from(5000, 600), 1, 5);
  driver.send_all();
  const RequestId gone =
      driver.submit(Submission{.request = {}, .prompt = second.prompt, .turn = second.turn()}, 1);
  driver.receive_one();
  driver.send_all();
  driver.scheduler.finish(gone);
  driver.run();
  EXPECT_EQ(driver.rows_for(second.prompt, second.turn()), 40U);
  expect_as_alone(driver);
}

TEST(Checkpoints, a_replay_forgets_them) {
  Driver driver(recurrent_limits(1, 4));
  const Conversation first = first_question(1000, 0);
  driver.rows_for(first.prompt, first.turn());
  driver.scheduler.replay();
  EXPECT_EQ(driver.rows_for(first.prompt, first.turn()), 1000U);
  EXPECT_EQ(driver.rows_for(first.prompt, first.turn()), kOpening);
  expect_as_alone(driver);
}

TEST(Checkpoints, short_prompts_are_read_in_one_step) {
  Driver driver(recurrent_limits(1, 4));
  driver.submit(Submission{.request = {}, .prompt = tokens_from(0, 12), .turn = 8}, 1);
  driver.send_all();
  EXPECT_EQ(driver.scheduler.in_flight(), 1U);
  EXPECT_EQ(driver.pipeline.rows_seen(), 12U);
  driver.run();
  EXPECT_EQ(driver.pipeline.saves(), 0U);
}

TEST(Scheduler, a_client_that_wants_nothing_reused_gets_nothing_reused) {
  for (const bool can_trim : {true, false}) {
    Driver driver({.stage_count = 1, .can_trim = can_trim, .checkpoint_count = 4});
    driver.rows_for(tokens_from(0, 300));
    const std::size_t before = driver.pipeline.rows_seen();
    driver.submit(Submission{.request = {}, .prompt = tokens_from(0, 300), .reuse_prefix = false},
                  1);
    driver.run();
    EXPECT_EQ(driver.pipeline.rows_seen() - before, 300U);
    EXPECT_LE(driver.rows_for(tokens_from(0, 300)), 4U) << "others may reuse what it computed";
    expect_as_alone(driver);
  }
}

TEST(Scheduler, instructions_that_somebody_is_reading_with_are_copied_not_computed) {
  for (const bool can_trim : {true, false}) {
    SchedulerLimits limits = recurrent_limits(3, 12);
    limits.can_trim = can_trim;
    Driver driver(limits);
    std::vector<TokenId> prompt = tokens_from(0, 800);
    driver.submit(Submission{.request = {}, .prompt = prompt, .turn = 795}, 300);
    while (driver.answers.begin()->second.tokens.size() < 20) {
      driver.send_all();
      driver.receive_one();
    }
    prompt.resize(796);  // the same instructions, another end
    prompt.push_back(7777);
    const std::size_t before = driver.pipeline.rows_seen();
    const RequestId id = driver.submit(prompt, 1);
    while (driver.answers.at(id).tokens.empty()) {
      driver.send_all();
      driver.receive_one();
    }
    EXPECT_EQ(driver.pipeline.copies(), 1U);
    EXPECT_LT(driver.pipeline.rows_seen() - before, 40U);
    driver.run();
    expect_as_alone(driver);
  }
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
  std::size_t skips = 0;
  std::size_t trims = 0;
  std::size_t restores = 0;
  std::size_t copies = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const auto up_to = [&](std::uint32_t bound) {
      return static_cast<std::uint32_t>(random() % bound);
    };
    const std::uint32_t stages = 1 + up_to(5);
    Driver driver({.stage_count = stages,
                   .sequence_count = 1 + up_to(6),
                   .context_per_sequence = 400,
                   .rows_max = 1 + up_to(20),
                   .logit_rows_max = 1 + up_to(8),
                   .in_flight_max = stages + up_to(4),
                   .can_trim = up_to(3) == 0,
                   .checkpoint_count = up_to(6),
                   .can_skip = up_to(4) != 0});
    driver.skips_from = [&] { return static_cast<std::size_t>(up_to(stages + 1)); };
    for (int event = 0; event < 120; ++event) {
      const std::uint32_t kind = up_to(12);
      if (kind < 3) {
        // Prompts share beginnings of several lengths.
        auto prompt = tokens_from(static_cast<TokenId>(up_to(2)), 1 + up_to(380));
        const std::size_t from = up_to(300);
        for (std::size_t i = from; i < prompt.size() && up_to(2) == 0; ++i) prompt[i] += 1000;
        driver.submit(Submission{.request = {},
                                 .prompt = std::move(prompt),
                                 .turn = up_to(390),
                                 .reuse_prefix = up_to(8) != 0},
                      1 + up_to(15));
      }
      if (kind == 3 || kind == 5) {
        // Whoever has some sequence, if anybody.
        const auto uses = driver.scheduler.sequences();
        const SequenceUse& use = uses[up_to(static_cast<std::uint32_t>(uses.size()))];
        if (use.request) driver.finish(*use.request);
      }
      if (kind == 4 && up_to(6) == 0) driver.scheduler.replay();
      if (kind >= 5 && kind < 9) driver.send_all();
      if (kind >= 9 && !driver.pipeline.idle()) driver.receive_one();
    }
    driver.run();
    EXPECT_EQ(driver.scheduler.live_count(), 0U) << "seed " << seed;
    expect_as_alone(driver);
    if (HasFailure()) FAIL() << "seed " << seed;
    skips += driver.pipeline.skips();
    trims += driver.pipeline.trims();
    restores += driver.pipeline.restores();
    copies += driver.pipeline.copies();
  }
  // The histories held what can go wrong, many times.
  EXPECT_GT(skips, 1000U);
  EXPECT_GT(trims, 100U);
  EXPECT_GT(restores, 100U);
  EXPECT_GT(copies, 100U);
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
