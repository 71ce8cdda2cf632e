// Goal: stages behind real threads, frames and credits give the tokens that one engine gives alone,
// and every way to end (done, cancelled, a stage that fails, a link that breaks) reaches every
// request exactly once.
// Method: the fake engine (a running hash) behind StageServers, linked by the memory transport.

#include <atomic>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "pipeline/handshake.h"
#include "pipeline/pipeline_client.h"
#include "pipeline/stage_server.h"
#include "sim/fake_engine.h"
#include "transport/memory_transport.h"
#include "wire/skip.h"

namespace salvage::pipeline {
namespace {

constexpr std::uint32_t kLayers = 6;
constexpr PlanEpoch kEpoch{7};

class GreedySampler final : public engine::Sampler {
 public:
  std::uint32_t candidates_wanted() const override { return 1; }
  TokenId choose(std::span<const float> logits) override {
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  TokenId choose(const engine::TopLogits& top) override {
    return top.ids[static_cast<std::size_t>(choose(top.logits))];
  }
  const std::optional<engine::Logprobs>& logprobs() const override { return no_logprobs_; }
  void accept(TokenId) override {}
  void accept_prompt(TokenId) override {}

 private:
  std::optional<engine::Logprobs> no_logprobs_;
};

// Reports each choice, and after a few finds nothing to choose from.
class EndingSampler final : public engine::Sampler {
 public:
  explicit EndingSampler(int choices) : left_(choices) {}
  std::uint32_t candidates_wanted() const override { return 1; }
  TokenId choose(std::span<const float> logits) override {
    return reported(greedy_.choose(logits));
  }
  TokenId choose(const engine::TopLogits& top) override { return reported(greedy_.choose(top)); }
  const std::optional<engine::Logprobs>& logprobs() const override { return logprobs_; }
  void accept(TokenId) override {}
  void accept_prompt(TokenId) override {}

 private:
  TokenId reported(TokenId token) {
    if (left_-- == 0) return engine::kNoToken;
    logprobs_ = engine::Logprobs{.chosen = {token, -1}, .top = {}};
    return token;
  }

  GreedySampler greedy_;
  std::optional<engine::Logprobs> logprobs_;
  int left_;
};

engine::StageOptions options_for(std::uint32_t sequences) {
  engine::StageOptions options;
  options.checkpoint_count = 4;
  options.sequence_count_max = sequences;
  options.context_per_sequence = 500;
  options.rows_max = 16;
  return options;
}

std::vector<TokenId> answer_of_one_engine(const std::vector<TokenId>& prompt, std::size_t count) {
  const auto engine = sim::make_fake_engine({{0, kLayers}, kLayers}, options_for(1));
  std::vector<TokenId> tokens = prompt;
  engine::StepOutput output;
  for (std::size_t position = 0; position + 1 < prompt.size() + count; ++position) {
    const std::array<TokenId, 1> token{tokens[position]};
    const std::array<std::int32_t, 1> where{static_cast<std::int32_t>(position)};
    const std::array<SequenceId, 1> sequence{};
    const std::array<std::uint8_t, 1> wants{1};
    EXPECT_TRUE(engine->run({token, {}, where, sequence, wants}, output).has_value());
    if (position + 1 >= prompt.size()) tokens.push_back(GreedySampler().choose(output.logits));
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end()};
}

struct Link {
  std::unique_ptr<transport::Listener> listener;
  std::unique_ptr<transport::Connection> sender;
  std::unique_ptr<transport::Connection> receiver;
};

Link make_link(transport::Transport& transport, std::uint32_t index) {
  const auto endpoint = transport::parse_endpoint("unix:/link-" + std::to_string(index));
  Link link;
  link.listener = *transport.listen(*endpoint);
  link.sender = *transport.connect(*endpoint, kNoDeadline);
  link.receiver = *link.listener->accept();
  return link;
}

PipelineClientOptions client_options(std::uint32_t stage_count, std::uint32_t sequences,
                                     bool recurrent = false) {
  PipelineClientOptions options;
  options.epoch = kEpoch;
  options.limits.stage_count = stage_count;
  options.limits.sequence_count = sequences;
  options.limits.context_per_sequence = 500;
  options.limits.rows_max = 16;
  options.limits.in_flight_max = 2 * stage_count + 1;
  options.limits.can_trim = !recurrent;
  options.limits.can_skip = true;
  options.limits.checkpoint_count = recurrent ? 4 : 0;
  options.vocabulary_size = sim::kFakeVocabulary;
  return options;
}

// A pipeline of fake stages in this process.
class FakePipeline {
 public:
  explicit FakePipeline(std::uint32_t stage_count, std::uint32_t sequences = 1,
                        transport::MemoryFaults faults = {}, std::uint32_t fail_stage_1_at = 0,
                        bool recurrent = false)
      : transport_(transport::make_memory_transport(faults)) {
    for (std::uint32_t i = 0; i <= stage_count; ++i) links_.push_back(make_link(*transport_, i));
    for (std::uint32_t i = 0; i < stage_count; ++i) {
      const LayerRange layers{kLayers * i / stage_count, kLayers * (i + 1) / stage_count};
      engines_.push_back(sim::make_fake_engine(
          {layers, kLayers, i == 1 ? fail_stage_1_at : 0, recurrent}, options_for(sequences)));
      servers_.push_back(std::make_unique<StageServer>(
          *engines_[i], *links_[i].receiver, *links_[i + 1].sender, clock_,
          StageServerOptions{.epoch = kEpoch,
                             .stage = StageIndex{i},
                             .credits = i == 0 ? 20U : 2U,
                             .downstream_credits = 2,
                             .rows_max = 16}));
    }
    for (auto& server : servers_) {
      threads_.emplace_back([&server] { (void)server->run(); });
    }
    client_ =
        std::make_unique<PipelineClient>(*links_.front().sender, *links_.back().receiver, clock_,
                                         client_options(stage_count, sequences, recurrent));
  }
  ~FakePipeline() {
    client_.reset();
    for (auto& server : servers_) server->stop();
    for (auto& thread : threads_) thread.join();
  }

  PipelineClient& client() { return *client_; }
  StageServer& server(std::size_t index) { return *servers_[index]; }
  void cut(std::size_t link) { links_[link].sender->shutdown(); }

 private:
  SteadyClock clock_;
  std::unique_ptr<transport::Transport> transport_;
  std::vector<Link> links_;
  std::vector<std::unique_ptr<engine::StageEngine>> engines_;
  std::vector<std::unique_ptr<StageServer>> servers_;
  std::vector<std::thread> threads_;
  std::unique_ptr<PipelineClient> client_;
};

// Collects what one request hears.
struct Listener {
  std::vector<TokenId> tokens;
  std::vector<std::uint32_t> logits_positions;
  std::vector<std::string> endings;
  RequestStats stats;
  Mutex mutex;
  Condition ended;

  RequestHandler handler() {
    RequestHandler handler;
    handler.token = [this](TokenId token) {
      MutexLock lock(mutex);
      tokens.push_back(token);
    };
    handler.logits = [this](std::uint32_t position, std::span<const float>) {
      logits_positions.push_back(position);
    };
    handler.done = [this](FinishReason reason, const RequestStats& what) {
      stats = what;
      end(std::string(finish_reason_name(reason)));
    };
    handler.failed = [this](const Error& error) { end("failed: " + error.message()); };
    return handler;
  }
  std::string wait() {
    const TimePoint deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    MutexLock lock(mutex);
    while (endings.empty() && ended.wait_until(mutex, deadline)) {
    }
    return endings.empty() ? "no end" : endings.front();
  }
  std::size_t token_count() {
    MutexLock lock(mutex);
    return tokens.size();
  }
  void end(std::string how) {
    MutexLock lock(mutex);
    endings.push_back(std::move(how));
    ended.notify_all();
  }
};

GenerateRequest request_for(const std::vector<TokenId>& prompt, std::uint32_t count,
                            Listener& listener) {
  GenerateRequest request;
  request.prompt = prompt;
  request.answer_tokens_max = count;
  request.sampler = std::make_unique<GreedySampler>();
  request.handler = listener.handler();
  return request;
}

std::vector<TokenId> prompt_of(std::size_t count, TokenId seed) {
  std::vector<TokenId> prompt(count);
  for (std::size_t i = 0; i < count; ++i)
    prompt[i] = static_cast<TokenId>((i * 7 + static_cast<std::size_t>(seed)) % 50);
  return prompt;
}

TEST(Pipeline, any_number_of_stages_gives_the_tokens_of_one_engine) {
  const auto prompt = prompt_of(100, 3);
  const auto expected = answer_of_one_engine(prompt, 30);
  for (std::uint32_t stages = 1; stages <= 6; ++stages) {
    FakePipeline pipeline(stages);
    Listener listener;
    ASSERT_TRUE(pipeline.client().generate(request_for(prompt, 30, listener)).has_value());
    EXPECT_EQ(listener.wait(), "length");
    EXPECT_EQ(listener.tokens, expected) << stages << " stages";
  }
}

TEST(Pipeline, many_requests_at_once_get_what_they_would_get_alone) {
  FakePipeline pipeline(3, 4);
  std::vector<Listener> listeners(12);
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    const auto prompt = prompt_of(10 + i * 9, static_cast<TokenId>(i));
    ASSERT_TRUE(pipeline.client().generate(request_for(prompt, 20, listeners[i])).has_value());
  }
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    EXPECT_EQ(listeners[i].wait(), "length");
    EXPECT_EQ(listeners[i].tokens,
              answer_of_one_engine(prompt_of(10 + i * 9, static_cast<TokenId>(i)), 20));
  }
}

TEST(Pipeline, a_replay_in_the_middle_changes_nothing) {
  FakePipeline pipeline(3, 2);
  Listener listener;
  const auto prompt = prompt_of(60, 1);
  ASSERT_TRUE(pipeline.client().generate(request_for(prompt, 200, listener)).has_value());
  for (int i = 0; i < 20; ++i) pipeline.client().replay();
  EXPECT_EQ(listener.wait(), "length");
  EXPECT_EQ(listener.tokens, answer_of_one_engine(prompt, 200));
}

TEST(Pipeline, a_sampler_that_finds_no_token_ends_its_own_request_alone) {
  FakePipeline pipeline(2, 2);
  Listener stuck;
  Listener other;
  const auto prompt = prompt_of(20, 1);
  GenerateRequest request = request_for(prompt, 50, stuck);
  request.sampler = std::make_unique<EndingSampler>(3);
  std::vector<TokenId> reported;
  request.handler.logprobs = [&](const engine::Logprobs& logprobs) {
    reported.push_back(logprobs.chosen.token);
  };
  ASSERT_TRUE(pipeline.client().generate(std::move(request)).has_value());
  ASSERT_TRUE(pipeline.client().generate(request_for(prompt, 50, other)).has_value());
  EXPECT_EQ(stuck.wait().substr(0, 20), "failed: the grammar ");
  EXPECT_EQ(stuck.tokens.size(), 3U);
  EXPECT_EQ(reported, stuck.tokens);
  EXPECT_EQ(other.wait(), "length");
  EXPECT_EQ(other.tokens, answer_of_one_engine(prompt, 50));
}

TEST(Pipeline, a_second_turn_reuses_the_prefix) {
  FakePipeline pipeline(2);
  Listener first;
  const auto prompt = prompt_of(100, 1);
  ASSERT_TRUE(pipeline.client().generate(request_for(prompt, 10, first)).has_value());
  EXPECT_EQ(first.wait(), "length");
  auto next = prompt;
  next.insert(next.end(), first.tokens.begin(), first.tokens.end());
  next.push_back(9);
  Listener second;
  ASSERT_TRUE(pipeline.client().generate(request_for(next, 10, second)).has_value());
  EXPECT_EQ(second.wait(), "length");
  EXPECT_EQ(second.tokens, answer_of_one_engine(next, 10));
  EXPECT_GE(second.stats.reused_tokens, 109U);
}

// Turns of one conversation whose answers come back in another form, on stages that keep a state.
TEST(Pipeline, stages_that_cannot_cut_back_restore_what_they_saved) {
  FakePipeline pipeline(3, 2, {}, 0, true);
  auto prompt = prompt_of(200, 1);
  for (int turn = 0; turn < 4; ++turn) {
    Listener listener;
    auto request = request_for(prompt, 20, listener);
    request.turn = static_cast<std::uint32_t>(prompt.size() - 3);
    ASSERT_TRUE(pipeline.client().generate(std::move(request)).has_value());
    EXPECT_EQ(listener.wait(), "length");
    EXPECT_EQ(listener.tokens, answer_of_one_engine(prompt, 20)) << turn;
    EXPECT_EQ(listener.stats.reused_tokens, turn == 0 ? 0U : prompt.size() - 33U) << turn;
    prompt.resize(prompt.size() - 3);
    const auto next = prompt_of(33, 5 + turn);
    prompt.insert(prompt.end(), next.begin(), next.end());
  }
  // After a replay there is nothing to go back to, and nothing wrong.
  pipeline.client().replay();
  Listener again;
  ASSERT_TRUE(pipeline.client().generate(request_for(prompt, 20, again)).has_value());
  EXPECT_EQ(again.wait(), "length");
  EXPECT_EQ(again.tokens, answer_of_one_engine(prompt, 20));
  EXPECT_EQ(again.stats.reused_tokens, 0U);
}

TEST(Pipeline, what_should_not_be_reused_is_computed) {
  FakePipeline pipeline(2);
  for (const bool reuse : {true, false, true}) {
    Listener listener;
    auto request = request_for(prompt_of(100, 1), 5, listener);
    request.reuse_prefix = reuse;
    ASSERT_TRUE(pipeline.client().generate(std::move(request)).has_value());
    EXPECT_EQ(listener.wait(), "length");
    EXPECT_EQ(listener.tokens, answer_of_one_engine(prompt_of(100, 1), 5));
    if (!reuse) {
      EXPECT_EQ(listener.stats.reused_tokens, 0U);
    }
  }
}

TEST(Pipeline, every_row_of_a_prompt_can_be_asked_for) {
  FakePipeline pipeline(2);
  Listener listener;
  auto request = request_for(prompt_of(50, 2), 0, listener);
  request.wants_all_logits = request.logits_for_prompt = true;
  ASSERT_TRUE(pipeline.client().generate(std::move(request)).has_value());
  EXPECT_EQ(listener.wait(), "length");
  ASSERT_EQ(listener.logits_positions.size(), 50U);
  EXPECT_EQ(listener.logits_positions.back(), 49U);
}

TEST(Pipeline, a_full_context_ends_the_answer) {
  FakePipeline pipeline(2);
  Listener listener;
  ASSERT_TRUE(
      pipeline.client().generate(request_for(prompt_of(490, 2), 100, listener)).has_value());
  EXPECT_EQ(listener.wait(), "context_full");
  EXPECT_EQ(listener.tokens, answer_of_one_engine(prompt_of(490, 2), listener.tokens.size()));
}

TEST(Pipeline, cancelling_frees_the_sequence) {
  FakePipeline pipeline(2);
  Listener cancelled;
  const auto id = pipeline.client().generate(request_for(prompt_of(20, 2), 400, cancelled));
  ASSERT_TRUE(id.has_value());
  pipeline.client().cancel(*id);
  EXPECT_EQ(cancelled.wait(), "cancelled");
  Listener next;
  ASSERT_TRUE(pipeline.client().generate(request_for(prompt_of(30, 5), 20, next)).has_value());
  EXPECT_EQ(next.wait(), "length");
  EXPECT_EQ(next.tokens, answer_of_one_engine(prompt_of(30, 5), 20));
  EXPECT_EQ(cancelled.endings.size(), 1U);
}

TEST(Pipeline, prompts_cancelled_at_any_moment_change_no_later_answer) {
  for (const bool recurrent : {false, true}) {
    FakePipeline pipeline(4, 2, {}, 0, recurrent);
    Random random(recurrent ? 1 : 2);
    for (int round = 0; round < 60; ++round) {
      const int words = static_cast<int>(random.below(3));
      Listener gone;
      const auto id = pipeline.client().generate(request_for(prompt_of(300, words), 5, gone));
      ASSERT_TRUE(id.has_value());
      const std::uint64_t steps = pipeline.client().step_count() + random.below(6);
      for (int i = 0; i < 1000 && pipeline.client().step_count() < steps; ++i) {
        std::this_thread::yield();
      }
      pipeline.client().cancel(*id);
      Listener next;
      const auto prompt = prompt_of(static_cast<std::size_t>(20 + random.below(300)), words);
      ASSERT_TRUE(pipeline.client().generate(request_for(prompt, 5, next)).has_value());
      ASSERT_EQ(next.wait(), "length");
      ASSERT_EQ(next.tokens, answer_of_one_engine(prompt, 5)) << "round " << round;
    }
  }
}

// A stage whose next one takes nothing any more still hears what to leave out, and says so.
TEST(Pipeline, a_full_stage_hears_a_skip) {
  const auto transport = transport::make_memory_transport({});
  SteadyClock clock;
  Link in = make_link(*transport, 0);
  Link out = make_link(*transport, 1);
  const auto engine = sim::make_fake_engine({{2, 4}, kLayers}, options_for(1));
  StageServer server(*engine, *in.receiver, *out.sender, clock,
                     {.epoch = kEpoch, .stage = StageIndex{1}, .credits = 2, .rows_max = 16});
  std::thread serving([&] { (void)server.run(); });
  const TimePoint until = deadline_after(clock.now(), std::chrono::seconds(20));
  transport::IncomingFrame frame;
  std::vector<std::byte> body;
  const std::vector<float> row(sim::kFakeRowWidth, 1.0F);
  // Two wait, one is with the engine, one computed, one waits to be sent.
  for (std::int32_t step = 1; step <= 5; ++step) {
    if (step > 2) {
      ASSERT_TRUE(in.sender->receive_frame(frame, until)) << "a credit";
    }
    const wire::MicroBatch batch{.epoch = kEpoch,
                                 .step = StepId{static_cast<std::uint64_t>(step)},
                                 .tokens = {1},
                                 .positions = {step - 1},
                                 .sequences = {SequenceId{0}},
                                 .wants_logits = {0},
                                 .hidden = {1, sim::kFakeRowWidth, wire::HiddenType::kF32}};
    ASSERT_TRUE(wire::encode(batch, body));
    ASSERT_TRUE(in.sender->send_frame({.type = wire::FrameType::kMicroBatch,
                                       .epoch = kEpoch,
                                       .step = batch.step,
                                       .body = body,
                                       .data = wire::float_bytes(row)}));
  }
  // Of another plan, and so nobody's business; then the real one.
  for (const PlanEpoch epoch : {PlanEpoch{kEpoch.value - 1}, kEpoch}) {
    ASSERT_TRUE(wire::encode(wire::Skip{{{4}, {5}}}, body));
    ASSERT_TRUE(in.sender->send_frame(
        {.type = wire::FrameType::kSkip, .epoch = epoch, .step = {}, .body = body, .data = {}}));
  }
  ASSERT_TRUE(out.receiver->receive_frame(frame, until)) << "nothing comes through";
  EXPECT_EQ(frame.header.type, wire::FrameType::kSkip);
  wire::Skip skip;
  ASSERT_TRUE(wire::decode(frame.header, frame.body, skip));
  EXPECT_EQ(skip.steps.size(), 2U);
  server.stop();
  serving.join();
}

// Cancels from another thread while tokens arrive: nothing may be heard after the end.
TEST(Pipeline, the_end_is_the_last_that_a_request_hears) {
  FakePipeline pipeline(2, 4);
  for (int round = 0; round < 50; ++round) {
    Listener listener;
    std::atomic<bool> inside{false};
    std::atomic<int> overlaps{0};
    std::atomic<int> after_end{0};
    std::atomic<bool> over{false};
    auto request = request_for(prompt_of(10, 2), 400, listener);
    request.handler.token = [&](TokenId) {
      overlaps += inside.exchange(true) ? 1 : 0;
      after_end += over ? 1 : 0;
      std::this_thread::yield();
      inside = false;
    };
    request.handler.done = [&](FinishReason reason, const RequestStats&) {
      overlaps += inside ? 1 : 0;
      over = true;
      listener.end(std::string(finish_reason_name(reason)));
    };
    const auto id = pipeline.client().generate(std::move(request));
    ASSERT_TRUE(id.has_value());
    for (int i = 0; i < round; ++i) std::this_thread::yield();
    pipeline.client().cancel(*id);
    EXPECT_NE(listener.wait(), "no end");
    EXPECT_EQ(overlaps, 0);
    EXPECT_EQ(after_end, 0);
  }
}

TEST(Pipeline, a_prompt_that_does_not_fit_is_refused_and_hurts_nobody) {
  FakePipeline pipeline(2);
  Listener refused;
  EXPECT_FALSE(pipeline.client().generate(request_for(prompt_of(501, 2), 1, refused)).has_value());
  Listener listener;
  ASSERT_TRUE(pipeline.client().generate(request_for(prompt_of(20, 2), 5, listener)).has_value());
  EXPECT_EQ(listener.wait(), "length");
}

TEST(Pipeline, a_stage_that_fails_ends_every_request_once) {
  FakePipeline pipeline(3, 2, {}, 5);
  Listener first;
  Listener second;
  ASSERT_TRUE(pipeline.client().generate(request_for(prompt_of(20, 2), 400, first)).has_value());
  (void)pipeline.client().generate(request_for(prompt_of(20, 3), 400, second));
  EXPECT_EQ(first.wait().substr(0, 6), "failed");
  Listener late;
  EXPECT_FALSE(pipeline.client().generate(request_for(prompt_of(20, 2), 5, late)).has_value());
  EXPECT_EQ(first.endings.size(), 1U);
  EXPECT_LE(second.endings.size(), 1U);
}

TEST(Pipeline, a_broken_link_anywhere_ends_every_request_once) {
  for (std::size_t link = 0; link <= 3; ++link) {
    FakePipeline pipeline(3);
    Listener listener;
    ASSERT_TRUE(
        pipeline.client().generate(request_for(prompt_of(20, 2), 470, listener)).has_value());
    while (listener.token_count() < 5) std::this_thread::yield();
    pipeline.cut(link);
    EXPECT_EQ(listener.wait().substr(0, 6), "failed") << link;
    EXPECT_EQ(listener.endings.size(), 1U);
  }
}

TEST(Pipeline, a_flipped_bit_on_a_link_is_never_computed_on) {
  FakePipeline pipeline(3, 1, {.corrupt_frame = 9});
  Listener listener;
  ASSERT_TRUE(pipeline.client().generate(request_for(prompt_of(20, 2), 400, listener)).has_value());
  EXPECT_EQ(listener.wait().substr(0, 6), "failed");
  const auto expected = answer_of_one_engine(prompt_of(20, 2), 400);
  EXPECT_TRUE(std::equal(listener.tokens.begin(), listener.tokens.end(), expected.begin()));
}

TEST(Pipeline, a_result_without_candidates_ends_the_request) {
  const auto transport = transport::make_memory_transport();
  const Link first = make_link(*transport, 0);
  const Link results = make_link(*transport, 1);
  const SteadyClock clock;
  PipelineClient client(*first.sender, *results.receiver, clock, client_options(1, 1));
  Listener listener;
  ASSERT_TRUE(client.generate(request_for(prompt_of(5, 2), 10, listener)).has_value());
  transport::IncomingFrame frame;
  ASSERT_TRUE(first.receiver->receive_frame(frame).has_value());
  wire::StepResult result;
  result.form = wire::LogitsForm::kHash;
  result.row_count = 1;
  result.vocabulary_size = sim::kFakeVocabulary;
  result.hashes = {1};
  std::vector<std::byte> body;
  ASSERT_TRUE(wire::encode(result, body).has_value());
  ASSERT_TRUE(results.sender
                  ->send_frame({.type = wire::FrameType::kStepResult,
                                .epoch = kEpoch,
                                .step = frame.header.step,
                                .body = body,
                                .data = {}})
                  .has_value());
  EXPECT_EQ(listener.wait().substr(0, 6), "failed");
  EXPECT_TRUE(listener.tokens.empty());
}

TEST(Pipeline, who_waits_is_told_the_place_and_then_that_reading_begins) {
  FakePipeline pipeline(2, 1);
  Listener first;
  Listener second;
  Listener third;
  std::vector<std::string> news;  // of the third; one thread at a time delivers
  Mutex mutex;
  GenerateRequest request = request_for(prompt_of(12, 3), 2, third);
  request.handler.queued = [&](std::uint32_t place) {
    MutexLock lock(mutex);
    news.push_back("place " + std::to_string(place));
  };
  request.handler.progress = [&](std::uint32_t done, std::uint32_t total, std::uint32_t reused) {
    MutexLock lock(mutex);
    news.push_back(fmt::format("read {}/{} ({})", done, total, reused));
  };
  // Long enough that it runs until it is cancelled.
  const auto one = pipeline.client().generate(request_for(prompt_of(10, 1), 480, first));
  const auto two = pipeline.client().generate(request_for(prompt_of(10, 2), 2, second));
  ASSERT_TRUE(one && two);
  ASSERT_TRUE(pipeline.client().generate(std::move(request)).has_value());
  EXPECT_EQ(pipeline.client().queued_count(), 2U);
  EXPECT_EQ(pipeline.client().sequences().at(0).request, *one);
  pipeline.client().cancel(*one);
  EXPECT_EQ(first.wait(), "cancelled");
  EXPECT_EQ(second.wait(), "length");
  EXPECT_EQ(third.wait(), "length");
  EXPECT_EQ(pipeline.client().queued_count(), 0U);
  MutexLock lock(mutex);
  ASSERT_GE(news.size(), 4U);
  EXPECT_EQ(news[0], "place 2");
  EXPECT_EQ(news[1], "place 1");
  EXPECT_EQ(news[2], "read 0/12 (0)") << "at once, not with the first chunk's end";
  EXPECT_EQ(news.back(), "read 12/12 (0)");
  EXPECT_GT(third.stats.queue_seconds, 0);
  EXPECT_LE(third.stats.queue_seconds, third.stats.ttft_seconds);
}

TEST(Pipeline, working_time_passes_while_something_is_under_way_and_no_longer) {
  FakePipeline pipeline(2);
  EXPECT_EQ(pipeline.client().working_us(), 0U);
  Listener listener;
  ASSERT_TRUE(pipeline.client().generate(request_for(prompt_of(40, 2), 30, listener)).has_value());
  EXPECT_EQ(listener.wait(), "length");
  // The last step was for the last token, whose end was told after it came back.
  const std::uint64_t worked = pipeline.client().working_us();
  EXPECT_GT(worked, 0U);
  EXPECT_EQ(pipeline.client().working_us(), worked);
  EXPECT_GE(pipeline.client().step_count(), 30U);
}

TEST(Pipeline, counters_count_every_row_once_a_stage) {
  FakePipeline pipeline(3);
  Listener listener;
  ASSERT_TRUE(pipeline.client().generate(request_for(prompt_of(40, 2), 11, listener)).has_value());
  EXPECT_EQ(listener.wait(), "length");
  for (std::size_t stage = 0; stage < 3; ++stage)
    EXPECT_EQ(pipeline.server(stage).stats(false).rows, 50U);
  EXPECT_EQ(pipeline.server(0).stats(true).rows, 50U);
  EXPECT_EQ(pipeline.server(0).stats(false).rows, 0U);
}

}  // namespace
}  // namespace salvage::pipeline
