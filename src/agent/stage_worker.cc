#include "agent/stage_worker.h"

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "agent/load_options.h"
#include "base/bounded_queue.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/system_info.h"
#include "pipeline/control_link.h"
#include "pipeline/door.h"
#include "pipeline/handshake.h"
#include "pipeline/stage_server.h"
#include "wire/cluster.h"

namespace salvage::agent {
namespace {

using std::chrono::seconds;

constexpr Logger kLog("worker");
// A peer introduces itself in milliseconds, also over a slow link with TLS.
constexpr auto kHelloTime = seconds(5);
// Orders to load go out to all stages at once; the one before us waits for ours at most so long.
constexpr auto kAssignTime = seconds(10);
// The previous stage loads at the same time as we do and connects when it is done.
constexpr auto kUpstreamTime = seconds(600);
constexpr auto kStageDialTime = seconds(10);

using ConnectionPtr = std::unique_ptr<transport::Connection>;

Result<std::vector<transport::Endpoint>> next_endpoints(const wire::LoadStage& load) {
  std::vector<transport::Endpoint> endpoints;
  ASSIGN_OR_RETURN(endpoints.emplace_back(), transport::parse_endpoint(load.next_endpoint));
  for (const std::string& text : load.next_endpoints) {
    ASSIGN_OR_RETURN(endpoints.emplace_back(), transport::parse_endpoint(text));
  }
  return endpoints;
}

class Worker {
 public:
  Worker(const StageWorkerOptions& options, transport::Transport& transport,
         const engine::StageEngineFactory& make_engine, const Clock& clock)
      : options_(options), transport_(transport), make_engine_(make_engine), clock_(clock) {}

  Result<void> run();

 private:
  void admit(ConnectionPtr connection, const wire::Hello& hello);
  pipeline::Terms terms_for(const wire::Hello& hello, const transport::Connection& connection);
  Result<void> check_peer(const wire::Hello& hello, const transport::Connection& connection) const
      REQUIRES(mutex_);
  Result<void> open_door();
  Result<std::unique_ptr<transport::Listener>> listen_on_first_free(
      const std::vector<transport::Endpoint>& endpoints);
  Result<void> control_loop();
  wire::StageListening listening() const;
  Result<void> on_control(const transport::IncomingFrame& frame, bool& leave);
  Result<void> start_stage(const wire::LoadStage& load);
  void stage_thread(wire::LoadStage load);
  Result<void> load_and_serve(const wire::LoadStage& load);
  Result<std::unique_ptr<engine::StageEngine>> load(const wire::LoadStage& load);
  Result<wire::StageLoaded> check(const wire::LoadStage& load, engine::StageEngine& engine);
  Result<ConnectionPtr> wait_for_upstream();
  Error serve(const wire::LoadStage& load, engine::StageEngine& engine,
              transport::Connection& upstream, pipeline::DialedLink& downstream);
  wire::Stats stats(bool reset);
  TimePoint in(Duration time) const { return deadline_after(clock_.now(), time); }

  const StageWorkerOptions& options_;
  transport::Transport& transport_;
  const engine::StageEngineFactory& make_engine_;
  const Clock& clock_;

  BoundedQueue<ConnectionPtr> controls_{1};
  BoundedQueue<ConnectionPtr> upstreams_{1};

  ConnectionPtr control_;
  std::optional<pipeline::ControlLink> link_;
  std::thread stage_thread_;

  Mutex mutex_;
  wire::LocalVersion version_ GUARDED_BY(mutex_);
  std::uint32_t credits_ GUARDED_BY(mutex_) = 0;  // 0: no stage is loaded, no data link is let in
  NodeId upstream_node_ GUARDED_BY(mutex_);
  Condition assigned_;  // credits_ or leaving_ changed
  pipeline::StageServer* server_ GUARDED_BY(mutex_) = nullptr;
  StepId failed_step_ GUARDED_BY(mutex_);  // what ended the stage, if it was a step
  bool leaving_ GUARDED_BY(mutex_) = false;

  std::unique_ptr<pipeline::Door> door_;  // first to go: its callbacks use the rest
};

Result<void> Worker::run() {
  {
    MutexLock lock(mutex_);
    version_ = {options_.llama_pin, options_.auth_token, PlanEpoch{0}, options_.wire_version,
                false};
  }
  RETURN_IF_ERROR(open_door());
  const Result<void> done = control_loop();
  {
    MutexLock lock(mutex_);
    leaving_ = true;
    if (server_ != nullptr) server_->stop();
  }
  assigned_.notify_all();
  controls_.close();
  upstreams_.close();
  door_.reset();
  if (stage_thread_.joinable()) stage_thread_.join();
  return done;
}

Result<void> Worker::open_door() {
  std::vector<std::unique_ptr<transport::Listener>> listeners;
  ASSIGN_OR_RETURN(listeners.emplace_back(), transport_.listen(options_.listen));
  if (!options_.listen_remote.empty()) {
    ASSIGN_OR_RETURN(listeners.emplace_back(), listen_on_first_free(options_.listen_remote));
  }
  door_ = std::make_unique<pipeline::Door>(
      std::move(listeners), pipeline::DoorOptions{.hello_time = kHelloTime},
      [this](const wire::Hello& hello, const transport::Connection& connection) {
        return terms_for(hello, connection);
      },
      [this](ConnectionPtr connection, const wire::Hello& hello) {
        admit(std::move(connection), hello);
      },
      clock_);
  return {};
}

Result<std::unique_ptr<transport::Listener>> Worker::listen_on_first_free(
    const std::vector<transport::Endpoint>& endpoints) {
  Error last(ErrorCode::kUnavailable, "no port to listen on was named");
  for (const transport::Endpoint& endpoint : endpoints) {
    auto listener = transport_.listen(endpoint);
    if (listener) return listener;
    last = std::move(listener).error();
  }
  return fail(std::move(last));
}

void Worker::admit(ConnectionPtr connection, const wire::Hello& hello) {
  auto& queue = hello.role == wire::LinkRole::kControl ? controls_ : upstreams_;
  (void)queue.try_push(connection);  // A second control or data link is simply closed.
}

// The stage before us may be ready to connect before we were told what to load: let it wait.
pipeline::Terms Worker::terms_for(const wire::Hello& hello,
                                  const transport::Connection& connection) {
  const TimePoint deadline = in(kAssignTime);
  MutexLock lock(mutex_);
  while (hello.role == wire::LinkRole::kData && credits_ == 0 && !leaving_) {
    if (!assigned_.wait_until(mutex_, deadline)) break;
  }
  return {version_, credits_, check_peer(hello, connection)};
}

Result<void> Worker::check_peer(const wire::Hello& hello,
                                const transport::Connection& connection) const {
  const transport::PeerIdentity* peer = connection.identity();
  const bool data = hello.role == wire::LinkRole::kData;
  if (!data && (hello.role != wire::LinkRole::kControl || peer != nullptr)) {
    return fail(ErrorCode::kPermissionDenied, "a stage worker takes no such link");
  }
  if (data && (peer == nullptr ? NodeId{} : peer->node) != upstream_node_) {
    return fail(ErrorCode::kPermissionDenied, "this is not the node of the stage before");
  }
  return {};
}

Result<void> Worker::control_loop() {
  auto first = controls_.pop(in(kUpstreamTime));
  if (!first) return fail(ErrorCode::kDeadlineExceeded, "no coordinator has introduced itself");
  controls_.close();  // A second control link is closed as soon as it has introduced itself.
  control_ = std::move(*first);
  link_.emplace(*control_);
  RETURN_IF_ERROR(link_->send(listening()));
  bool leave = false;
  while (!leave) {
    ASSIGN_OR_RETURN(const transport::IncomingFrame* frame, link_->receive());
    RETURN_IF_ERROR(on_control(*frame, leave));
  }
  return {};
}

wire::StageListening Worker::listening() const {
  wire::StageListening listening;
  for (const transport::Endpoint& endpoint : door_->endpoints()) {
    const std::string text = transport::to_string(endpoint);
    if (transport::is_tls(endpoint.kind)) {
      listening.endpoints.push_back(text);
    } else {
      listening.local_endpoint = text;
    }
  }
  return listening;
}

Result<void> Worker::on_control(const transport::IncomingFrame& frame, bool& leave) {
  switch (frame.header.type) {
    case wire::FrameType::kPing: {
      ASSIGN_OR_RETURN(const auto ping, wire::decode_control<wire::Ping>(frame.body));
      return link_->send(wire::Pong{.nonce = ping.nonce});
    }
    case wire::FrameType::kStatsRequest: {
      ASSIGN_OR_RETURN(const auto request, wire::decode_control<wire::StatsRequest>(frame.body));
      return link_->send(stats(request.reset));
    }
    case wire::FrameType::kLoadStage: {
      ASSIGN_OR_RETURN(const auto load, wire::decode_control<wire::LoadStage>(frame.body));
      return start_stage(load);
    }
    case wire::FrameType::kShutdown:
    case wire::FrameType::kUnload:
      leave = true;
      return {};
    default:
      return fail(ErrorCode::kCorrupt, "an unexpected frame on the control link");
  }
}

wire::Stats Worker::stats(bool reset) {
  MutexLock lock(mutex_);
  wire::Stats stats = server_ != nullptr ? server_->stats(reset) : wire::Stats{};
  if (const auto memory = process_memory()) {
    stats.rss_bytes = memory->resident_bytes;
    stats.rss_peak_bytes = memory->resident_peak_bytes;
  }
  return stats;
}

Result<void> Worker::start_stage(const wire::LoadStage& load) {
  if (stage_thread_.joinable()) {
    return fail(ErrorCode::kInvalidArgument, "this worker holds a stage already");
  }
  {
    MutexLock lock(mutex_);
    version_.epoch = PlanEpoch{load.epoch};
    credits_ = load.credits;
    upstream_node_ = NodeId{load.upstream_node};
  }
  assigned_.notify_all();
  stage_thread_ = std::thread([this, load] { stage_thread(load); });
  return {};
}

void Worker::stage_thread(wire::LoadStage load) {
  const Result<void> done = load_and_serve(load);
  StepId step;
  {
    MutexLock lock(mutex_);
    if (leaving_) return;
    step = failed_step_;
  }
  kLog.error("stage_failed", {{"stage", load.stage_index}, {"why", done.error().message()}});
  (void)link_->send(wire::StageFailed{.epoch = load.epoch,
                                      .stage_index = load.stage_index,
                                      .step = step.value,
                                      .code = std::string(error_code_name(done.error().code())),
                                      .message = done.error().message()});
}

Result<void> Worker::load_and_serve(const wire::LoadStage& load_stage) {
  ASSIGN_OR_RETURN(const auto engine, load(load_stage));
  ASSIGN_OR_RETURN(const wire::StageLoaded loaded, check(load_stage, *engine));
  ASSIGN_OR_RETURN(const auto next, next_endpoints(load_stage));
  const wire::Hello hello{.wire_version = options_.wire_version,
                          .llama_pin = options_.llama_pin,
                          .kernel_fingerprint = options_.kernel_fingerprint,
                          .role = wire::LinkRole::kData,
                          .epoch = load_stage.epoch,
                          .stage_index = load_stage.stage_index,
                          .auth_token = options_.auth_token};
  ASSIGN_OR_RETURN(pipeline::DialedLink downstream,
                   pipeline::dial_any(transport_, next, hello, in(kStageDialTime)));
  RETURN_IF_ERROR(link_->send(loaded));
  ASSIGN_OR_RETURN(const ConnectionPtr upstream, wait_for_upstream());
  return fail(serve(load_stage, *engine, *upstream, downstream));
}

Result<std::unique_ptr<engine::StageEngine>> Worker::load(const wire::LoadStage& load) {
  ASSIGN_OR_RETURN(const engine::StageOptions options, to_stage_options(load));
  TimePoint last_report = clock_.now();
  const auto progress = [&](double fraction) {
    if (clock_.now() - last_report < std::chrono::milliseconds(100)) return true;
    last_report = clock_.now();
    return link_->send(wire::Progress{load.stage_index, fraction, "weights"}).has_value();
  };
  return make_engine_(options, progress);
}

Result<wire::StageLoaded> Worker::check(const wire::LoadStage& load, engine::StageEngine& engine) {
  wire::StageLoaded loaded = to_stage_loaded(engine.facts());
  loaded.epoch = load.epoch;
  loaded.stage_index = load.stage_index;
  loaded.pid = static_cast<std::uint64_t>(::getpid());
  if (!load.self_check) return loaded;
  RETURN_IF_ERROR(link_->send(wire::Progress{load.stage_index, 0, "self_check"}));
  ASSIGN_OR_RETURN(const engine::SelfCheck checked, engine.self_check());
  loaded.self_checked = true;
  loaded.exact = checked.exact;
  loaded.inexact_condition = checked.condition;
  loaded.nmse = checked.nmse;
  loaded.rows_compared = checked.rows_compared;
  return loaded;
}

Result<ConnectionPtr> Worker::wait_for_upstream() {
  auto upstream = upstreams_.pop(in(kUpstreamTime));
  if (!upstream) return fail(ErrorCode::kDeadlineExceeded, "the stage before did not connect");
  upstreams_.close();
  return std::move(*upstream);
}

Error Worker::serve(const wire::LoadStage& load, engine::StageEngine& engine,
                    transport::Connection& upstream, pipeline::DialedLink& downstream) {
  pipeline::StageServer server(engine, upstream, *downstream.connection, clock_,
                               {.epoch = PlanEpoch{load.epoch},
                                .stage = StageIndex{load.stage_index},
                                .credits = load.credits,
                                .downstream_credits = downstream.credits,
                                .rows_max = load.rows_max,
                                .outgoing_type = load.hidden_type});
  {
    MutexLock lock(mutex_);
    if (leaving_) return Error(ErrorCode::kCancelled, "the worker is leaving");
    server_ = &server;
  }
  Error reason = server.run();
  MutexLock lock(mutex_);
  failed_step_ = server.failed_step();
  server_ = nullptr;
  return reason;
}

}  // namespace

Result<void> run_stage_worker(const StageWorkerOptions& options, transport::Transport& transport,
                              const engine::StageEngineFactory& make_engine, const Clock& clock) {
  return Worker(options, transport, make_engine, clock).run();
}

}  // namespace salvage::agent
