// Goal: `salvage run` on a cluster is a request like those of the API: followed from the line to
// its last token, ended by whoever may, recorded with how it ended. Method: fake stages that the
// test can hold; the command's side is a thread.

#include "gateway/command_answers.h"

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/fake_serving.h"

namespace salvage::gateway {
namespace {

using metrics::RequestRecord;
using testing::HasSubstr;
using testing::StartsWith;

constexpr auto kCommandWait = std::chrono::seconds(20);

class Commands : public testing::Test {
 protected:
  Commands()
      : serving_({.stage_count = 2, .sequence_count = 1, .context = 200, .script = "hello"}),
        answers_({.ready = [this](const std::string& model) { return ready(model); },
                  .wall_ms = [] { return std::int64_t{1'767'225'600'123}; }},
                 ledger_, clock_) {}

  Result<coordinator::ReadyPipeline> ready(const std::string& model) {
    if (model != "tiny") return fail(ErrorCode::kNotFound, "no such model");
    coordinator::ReadyPipeline ready;
    ready.pipeline = serving_.ready("")->pipeline;
    ready.deployment.model_name = "tiny-model";
    for (const char* name : {"attic", "cellar"}) {
      coordinator::StageInfo stage;
      stage.status.placed.name = name;
      ready.deployment.stages.push_back(std::move(stage));
    }
    return ready;
  }

  static coordinator::RunWish wish(std::string prompt = "why") {
    coordinator::RunWish wish;
    wish.model = "tiny";
    wish.prompt = std::move(prompt);
    return wish;
  }
  Result<coordinator::RunOutcome> run(const coordinator::RunWish& wish) {
    return answers_.answer(wish, [](std::string_view) { return true; }, {});
  }
  std::vector<RequestRecord> records() const { return ledger_.records(clock_.now()); }
  // Waits until a request is as `fits` says.
  template <typename Fits>
  bool wait_for(Fits fits) const {
    const TimePoint until = deadline_after(clock_.now(), kCommandWait);
    while (clock_.now() < until) {
      for (const RequestRecord& record : records()) {
        if (fits(record)) return true;
      }
      std::this_thread::yield();
    }
    return false;
  }
  bool wait_for_state(cluster::RequestState state) const {
    return wait_for([state](const RequestRecord& record) { return record.state == state; });
  }

  // A command on a thread of its own.
  class Command {
   public:
    Command(const Commands& test, coordinator::RunWish wish)
        : thread_([this, &test, wish = std::move(wish)] {
            outcome_ = test.answers_.answer(
                wish, [](std::string_view) { return true; }, stop_.get_token());
          }) {}
    ~Command() {
      stop_.request_stop();
      if (thread_.joinable()) thread_.join();
    }
    void interrupt() { stop_.request_stop(); }
    const Result<coordinator::RunOutcome>& outcome() {
      if (thread_.joinable()) thread_.join();
      return *outcome_;
    }

   private:
    StopSource stop_;
    std::optional<Result<coordinator::RunOutcome>> outcome_;
    std::thread thread_;
  };

  const SteadyClock clock_;
  sim::FakeServing serving_;
  metrics::RequestLedger ledger_;
  const CommandAnswers answers_;
};

TEST_F(Commands, an_answer_is_recorded_with_all_its_figures) {
  const auto outcome = run(wish());
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(outcome->generation.text, "hello");
  EXPECT_EQ(outcome->deployment.model_name, "tiny-model");
  ASSERT_EQ(records().size(), 1U);
  const RequestRecord record = records().front();
  EXPECT_THAT(record.facts.id, StartsWith("run_"));
  EXPECT_EQ(record.facts.asked(), "salvage run");
  EXPECT_EQ(record.facts.model, "tiny-model");
  EXPECT_EQ(record.facts.machines, (std::vector<std::string>{"attic", "cellar"}));
  EXPECT_EQ(record.facts.begun_unix_ms, 1'767'225'600'123);
  EXPECT_EQ(record.state, cluster::RequestState::kDone);
  EXPECT_EQ(record.finish, "stop");
  EXPECT_EQ(record.facts.prompt_tokens, 3U);
  EXPECT_EQ(record.read_tokens, 3U);
  EXPECT_EQ(record.cached_tokens, 0U);
  EXPECT_EQ(record.answer_tokens, 6U) << "hello, and the token that ended it";
  EXPECT_GT(record.prefill_ms, 0);
  EXPECT_GT(record.decode_ms, 0);
  EXPECT_EQ(ledger_.totals(clock_.now()).requests_done, 1U);
  EXPECT_EQ(ledger_.totals(clock_.now()).ttft.count(), 1U);
}

TEST_F(Commands, what_was_cached_and_why_it_ended_are_told) {
  ASSERT_TRUE(run(wish()));
  coordinator::RunWish shorter = wish();
  shorter.tokens_max = 3;
  ASSERT_TRUE(run(shorter));
  EXPECT_EQ(records().front().cached_tokens, 2U) << "all but the prompt's last token";
  EXPECT_EQ(records().front().finish, "length");
  EXPECT_EQ(records().front().answer_tokens, 3U);
}

TEST_F(Commands, what_cannot_be_answered_is_recorded_with_its_code) {
  coordinator::RunWish other = wish();
  other.model = "other";
  const auto unknown = run(other);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(records().front().error, "model_not_found");
  EXPECT_EQ(records().front().facts.model, "other");
  EXPECT_EQ(records().front().state, cluster::RequestState::kFailed);
  const auto too_long = run(wish(std::string(300, 'a')));
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(too_long.error().message(), HasSubstr("300"));
  EXPECT_EQ(records().front().error, "context_length_exceeded");
  EXPECT_EQ(ledger_.totals(clock_.now()).requests_failed, 2U);
}

TEST_F(Commands, who_waits_has_a_place_and_who_interrupts_is_recorded_as_gone) {
  serving_.gate().hold();
  Command first(*this, wish());
  ASSERT_TRUE(wait_for_state(cluster::RequestState::kPrefill));
  Command second(*this, wish("how"));
  ASSERT_TRUE(wait_for([](const RequestRecord& record) { return record.queue_place == 1; }));
  first.interrupt();
  ASSERT_FALSE(first.outcome());
  EXPECT_EQ(first.outcome().error().code(), ErrorCode::kCancelled);
  EXPECT_TRUE(wait_for([](const RequestRecord& record) {
    return record.state == cluster::RequestState::kCancelled && record.error == "client_closed";
  }));
  serving_.gate().open();
  ASSERT_TRUE(second.outcome()) << "it got the sequence";
  EXPECT_EQ(second.outcome()->generation.text, "hello");
}

TEST_F(Commands, the_owner_ends_one_and_who_asked_is_told) {
  serving_.gate().hold();
  Command command(*this, wish());
  ASSERT_TRUE(wait_for_state(cluster::RequestState::kPrefill));
  const auto id = ledger_.find_live("run_");
  ASSERT_TRUE(id) << id.error().message();
  EXPECT_EQ(ledger_.cancel(*id), 1U);
  ASSERT_FALSE(command.outcome());
  EXPECT_EQ(command.outcome().error().code(), ErrorCode::kCancelled);
  EXPECT_THAT(command.outcome().error().message(), HasSubstr("who runs the cluster has ended"));
  EXPECT_EQ(records().front().state, cluster::RequestState::kCancelled);
  EXPECT_EQ(records().front().error, "request_cancelled");
}

TEST_F(Commands, a_pipeline_that_breaks_is_the_reason) {
  serving_.gate().hold();
  Command command(*this, wish());
  ASSERT_TRUE(wait_for_state(cluster::RequestState::kPrefill));
  serving_.ready("")->pipeline->fail_all(Error(ErrorCode::kUnavailable, "cellar is gone"));
  ASSERT_FALSE(command.outcome());
  EXPECT_THAT(command.outcome().error().message(), HasSubstr("cellar is gone"));
  EXPECT_EQ(records().front().state, cluster::RequestState::kFailed);
  EXPECT_FALSE(records().front().error.empty());
}

// The pipeline has done with the answer before its reader has seen a word of it.
TEST_F(Commands, who_stops_reading_at_the_last_moment_hears_the_end) {
  const auto stop_reading = [this](std::string_view) {
    const TimePoint until = deadline_after(clock_.now(), kCommandWait);
    while (serving_.asked() > 0 && clock_.now() < until) std::this_thread::yield();
    return false;
  };
  const auto outcome = answers_.answer(wish(), stop_reading, {});
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(serving_.running(), 0U);
}

TEST_F(Commands, who_stops_reading_in_the_middle_is_recorded_as_gone) {
  serving_.gate().hold();
  serving_.gate().let(1);  // the prompt, and no more: the answer can't end by itself
  const auto stop_reading = [](std::string_view) { return false; };
  const auto outcome = answers_.answer(wish(), stop_reading, {});
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(records().front().error, "client_closed");
  EXPECT_EQ(records().front().state, cluster::RequestState::kCancelled);
}

}  // namespace
}  // namespace salvage::gateway
