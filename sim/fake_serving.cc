#include "sim/fake_serving.h"

#include <chrono>
#include <utility>

#include "base/check.h"
#include "pipeline/handshake.h"
#include "pipeline/scheduler_limits.h"
#include "sim/fake_engine.h"
#include "sim/fake_text.h"

namespace salvage::sim {
namespace {

constexpr std::uint32_t kLayers = 12;
constexpr PlanEpoch kEpoch{1};
constexpr auto kPatience = std::chrono::seconds(20);
constexpr std::string_view kToken =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
constexpr std::string_view kPin = "fake";
constexpr std::string_view kName = "fake-model";

// A stage's engine behind its gate.
class GatedEngine final : public engine::StageEngine {
 public:
  GatedEngine(std::unique_ptr<engine::StageEngine> engine, StepGate& gate)
      : engine_(std::move(engine)), gate_(gate) {}
  const engine::StageFacts& facts() const override { return engine_->facts(); }
  Result<void> apply(std::span<const engine::SequenceOp> ops) override {
    return engine_->apply(ops);
  }
  Result<void> run(const engine::MicroBatchView& batch, engine::StepOutput& output) override {
    gate_.pass();
    return engine_->run(batch, output);
  }
  Result<engine::SelfCheck> self_check() override { return engine_->self_check(); }

 private:
  const std::unique_ptr<engine::StageEngine> engine_;
  StepGate& gate_;
};

transport::Endpoint endpoint_of(std::uint32_t link) {
  auto endpoint = transport::parse_endpoint("unix:/fake-" + std::to_string(link));
  CHECK(endpoint.has_value());
  return *endpoint;
}

}  // namespace

void StepGate::hold() {
  MutexLock lock(mutex_);
  held_ = true;
}

void StepGate::let(std::size_t n) {
  MutexLock lock(mutex_);
  allowed_ += n;
  changed_.notify_all();
}

void StepGate::open() {
  MutexLock lock(mutex_);
  held_ = false;
  changed_.notify_all();
}

void StepGate::pass() {
  MutexLock lock(mutex_);
  while (held_ && allowed_ == 0) changed_.wait(mutex_);
  if (held_) --allowed_;
  ++passed_;
  changed_.notify_all();
}

std::size_t StepGate::passed() const {
  MutexLock lock(mutex_);
  return passed_;
}

bool StepGate::wait_passed(std::size_t count) const {
  const TimePoint until = deadline_after(SteadyClock().now(), kPatience);
  MutexLock lock(mutex_);
  while (passed_ < count && changed_.wait_until(mutex_, until)) {
  }
  return passed_ >= count;
}

FakeServing::FakeServing(const FakeServingOptions& options)
    : options_(options), transport_(transport::make_memory_transport()) {
  make_links();
  make_pipeline();
  start_stages();
}

FakeServing::~FakeServing() {
  gate_.open();
  pipeline_.reset();
  for (auto& server : servers_) server->stop();
  for (auto& thread : threads_) thread.join();
}

// Stage i reads link i and writes link i + 1; the last of these brings results.
void FakeServing::make_links() {
  const std::uint32_t count = options_.stage_count;
  for (std::uint32_t i = 0; i <= count; ++i) {
    listeners_.push_back(*transport_->listen(endpoint_of(i)));
    if (i == 0) continue;  // the pipeline dials that one
    downstream_.push_back(*transport_->connect(endpoint_of(i), kNoDeadline));
    upstream_.push_back(*listeners_.back()->accept());
  }
}

coordinator::PipelineOrder FakeServing::order() const {
  const std::vector<pipeline::StageAbility> abilities(options_.stage_count, {.can_skip = true});
  coordinator::PipelineOrder order;
  order.epoch = kEpoch;
  order.first = {endpoint_of(0)};
  order.hello = {.llama_pin = std::string(kPin),
                 .role = wire::LinkRole::kData,
                 .epoch = kEpoch.value,
                 .auth_token = std::string(kToken)};
  order.limits = pipeline::scheduler_limits({.stage_count = options_.stage_count,
                                             .sequence_count = options_.sequence_count,
                                             .context_per_sequence = options_.context,
                                             .rows_max = options_.rows_max,
                                             .logit_rows_max = options_.rows_max},
                                            abilities);
  order.vocabulary_size = kFakeVocabulary;
  order.text = make_fake_text(options_.script);
  order.broken = [](const Error&) {};
  return order;
}

// Both ends say hello to each other, so the first stage's does it on a thread of its own.
void FakeServing::make_pipeline() {
  std::unique_ptr<transport::Connection> first;
  std::thread door([&] {
    first = *listeners_.front()->accept();
    const pipeline::Terms terms{
        {std::string(kPin), std::string(kToken), kEpoch, wire::kWireVersion, false},
        pipeline::in_flight_max(options_.stage_count)};
    const auto welcomed = pipeline::welcome(
        *first, [&](const wire::Hello&) { return terms; }, deadline_after(clock_.now(), kPatience));
    CHECK(welcomed.has_value());
  });
  auto results = std::move(upstream_.back());
  upstream_.pop_back();
  auto connected =
      coordinator::ClusterPipeline::connect(order(), std::move(results), *transport_, clock_);
  door.join();
  CHECK(connected.has_value());
  pipeline_ = std::move(*connected);
  upstream_.insert(upstream_.begin(), std::move(first));
}

void FakeServing::start_stages() {
  const std::uint32_t count = options_.stage_count;
  engine::StageOptions options;
  options.sequence_count_max = options_.sequence_count;
  options.context_per_sequence = options_.context;
  options.rows_max = options_.rows_max;
  for (std::uint32_t i = 0; i < count; ++i) {
    const LayerRange layers{kLayers * i / count, kLayers * (i + 1) / count};
    auto engine = make_fake_engine({layers, kLayers, 0}, options);
    if (i == options_.gated_stage) {
      engine = std::make_unique<GatedEngine>(std::move(engine), gate_);
    }
    engines_.push_back(std::move(engine));
    servers_.push_back(std::make_unique<pipeline::StageServer>(
        *engines_[i], *upstream_[i], *downstream_[i], clock_,
        pipeline::StageServerOptions{.epoch = kEpoch,
                                     .stage = StageIndex{i},
                                     .credits = i == 0 ? pipeline::in_flight_max(count) : 2U,
                                     .downstream_credits = 2,
                                     .rows_max = options_.rows_max}));
  }
  for (auto& server : servers_) {
    threads_.emplace_back([&server] { (void)server->run(); });
  }
}

std::vector<api::ModelEntry> FakeServing::models() {
  api::ModelEntry model;
  model.id = std::string(kName);
  model.state = api::ModelState::kLoaded;
  model.context_tokens = options_.context;
  model.vocabulary_size = kFakeVocabulary;
  return {model};
}

Result<gateway::ReadyModel> FakeServing::ready(const std::string& model) {
  if (!model.empty() && model != kName) return fail(ErrorCode::kNotFound, "no such model");
  return gateway::ReadyModel{std::string(kName), pipeline_, {}};
}

}  // namespace salvage::sim
