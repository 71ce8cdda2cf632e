#include "agent/stage_runner.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace salvage::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Logger kLog("stage");
constexpr auto kListeningTime = seconds(20);
// Between looks at the worker; also the longest that a command waits.
constexpr auto kTickTime = milliseconds(100);
constexpr std::uint32_t kSilentTicksMax = kWorkerSilenceMax / kTickTime;
// All machines are told to end their stages at once, and are not equally fast: the link of one that
// was ended breaks here before we are told.
constexpr auto kOrderlyEndTime = milliseconds(300);

}  // namespace

StageRunner::StageRunner(StageRunnerOptions options, StageEvents events,
                         transport::Transport& transport, const Clock& clock)
    : options_(std::move(options)),
      events_(std::move(events)),
      transport_(transport),
      clock_(clock),
      thread_([this] { run(); }) {}

StageRunner::~StageRunner() {
  commands_.close();
  thread_.join();
}

void StageRunner::load(const wire::LoadStage& order) {
  (void)commands_.push(order);
}

void StageRunner::ask_stats(bool reset) {
  Command command = AskStats{reset};
  (void)commands_.try_push(command);  // a worker that is that busy is asked again later
}

void StageRunner::run() {
  auto folder = RunFolder::create();
  if (!folder) return report_failure(folder.error());
  auto worker = start(*folder);
  if (!worker) return report_failure(worker.error());
  Result<void> done = announce(**worker);
  if (done) done = serve(**worker);
  if (done) return;
  if (auto cause = explain(**worker, std::move(done).error())) report_failure(*cause);
}

Result<std::unique_ptr<WorkerLink>> StageRunner::start(const RunFolder& folder) {
  WorkerStart start;
  start.executable = options_.executable;
  start.endpoint = fmt::format("unix:{}/stage.sock", folder.path());
  start.stage_index = options_.stage.value;
  start.hello.wire_version = options_.wire_version;
  start.hello.llama_pin = options_.llama_pin;
  start.hello.role = wire::LinkRole::kControl;
  start.hello.auth_token = options_.secret.token;
  start.secret = encode_worker_secret(options_.secret);
  start.arguments = options_.remote_arguments;
  if (options_.wire_version != wire::kWireVersion) {
    start.arguments.insert(start.arguments.end(),
                           {"--wire-version", std::to_string(options_.wire_version)});
  }
  start.progress = [this](std::uint32_t stage, double fraction, const std::string& phase) {
    events_.progress({.stage_index = stage, .fraction = fraction, .phase = phase});
  };
  return WorkerLink::start(start, transport_, clock_);
}

Result<void> StageRunner::announce(WorkerLink& worker) {
  wire::StageListening listening;
  listening.epoch = options_.epoch.value;
  listening.stage_index = options_.stage.value;
  ASSIGN_OR_RETURN(auto said, worker.listening(deadline_after(clock_.now(), kListeningTime)));
  listening.local_endpoint = said.local_endpoint;
  listening.endpoints = std::move(said.endpoints);
  events_.listening(listening);
  return {};
}

// Returns without an error only when the runner is to end.
Result<void> StageRunner::serve(WorkerLink& worker) {
  while (!commands_.closed()) {
    const auto command = commands_.pop(deadline_after(clock_.now(), kTickTime));
    if (command) RETURN_IF_ERROR(carry_out(worker, *command));
    RETURN_IF_ERROR(watch(worker));
  }
  return {};
}

Result<void> StageRunner::carry_out(WorkerLink& worker, const Command& command) {
  if (const auto* order = std::get_if<wire::LoadStage>(&command)) {
    loading_ = true;
    return worker.load(*order);
  }
  const bool reset = std::get<AskStats>(command).reset;
  ASSIGN_OR_RETURN(wire::Stats stats,
                   worker.stats(reset, deadline_after(clock_.now(), kStatsTime)));
  stats.stage_index = options_.stage.value;
  events_.stats(stats);
  return {};
}

Result<void> StageRunner::watch(WorkerLink& worker) {
  if (auto death = worker.death(clock_.now())) return fail(std::move(*death));
  if (loading_) {
    auto loaded = worker.loaded(clock_.now());
    const bool not_yet = !loaded && loaded.error().code() == ErrorCode::kDeadlineExceeded;
    loading_ = not_yet;
    if (loaded) {
      events_.loaded(*loaded);
    } else if (!not_yet) {
      return fail(std::move(loaded).error());
    }
  }
  if (auto failure = worker.reported_failure()) return fail(std::move(*failure));
  if (auto silence = worker.silence(kSilentTicksMax)) return fail(std::move(*silence));
  return {};
}

// A broken link is a symptom, and seen before the process behind it is seen to have died. Nothing:
// this stage was about to be ended too.
std::optional<Error> StageRunner::explain(WorkerLink& worker, Error error) {
  if (error.code() != ErrorCode::kUnavailable) return error;
  if (auto death = worker.death(deadline_after(clock_.now(), kDeathTime))) return death;
  if (told_to_end(deadline_after(clock_.now(), kOrderlyEndTime))) return std::nullopt;
  return error;
}

bool StageRunner::told_to_end(TimePoint deadline) {
  while (commands_.pop(deadline)) {
    // A worker that is gone carries nothing out.
  }
  return commands_.closed();
}

void StageRunner::report_failure(const Error& error) {
  kLog.error(
      "stage_ended",
      {{"epoch", options_.epoch.value}, {"stage", options_.stage.value}, {"why", error.message()}});
  events_.failed({.epoch = options_.epoch.value,
                  .stage_index = options_.stage.value,
                  .code = std::string(error_code_name(error.code())),
                  .message = error.message()});
}

}  // namespace salvage::agent
