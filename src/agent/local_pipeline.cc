#include "agent/local_pipeline.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include <fmt/format.h>

#include "agent/load_options.h"
#include "agent/worker_secret.h"
#include "base/random.h"
#include "pipeline/handshake.h"
#include "pipeline/scheduler_limits.h"

namespace salvage::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kTokenBytes = 32;
constexpr auto kLinkTime = seconds(10);
// Between looks at the workers; also how often a stop request is seen while loading.
constexpr auto kWatchTime = milliseconds(250);
constexpr std::uint32_t kPingsUnansweredMax = kWorkerSilenceMax / kWatchTime;
constexpr auto kGlanceTime = milliseconds(10);
constexpr PlanEpoch kEpoch{1};  // this version never re-plans

}  // namespace

LocalPipeline::LocalPipeline(transport::Transport& transport, const Clock& clock)
    : transport_(transport), clock_(clock) {}

Result<std::unique_ptr<LocalPipeline>> LocalPipeline::start(const LocalPipelineOptions& options,
                                                            transport::Transport& transport,
                                                            const Clock& clock) {
  std::unique_ptr<LocalPipeline> pipeline(new LocalPipeline(transport, clock));
  RETURN_IF_ERROR(pipeline->launch(options));
  RETURN_IF_ERROR(pipeline->load(options));
  RETURN_IF_ERROR(pipeline->link_up(options));
  pipeline->watcher_ = std::thread([raw = pipeline.get()] { raw->watch(); });
  return pipeline;
}

LocalPipeline::~LocalPipeline() {
  watch_stop_.request_stop();
  if (watcher_.joinable()) watcher_.join();
  client_.reset();
  for (const auto& worker : workers_) worker->release();
  workers_.clear();
}

std::string LocalPipeline::socket_path(std::uint32_t index) const {
  return fmt::format("unix:{}/stage-{}.sock", folder_.front()->path(), index);
}

wire::Hello LocalPipeline::hello(const LocalPipelineOptions& options, wire::LinkRole role) const {
  return {.llama_pin = options.llama_pin,
          .kernel_fingerprint = options.kernel_fingerprint,
          .role = role,
          .epoch = kEpoch.value,
          .auth_token = token_};
}

Result<void> LocalPipeline::launch(const LocalPipelineOptions& options) {
  ASSIGN_OR_RETURN(token_, random_hex(kTokenBytes));
  ASSIGN_OR_RETURN(RunFolder folder, RunFolder::create());
  folder_.push_back(std::make_unique<RunFolder>(std::move(folder)));
  ASSIGN_OR_RETURN(const auto results, transport::parse_endpoint(fmt::format(
                                           "unix:{}/results.sock", folder_.front()->path())));
  ASSIGN_OR_RETURN(result_listener_, transport_.listen(results));
  for (std::uint32_t index = 0; index < options.stages.size(); ++index) {
    ASSIGN_OR_RETURN(auto worker,
                     WorkerLink::start({.executable = options.executable,
                                        .endpoint = socket_path(index),
                                        .stage_index = index,
                                        .hello = hello(options, wire::LinkRole::kControl),
                                        .secret = encode_worker_secret({.token = token_}),
                                        .arguments = {},
                                        .progress = options.progress},
                                       transport_, clock_));
    workers_.push_back(std::move(worker));
  }
  return {};
}

wire::LoadStage LocalPipeline::load_order(const LocalPipelineOptions& options,
                                          std::uint32_t index) const {
  const auto count = static_cast<std::uint32_t>(options.stages.size());
  wire::LoadStage order;
  from_stage_options(options.stages[index], order);
  order.epoch = kEpoch.value;
  order.stage_index = index;
  order.stage_count = count;
  order.self_check = options.self_check;
  order.hidden_type = options.hidden_type;
  order.next_endpoint = index + 1 < count ? socket_path(index + 1)
                                          : transport::to_string(result_listener_->endpoint());
  // Stage 0 is granted all that the scheduler may have under way, so sending to it never blocks.
  order.credits = index == 0 ? limits_for(options).in_flight_max : 2;
  return order;
}

pipeline::SchedulerLimits LocalPipeline::limits_for(const LocalPipelineOptions& options) const {
  const engine::StageOptions& stage = options.stages.front();
  std::vector<pipeline::StageAbility> abilities;
  for (const LoadedStage& loaded : stages_) {
    abilities.push_back(
        {loaded.facts.can_trim, loaded.facts.rows_exact_max, loaded.facts.checkpoint_count, true});
  }
  pipeline::SchedulerLimits limits =
      pipeline::scheduler_limits({.stage_count = static_cast<std::uint32_t>(options.stages.size()),
                                  .sequence_count = stage.sequence_count_max,
                                  .context_per_sequence = stage.context_per_sequence,
                                  .rows_max = stage.rows_max,
                                  .logit_rows_max = stage.logit_rows_max,
                                  .exact = stage.exact},
                                 abilities);
  limits.chunk_rows = options.chunk_rows;
  limits.reuse_prefix = options.reuse_prefix;
  return limits;
}

Result<void> LocalPipeline::load(const LocalPipelineOptions& options) {
  for (std::uint32_t index = 0; index < workers_.size(); ++index) {
    const Result<void> sent = workers_[index]->load(load_order(options, index));
    if (!sent) return fail(explain(sent.error()).within("cannot load the model"));
  }
  // The last worker connects to us before it reports that it has loaded.
  auto accepted =
      std::async(std::launch::async, [&]() -> Result<std::unique_ptr<transport::Connection>> {
        ASSIGN_OR_RETURN(auto connection, result_listener_->accept());
        const pipeline::Terms terms{{options.llama_pin, token_, kEpoch}, 0};
        RETURN_IF_ERROR(pipeline::welcome(
            *connection, [&](const wire::Hello&) { return terms; },
            deadline_after(clock_.now(), kLinkTime)));
        return connection;
      });
  const Result<void> loaded = wait_until_loaded(options);
  result_listener_->shutdown();
  auto results = accepted.get();
  RETURN_IF_ERROR(loaded);
  ASSIGN_OR_RETURN(results_, std::move(results));
  return {};
}

Result<void> LocalPipeline::wait_until_loaded(const LocalPipelineOptions& options) {
  std::vector<bool> done(workers_.size(), false);
  stages_.resize(workers_.size());
  while (std::find(done.begin(), done.end(), false) != done.end()) {
    for (std::uint32_t index = 0; index < workers_.size(); ++index) {
      if (done[index]) continue;
      if (options.stop.stop_requested())
        return fail(ErrorCode::kCancelled, "loading was interrupted");
      auto loaded = workers_[index]->loaded(deadline_after(clock_.now(), kWatchTime));
      if (!loaded && loaded.error().code() == ErrorCode::kDeadlineExceeded) {
        if (auto lost = find_silent())
          return fail(std::move(*lost).within("cannot load the model"));
        continue;
      }
      if (!loaded) return fail(explain(loaded.error()).within("cannot load the model"));
      stages_[index] = {
          .facts = to_stage_facts(*loaded),
          .self_checked = loaded->self_checked,
          .check = {loaded->exact, loaded->inexact_condition, loaded->nmse, loaded->rows_compared},
          .pid = loaded->pid};
      done[index] = true;
    }
  }
  return {};
}

Result<void> LocalPipeline::link_up(const LocalPipelineOptions& options) {
  ASSIGN_OR_RETURN(const auto endpoint, transport::parse_endpoint(socket_path(0)));
  ASSIGN_OR_RETURN(auto dialed,
                   pipeline::dial(transport_, endpoint, hello(options, wire::LinkRole::kData),
                                  deadline_after(clock_.now(), kLinkTime)));
  first_ = std::move(dialed.connection);
  pipeline::PipelineClientOptions client;
  client.epoch = kEpoch;
  limits_ = limits_for(options);
  client.limits = limits_;
  client.position_planes = stages_.front().facts.position_planes;
  client.vocabulary_size = stages_.back().facts.vocabulary_size;
  client.explain = [this](Error error) { return explain(std::move(error)); };
  client_ = std::make_unique<pipeline::PipelineClient>(*first_, *results_, clock_, client);
  return {};
}

void LocalPipeline::watch() {
  BoundedQueue<int> never(1);  // a wait that a stop request cuts short
  const std::stop_callback wake(watch_stop_.get_token(), [&never] { never.close(); });
  while (!watch_stop_.stop_requested()) {
    (void)never.pop(deadline_after(clock_.now(), kWatchTime));
    auto lost = find_cause();
    if (!lost) lost = find_silent();
    if (!lost || watch_stop_.stop_requested()) continue;
    client_->fail_all(*lost);
    return;
  }
}

// When one worker goes, its neighbours report broken links: a death is the cause, a failure of a
// stage's own work comes next, a broken link last.
std::optional<Error> LocalPipeline::find_cause() {
  for (const auto& worker : workers_) {
    if (auto death = worker->death(clock_.now())) return death;
  }
  std::optional<Error> link_failure;
  for (const auto& worker : workers_) {
    auto failure = worker->reported_failure();
    if (failure && failure->code() != ErrorCode::kUnavailable) return failure;
    if (failure && !link_failure) link_failure = std::move(failure);
  }
  return link_failure;
}

// Pings every worker; the first that has not answered for too long.
std::optional<Error> LocalPipeline::find_silent() {
  std::optional<Error> lost;
  for (const auto& worker : workers_) {
    auto silence = worker->silence(kPingsUnansweredMax);
    if (!lost) lost = std::move(silence);
  }
  return lost;
}

// A broken link is a symptom, and seen before the process behind it is seen to have died: wait a
// moment for the cause.
Error LocalPipeline::explain(Error error) {
  const TimePoint deadline = deadline_after(clock_.now(), kDeathTime);
  std::optional<Error> cause;
  do {
    cause = find_cause();
    if (cause && cause->code() != ErrorCode::kUnavailable) return *cause;
    for (const auto& worker : workers_) {
      if (auto death = worker->death(deadline_after(clock_.now(), kGlanceTime))) return *death;
    }
  } while (clock_.now() < deadline);
  return cause ? *cause : std::move(error);
}

Result<std::vector<wire::Stats>> LocalPipeline::stats(bool reset) {
  std::vector<wire::Stats> all;
  for (const auto& worker : workers_) {
    ASSIGN_OR_RETURN(wire::Stats stats,
                     worker->stats(reset, deadline_after(clock_.now(), kStatsTime)));
    all.push_back(stats);
  }
  return all;
}

}  // namespace salvage::agent
