#pragma once

// Test support: a scheduler over a fake pipeline. Every fake stage keeps token ids as its KV cache,
// and the next token is a hash of everything before it, so a row that any stage computes on a wrong
// cache fails or changes the answer. Steps are computed when their result is asked for; until then
// they can be left out, from any stage on.

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "pipeline/scheduler.h"

namespace salvage::pipeline {

inline TokenId hash_of(const std::vector<TokenId>& tokens) {
  std::uint32_t hash = 2166136261U;
  for (const TokenId token : tokens) hash = (hash ^ static_cast<std::uint32_t>(token)) * 16777619U;
  return static_cast<TokenId>(hash % 1000);
}

inline std::vector<TokenId> answer_alone(std::vector<TokenId> tokens, std::size_t count) {
  std::vector<TokenId> answer;
  for (std::size_t i = 0; i < count; ++i) {
    answer.push_back(hash_of(tokens));
    tokens.push_back(answer.back());
  }
  return answer;
}

// One stage's caches.
class FakeStageCache {
 public:
  explicit FakeStageCache(const SchedulerLimits& limits)
      : can_trim_(limits.can_trim),
        cache_(limits.sequence_count),
        checkpoints_(limits.checkpoint_count) {}

  void apply(const engine::SequenceOp& op) {
    auto& tokens = cache_.at(op.sequence.value);
    const auto position = static_cast<std::size_t>(op.position);
    switch (op.kind) {
      case engine::SequenceOpKind::kClear:
        return tokens.clear();
      case engine::SequenceOpKind::kTrim:
        ASSERT_TRUE(can_trim_);
        ASSERT_LE(position, tokens.size());
        return tokens.resize(position);
      case engine::SequenceOpKind::kCopy:
        tokens = cache_.at(op.source.value);
        return;
      case engine::SequenceOpKind::kSave:
        ASSERT_EQ(position, tokens.size());
        checkpoints_.at(op.checkpoint.value) = tokens;
        return;
      case engine::SequenceOpKind::kRestore:
        // What was saved is that very beginning of the sequence.
        ASSERT_EQ(checkpoints_.at(op.checkpoint.value).size(), position);
        ASSERT_LE(position, tokens.size());
        tokens.resize(position);
        ASSERT_EQ(checkpoints_.at(op.checkpoint.value), tokens);
        return;
    }
  }
  // Of the row's sequence, after it.
  const std::vector<TokenId>& add(const PlannedStep& step, std::size_t row) {
    auto& tokens = cache_.at(step.sequences[row].value);
    EXPECT_EQ(tokens.size(), static_cast<std::size_t>(step.positions[row]));
    tokens.push_back(step.tokens[row]);
    return tokens;
  }

 private:
  bool can_trim_;
  std::vector<std::vector<TokenId>> cache_;
  std::vector<std::vector<TokenId>> checkpoints_;
};

// Computes steps in the order in which they were planned, as every stage does.
class FakePipeline {
 public:
  explicit FakePipeline(const SchedulerLimits& limits)
      : stages_(limits.stage_count, FakeStageCache(limits)) {}

  void send(const PlannedStep& step) {
    for (const auto& op : step.ops) {
      copies_ += op.kind == engine::SequenceOpKind::kCopy ? 1U : 0U;
      saves_ += op.kind == engine::SequenceOpKind::kSave ? 1U : 0U;
      trims_ += op.kind == engine::SequenceOpKind::kTrim ? 1U : 0U;
      restores_ += op.kind == engine::SequenceOpKind::kRestore ? 1U : 0U;
    }
    rows_seen_ += step.tokens.size();
    under_way_.push_back({step, stages_.size()});
  }

  // The stages leave these steps out, each from the stage on that `first` says: what one stage
  // leaves out, none after it computes, nor what comes later in the list.
  void skip(const std::vector<StepId>& steps, const std::function<std::size_t()>& first) {
    std::size_t from = stages_.size();
    for (const StepId id : steps) {
      const auto found = std::find_if(under_way_.begin(), under_way_.end(),
                                      [id](const UnderWay& one) { return one.step.step == id; });
      ASSERT_NE(found, under_way_.end());
      from = std::min(from, first());
      found->skipped_from = from;
      if (from == 0) rows_seen_ -= found->step.tokens.size();
      ++skips_;
    }
  }

  struct Result {
    StepId step;
    bool skipped = false;
    std::vector<TokenId> tokens;
    std::vector<RequestId> requests;
  };
  Result receive() {
    const UnderWay one = std::move(under_way_.front());
    under_way_.pop_front();
    Result result{one.step.step, one.skipped_from < stages_.size(), {}, {}};
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const bool skips = stage >= one.skipped_from;
      for (const auto& op : one.step.ops) {
        if (!skips || op.kind != engine::SequenceOpKind::kSave) stages_[stage].apply(op);
      }
      if (!skips) compute(one.step, stage, result);
    }
    return result;
  }
  bool idle() const { return under_way_.empty(); }
  // Rows that at least the first stage computes.
  std::size_t rows_seen() const { return rows_seen_; }
  std::size_t saves() const { return saves_; }
  std::size_t copies() const { return copies_; }
  std::size_t trims() const { return trims_; }
  std::size_t restores() const { return restores_; }
  std::size_t skips() const { return skips_; }

 private:
  struct UnderWay {
    PlannedStep step;
    std::size_t skipped_from = 0;
  };

  void compute(const PlannedStep& step, std::size_t stage, Result& result) {
    for (std::size_t row = 0; row < step.tokens.size(); ++row) {
      const auto& tokens = stages_[stage].add(step, row);
      if (stage + 1 < stages_.size() || step.wants_logits[row] == 0) continue;
      result.tokens.push_back(hash_of(tokens));
      result.requests.push_back(step.requests[row]);
    }
  }

  std::vector<FakeStageCache> stages_;
  std::deque<UnderWay> under_way_;
  std::size_t saves_ = 0;
  std::size_t copies_ = 0;
  std::size_t trims_ = 0;
  std::size_t restores_ = 0;
  std::size_t skips_ = 0;
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
  explicit Driver(const SchedulerLimits& limits) : scheduler(limits), pipeline(limits) {}

  RequestId submit(std::vector<TokenId> prompt, std::size_t wanted, std::int32_t priority = 0) {
    return submit(Submission{.request = {}, .prompt = std::move(prompt), .priority = priority},
                  wanted);
  }
  RequestId submit(Submission submission, std::size_t wanted) {
    submission.request = RequestId{++last_id_};
    answers[submission.request] = Answer{submission.prompt, {}, wanted};
    const RequestId id = submission.request;
    EXPECT_TRUE(scheduler.submit(std::move(submission)).has_value());
    return id;
  }
  // Rows computed for a prompt and an answer of one token.
  std::size_t rows_for(std::vector<TokenId> prompt, std::uint32_t turn = 0) {
    const std::size_t before = pipeline.rows_seen();
    submit(Submission{.request = {}, .prompt = std::move(prompt), .turn = turn}, 1);
    run();
    return pipeline.rows_seen() - before;
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
    const auto outcome = scheduler.on_result(result.step, result.skipped);
    ASSERT_TRUE(outcome.has_value());
    if (outcome->progress) progress.push_back(*outcome->progress);
    for (const ResultRow& row :
         outcome->rows) {  // rows of requests that ended meanwhile are left out
      ASSERT_EQ(result.requests.at(row.index), row.request);
      take(row, result.tokens[row.index]);
    }
  }
  void finish(RequestId id) { pipeline.skip(scheduler.finish(id), skips_from); }
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
  std::function<void(const PlannedStep&)> on_step;                          // may be empty
  std::function<std::size_t()> skips_from = [] { return std::size_t{0}; };  // FakePipeline::skip()

 private:
  void take(const ResultRow& row, TokenId token) {
    if (!row.samples) return;
    Answer& answer = answers.at(row.request);
    answer.tokens.push_back(token);
    if (answer.tokens.size() == answer.wanted || !scheduler.has_room(row.request)) {
      finish(row.request);
    } else {
      scheduler.on_token(row.request, token);
    }
  }
  std::uint64_t last_id_ = 0;
};

inline std::vector<TokenId> tokens_from(TokenId first, std::size_t count) {
  std::vector<TokenId> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = first + static_cast<TokenId>(i);
  return tokens;
}

inline void expect_as_alone(const Driver& driver) {
  for (const auto& [id, answer] : driver.answers) {
    EXPECT_EQ(answer.tokens, answer_alone(answer.prompt, answer.tokens.size())) << id.value;
  }
}

}  // namespace salvage::pipeline
