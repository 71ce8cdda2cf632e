// Goal: the ledger's figures are those of the events it was told, its sums never fall, and nothing
// in it grows without bound. Method: events and times by hand.

#include "metrics/request_ledger.h"

#include <chrono>

#include <gtest/gtest.h>

namespace salvage::metrics {
namespace {

using api::AnswerDelta;
using api::Finished;
using api::PromptProgress;
using api::Queued;
using cluster::RequestState;

TimePoint at(int ms) {
  return TimePoint{} + std::chrono::milliseconds(1000 + ms);
}

RequestFacts facts_of(const std::string& id, std::uint32_t prompt_tokens,
                      std::uint32_t answers = 1) {
  RequestFacts facts;
  facts.id = id;
  facts.endpoint = api::Route::kChatCompletions;
  facts.prompt_tokens = prompt_tokens;
  facts.answers = answers;
  return facts;
}

PromptProgress read_to(std::uint32_t done, std::uint32_t total, std::uint32_t cached,
                       std::uint32_t choice = 0) {
  return {.choice = choice, .total_tokens = total, .cached_tokens = cached, .done_tokens = done};
}

Finished finished(std::uint32_t choice = 0) {
  Finished end{.choice = choice, .reason = api::StopReason::kTokenLimit};
  end.timings = {.queue_ms = 100, .prompt_ms = 400, .answer_ms = 900};
  return end;
}

AnswerDelta token() {
  return {.tokens = {1}};
}

TEST(RequestLedger, follows_a_request_from_the_queue_to_its_last_token) {
  RequestLedger ledger;
  const auto live = ledger.begin(facts_of("a", 200), at(0));
  const auto now = [&](int ms) { return ledger.records(at(ms)).at(0); };

  live->take(Queued{.place = 2}, at(10));
  EXPECT_EQ(now(20).state, RequestState::kQueued);
  EXPECT_EQ(now(20).queue_place, 2);
  EXPECT_DOUBLE_EQ(now(20).queue_ms, 20);

  live->take(read_to(50, 200, 50), at(100));
  live->take(read_to(150, 200, 50), at(300));
  const RequestRecord reading = now(350);
  EXPECT_EQ(reading.state, RequestState::kPrefill);
  EXPECT_EQ(reading.queue_place, 0);
  EXPECT_EQ(reading.read_tokens, 150);
  EXPECT_EQ(reading.cached_tokens, 50);
  EXPECT_DOUBLE_EQ(reading.queue_ms, 100);
  EXPECT_DOUBLE_EQ(reading.prefill_ms, 250);
  EXPECT_DOUBLE_EQ(reading.prefill_rate(), 400) << "what was in the cache was not read";

  live->take(read_to(200, 200, 50), at(400));
  live->take(token(), at(500));
  EXPECT_DOUBLE_EQ(now(600).decode_rate(), 0) << "one token is no speed";
  live->take(token(), at(700));
  live->take(token(), at(900));
  const RequestRecord answering = now(2000);
  EXPECT_EQ(answering.state, RequestState::kDecode);
  EXPECT_EQ(answering.answer_tokens, 3);
  EXPECT_DOUBLE_EQ(answering.decode_ms, 400);
  EXPECT_DOUBLE_EQ(answering.decode_rate(), 5);

  live->take(finished(), at(2000));
  const RequestRecord end = ledger.end(live, "", at(2000));
  EXPECT_EQ(end.state, RequestState::kDone);
  EXPECT_EQ(end.finish, "length");
  EXPECT_DOUBLE_EQ(end.queue_ms, 100);
  EXPECT_DOUBLE_EQ(end.prefill_ms, 400) << "as the pipeline measured it";
  EXPECT_DOUBLE_EQ(end.total_ms, 2000);
}

TEST(RequestLedger, choices_of_one_request_add_up) {
  RequestLedger ledger;
  const auto live = ledger.begin(facts_of("a", 40, 2), at(0));
  live->take(read_to(5, 20, 5, 0), at(1));
  live->take(read_to(20, 20, 5, 0), at(2));
  live->take(read_to(20, 20, 19, 1), at(3));
  live->take(read_to(20, 20, 19, 7), at(3));  // of no choice
  EXPECT_EQ(ledger.records(at(4)).at(0).read_tokens, 40);
  EXPECT_EQ(ledger.records(at(4)).at(0).cached_tokens, 24);
  live->take(finished(0), at(5));
  EXPECT_DOUBLE_EQ(ledger.end(live, "", at(6)).queue_ms, 1)
      << "the other one has not told its figures";
}

TEST(RequestLedger, a_prompt_is_read_once_there_is_a_token) {
  RequestLedger ledger;
  const auto live = ledger.begin(facts_of("a", 11), at(0));
  live->take(read_to(10, 11, 10), at(1));  // the last one goes along with others' tokens
  live->take(token(), at(2));
  EXPECT_EQ(ledger.records(at(3)).at(0).read_tokens, 11);
  EXPECT_EQ(ledger.totals(at(3)).prompt_tokens, 1);
}

TEST(RequestLedger, an_end_says_whose_wish_it_was) {
  RequestLedger ledger;
  const auto end = [&](std::string_view error) {
    return ledger.end(ledger.begin(facts_of("a", 1), at(0)), error, at(1));
  };
  EXPECT_EQ(end("client_closed").state, RequestState::kCancelled);
  EXPECT_EQ(end("request_cancelled").state, RequestState::kCancelled);
  EXPECT_EQ(end("node_lost").state, RequestState::kFailed);
  EXPECT_EQ(end("node_lost").error, "node_lost");
  const RequestRecord refused = ledger.refuse(facts_of("b", 1), "queue_full", at(0), at(7));
  EXPECT_EQ(refused.state, RequestState::kFailed);
  EXPECT_DOUBLE_EQ(refused.total_ms, 7);
  const LedgerTotals totals = ledger.totals(at(8));
  EXPECT_EQ(totals.requests_cancelled, 2);
  EXPECT_EQ(totals.requests_failed, 3);
  EXPECT_EQ(totals.requests_done, 0);
}

TEST(RequestLedger, lists_live_ones_first_and_forgets_the_oldest_of_the_others) {
  RequestLedger ledger;
  for (std::size_t i = 0; i < kFinishedMax + 10; ++i) {
    (void)ledger.end(ledger.begin(facts_of(std::to_string(i), 1), at(0)), "", at(1));
  }
  const auto first = ledger.begin(facts_of("first", 1), at(2));
  const auto second = ledger.begin(facts_of("second", 1), at(3));
  const auto records = ledger.records(at(4));
  ASSERT_EQ(records.size(), kFinishedMax + 2);
  EXPECT_EQ(records[0].facts.id, "first");
  EXPECT_EQ(records[1].facts.id, "second");
  EXPECT_EQ(records[2].facts.id, std::to_string(kFinishedMax + 9));
  EXPECT_EQ(records.back().facts.id, "10");
}

TEST(RequestLedger, cancels_all_live_ones_of_an_id) {
  RequestLedger ledger;
  const auto one = ledger.begin(facts_of("a", 1), at(0));
  const auto other = ledger.begin(facts_of("b", 1), at(0));
  const auto twin = ledger.begin(facts_of("a", 1), at(0));
  EXPECT_EQ(ledger.cancel("c"), 0);
  EXPECT_EQ(ledger.cancel("a"), 2);
  EXPECT_TRUE(one->cancel_token().stop_requested());
  EXPECT_TRUE(twin->cancel_token().stop_requested());
  EXPECT_FALSE(other->cancel_token().stop_requested());
  (void)ledger.end(other, "", at(1));
  EXPECT_EQ(ledger.cancel("b"), 0) << "it is over";
}

TEST(RequestLedger, finds_a_live_request_by_how_its_id_begins) {
  RequestLedger ledger;
  const auto one = ledger.begin(facts_of("req_ab1", 1), at(0));
  const auto two = ledger.begin(facts_of("req_ab12", 1), at(0));
  const auto three = ledger.begin(facts_of("run_7", 1), at(0));
  EXPECT_EQ(ledger.find_live("run").value_or(""), "run_7");
  EXPECT_EQ(ledger.find_live("req_ab1").value_or(""), "req_ab1") << "a whole id goes before";
  const auto several = ledger.find_live("req");
  ASSERT_FALSE(several);
  EXPECT_EQ(several.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(several.error().message().find("2 requests"), std::string::npos);
  const auto unknown = ledger.find_live("req_b");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(unknown.error().message().find("salvage top"), std::string::npos);
  (void)ledger.end(three, "client_closed", at(1));
  const auto over = ledger.find_live("run");
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().message(), "the request run_7 has ended already (client_closed)");
}

TEST(RequestLedger, two_clients_may_use_one_id) {
  RequestLedger ledger;
  const auto one = ledger.begin(facts_of("twin", 1), at(0));
  const auto two = ledger.begin(facts_of("twin", 1), at(0));
  EXPECT_EQ(ledger.find_live("tw").value_or(""), "twin");
}

TEST(RequestLedger, sums_never_fall_when_a_request_ends) {
  RequestLedger ledger;
  const auto live = ledger.begin(facts_of("a", 30), at(0));
  live->take(read_to(30, 30, 10), at(10));
  for (int i = 0; i < 5; ++i) live->take(token(), at(20 + i));
  const LedgerTotals before = ledger.totals(at(50));
  EXPECT_EQ(before.prompt_tokens, 20);
  EXPECT_EQ(before.cached_tokens, 10);
  EXPECT_EQ(before.answer_tokens, 5);
  EXPECT_EQ(before.decoding, 1);
  EXPECT_EQ(before.ended_answer_tokens, 0);
  live->take(finished(), at(60));
  (void)ledger.end(live, "", at(60));
  const LedgerTotals after = ledger.totals(at(70));
  EXPECT_EQ(after.prompt_tokens, 20);
  EXPECT_EQ(after.cached_tokens, 10);
  EXPECT_EQ(after.answer_tokens, 5);
  EXPECT_EQ(after.decoding, 0);
  EXPECT_EQ(after.ended_prompt_tokens, 20);
  EXPECT_EQ(after.ended_answer_tokens, 4) << "the first is the prompt's";
  EXPECT_EQ(after.longest_tokens, 35);
}

TEST(RequestLedger, histograms_have_what_was_waited_for) {
  RequestLedger ledger;
  const auto live = ledger.begin(facts_of("a", 30), at(0));
  live->take(read_to(30, 30, 0), at(10));
  for (int i = 0; i < 4; ++i) live->take(token(), at(20 + i));
  live->take(finished(), at(60));
  (void)ledger.end(live, "", at(60));
  // One that was never read counts nowhere.
  (void)ledger.end(ledger.begin(facts_of("b", 30), at(0)), "client_closed", at(5000));
  const LedgerTotals totals = ledger.totals(at(70));
  EXPECT_EQ(totals.queue.count(), 1);
  EXPECT_DOUBLE_EQ(totals.queue.sum(), 0.1);
  EXPECT_EQ(totals.ttft.count(), 1);
  EXPECT_DOUBLE_EQ(totals.ttft.sum(), 0.5);
  EXPECT_EQ(totals.tpot.count(), 1);
  EXPECT_DOUBLE_EQ(totals.tpot.sum(), 0.3);
}

TEST(RequestLedger, replies_are_counted_in_a_table_of_fixed_size) {
  RequestLedger ledger;
  ledger.count_reply(api::Route::kSlots, 503);
  ledger.count_reply(api::Route::kSlots, 503);
  ledger.count_reply(api::Route::kCluster, 599);
  ledger.count_reply(std::nullopt, 404);
  const LedgerTotals totals = ledger.totals(at(0));
  std::uint64_t sum = 0;
  for (const auto& row : totals.replies) {
    for (const std::uint64_t count : row) sum += count;
  }
  EXPECT_EQ(sum, 4);
  EXPECT_EQ(totals.replies[static_cast<std::size_t>(api::Route::kCluster)].back(), 1);
  EXPECT_EQ(totals.replies.back()[4], 1);
}

TEST(Histogram, counts_values_up_to_their_bound) {
  Histogram histogram(kTokenBounds);
  histogram.add(0.005);
  histogram.add(0.0051);
  histogram.add(1000);
  EXPECT_EQ(histogram.at_most(0), 1);
  EXPECT_EQ(histogram.at_most(1), 2);
  EXPECT_EQ(histogram.at_most(kTokenBounds.size() - 1), 2);
  EXPECT_EQ(histogram.count(), 3);
}

}  // namespace
}  // namespace salvage::metrics
