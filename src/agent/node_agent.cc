#include "agent/node_agent.h"

#include <chrono>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/sha256.h"
#include "model/piece_catalogue.h"

namespace salvage::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Logger kLog("agent");
// Between looks at the stages' counters, by which the pacer knows whether somebody is answered.
constexpr auto kStatsPeriod = milliseconds(500);
// Of these looks, every so many one goes to the coordinator, and so do memory, disk and load.
constexpr int kReportEvery = 4;
// Whoever pressed Ctrl-C waits no longer than this for a coordinator that doesn't answer.
constexpr auto kGoodbyeTime = milliseconds(500);

// An answer that came too late belongs to a request that nobody waits for any more.
bool answers(const std::optional<wire::MemberReply>& reply, const std::string& kind) {
  return reply && reply->kind == kind;
}

std::uint64_t seed_of(const NodeId& node) {
  return std::hash<std::string>{}(node.value);
}

}  // namespace

NodeAgent::NodeAgent(NodeAgentOptions options, NodeAgentEvents events, store::PieceStore& store,
                     transport::Transport& transport, const Clock& clock)
    : options_(std::move(options)),
      events_(std::move(events)),
      store_(store),
      transport_(transport),
      clock_(clock),
      pacer_(clock),
      blobs_(store, clock, pacer_) {
  NodeLinkEvents link;
  link.addresses = events_.coordinator_addresses;
  link.up = [this](const transport::Connection&) { return on_link_up(); };
  link.frame = [this](const transport::IncomingFrame& frame) { return take(frame); };
  link.down = [this](const Error& error, Duration retry_in) { on_link_down(error, retry_in); };
  link_ = std::make_unique<NodeLink>(
      NodeLinkOptions{options_.llama_pin, options_.kernel_fingerprint, options_.wire_version,
                      seed_of(options_.identity.id)},
      std::move(link), transport_, clock_);
  status_thread_ = std::thread([this] { status_loop(); });
  link_->start();
}

NodeAgent::~NodeAgent() {
  stop_serving();
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  status_wake_.notify_all();
  replied_.notify_all();
  status_thread_.join();
  link_->stop();
  stop_all();
  enders_.close();
}

void NodeAgent::serve_weights(std::unique_ptr<transport::Connection> connection) {
  blobs_.serve(std::move(connection));
}

void NodeAgent::stop_serving() {
  blobs_.stop();
}

void NodeAgent::retry_now() {
  if (link_) link_->retry_now();
}

// --- the link ------------------------------------------------------------------------------------

wire::NodeFacts NodeAgent::on_link_up() {
  events_.link_up();
  return events_.facts();
}

void NodeAgent::on_link_down(const Error& error, Duration retry_in) {
  // Whoever holds the link owns the stages: a new one will bring new orders.
  stop_all();
  {
    MutexLock lock(mutex_);
    view_version_ = 0;
  }
  replied_.notify_all();
  events_.link_down(error, retry_in);
}

void NodeAgent::facts_changed() {
  (void)link_->send(events_.facts());
}

void NodeAgent::inventory_changed(const ModelId& model) {
  wire::Inventory inventory{.model = model.value, .pieces = {}};
  for (const PieceDigest& piece : store_.inventory(model)) inventory.pieces.push_back(piece.value);
  (void)link_->send(inventory);
}

void NodeAgent::announce_inventories() {
  for (const model::CatalogueEntry& entry : store_.models()) inventory_changed(entry.id());
}

Result<void> NodeAgent::take(const transport::IncomingFrame& frame) {
  switch (frame.header.type) {
    case wire::FrameType::kClusterView:
      return take_view(frame);
    case wire::FrameType::kMemberReply:
      return take_reply(frame);
    case wire::FrameType::kMemberRequest: {
      ASSIGN_OR_RETURN(const auto request, wire::decode_control<wire::MemberRequest>(frame.body));
      return take_request(request);
    }
    case wire::FrameType::kFetchOrder: {
      ASSIGN_OR_RETURN(const auto order, wire::decode_control<wire::FetchOrder>(frame.body));
      fetch(order);
      return {};
    }
    default:
      return take_stage_frame(frame);
  }
}

Result<void> NodeAgent::take_stage_frame(const transport::IncomingFrame& frame) {
  switch (frame.header.type) {
    case wire::FrameType::kStartStage: {
      ASSIGN_OR_RETURN(const auto order, wire::decode_control<wire::StartStage>(frame.body));
      start_stage(order);
      return {};
    }
    case wire::FrameType::kLoadStage: {
      ASSIGN_OR_RETURN(auto order, wire::decode_control<wire::LoadStage>(frame.body));
      load_stage(std::move(order));
      return {};
    }
    case wire::FrameType::kUnload: {
      ASSIGN_OR_RETURN(const auto order, wire::decode_control<wire::Unload>(frame.body));
      stop_epoch(PlanEpoch{order.epoch});
      return {};
    }
    default:
      return fail(ErrorCode::kCorrupt, fmt::format("the coordinator sent an unexpected {} frame",
                                                   wire::frame_type_name(frame.header.type)));
  }
}

// The first view is what tells us that we are in: everything that a coordinator needs to know of
// this machine goes out then.
Result<void> NodeAgent::take_view(const transport::IncomingFrame& frame) {
  ASSIGN_OR_RETURN(const auto view, wire::decode_control<wire::ClusterView>(frame.body));
  bool first = false;
  {
    MutexLock lock(mutex_);
    if (view.version <= view_version_) return {};
    first = view_version_ == 0;
    view_version_ = view.version;
  }
  events_.view(view);
  if (first) announce_inventories();
  return {};
}

Result<void> NodeAgent::take_reply(const transport::IncomingFrame& frame) {
  ASSIGN_OR_RETURN(const auto reply, wire::decode_control<wire::MemberReply>(frame.body));
  if (reply.kind == "link") {
    const Error error(wire::parse_error_code(reply.error_code), reply.error);
    events_.refused(error);
    return fail(error);
  }
  {
    MutexLock lock(mutex_);
    reply_ = reply;
  }
  replied_.notify_all();
  return {};
}

// What the coordinator asks of this machine beside plans. Deleting files takes its time.
Result<void> NodeAgent::take_request(const wire::MemberRequest& request) {
  if (request.kind != "remove_model") {
    return fail(ErrorCode::kUnsupported, fmt::format("unknown request '{}'", request.kind));
  }
  if (!is_digest(request.value)) return fail(ErrorCode::kCorrupt, "no model is named so");
  end_later({}, [this, model = ModelId{request.value}] {
    const Result<void> removed = store_.remove(model);
    if (!removed) {
      kLog.warn("model_not_removed", {{"model", model.value}, {"why", removed.error().message()}});
    }
    inventory_changed(model);
  });
  return {};
}

Result<void> NodeAgent::request(const wire::MemberRequest& request, TimePoint deadline) {
  const MutexLock turn(asking_);
  return exchange(request, deadline);
}

Result<void> NodeAgent::exchange(const wire::MemberRequest& request, TimePoint deadline) {
  {
    MutexLock lock(mutex_);
    reply_.reset();
  }
  RETURN_IF_ERROR(link_->send(request));
  MutexLock lock(mutex_);
  while (!answers(reply_, request.kind) && !stopping_) {
    if (!replied_.wait_until(mutex_, deadline)) break;
  }
  if (!answers(reply_, request.kind))
    return fail(ErrorCode::kUnavailable, "the coordinator has not answered");
  if (reply_->error_code.empty()) return {};
  return fail(wire::parse_error_code(reply_->error_code), reply_->error);
}

void NodeAgent::say_goodbye() {
  link_->dial_no_more();  // it ends the link, which must not look like an accident to us
  // Not in turn: whoever still waits for an answer will not get it any more.
  (void)exchange({.kind = "goodbye", .value = {}}, deadline_after(clock_.now(), kGoodbyeTime));
}

// --- fetching ------------------------------------------------------------------------------------

void NodeAgent::fetch(const wire::FetchOrder& order) {
  FetchJobEvents events;
  events.progress = [this](const wire::FetchProgress& progress) { (void)link_->send(progress); };
  events.files = [this, epoch = PlanEpoch{order.epoch}](const store::StageFiles& files) {
    remember_files(epoch, files);
  };
  events.inventory = [this](const ModelId& model) { inventory_changed(model); };
  FetchJobOptions options{.order = order,
                          .self = options_.identity.id,
                          .llama_pin = options_.llama_pin,
                          .wire_version = options_.wire_version};
  auto job =
      std::make_unique<FetchJob>(std::move(options), std::move(events), store_, transport_, clock_);
  std::vector<std::unique_ptr<FetchJob>> over;  // destroyed without the lock
  MutexLock lock(mutex_);
  over = take_ended_fetches();
  fetches_.emplace(PlanEpoch{order.epoch}, std::move(job));
}

// Those of no plan end with themselves, not with a plan.
std::vector<std::unique_ptr<FetchJob>> NodeAgent::take_ended_fetches() {
  std::vector<std::unique_ptr<FetchJob>> over;
  const auto [begin, end] = fetches_.equal_range(PlanEpoch{});
  for (auto fetch = begin; fetch != end;) {
    if (!fetch->second->ended()) {
      ++fetch;
      continue;
    }
    over.push_back(std::move(fetch->second));
    fetch = fetches_.erase(fetch);
  }
  return over;
}

void NodeAgent::remember_files(PlanEpoch epoch, const store::StageFiles& files) {
  MutexLock lock(mutex_);
  files_[epoch] = files;
}

// --- stages --------------------------------------------------------------------------------------

void NodeAgent::start_stage(const wire::StartStage& order) {
  StageRunnerOptions options;
  options.executable = options_.executable;
  options.llama_pin = options_.llama_pin;
  options.wire_version = options_.wire_version;
  options.epoch = PlanEpoch{order.epoch};
  options.stage = StageIndex{order.stage_index};
  options.secret.token = order.token;
  // Its own data link leads to another machine, or comes from one: it has to prove who we are.
  options.secret.key = options_.identity.key_pem;
  options.secret.certificate = options_.identity.certificate_pem;
  options.secret.authority = options_.identity.authority_pem;
  if (order.remote) {
    options.remote_arguments = {
        "--listen-remote", fmt::format("{}-{}", options_.stage_port_first,
                                       options_.stage_port_first + options_.stage_port_count - 1)};
  }
  const StageKey key{options.epoch, options.stage};
  MutexLock lock(mutex_);
  if (stages_.contains(key)) return;
  stages_[key].runner =
      std::make_unique<StageRunner>(std::move(options), events_for(order), transport_, clock_);
}

StageEvents NodeAgent::events_for(const wire::StartStage& order) {
  const PlanEpoch epoch{order.epoch};
  const StageKey key{epoch, StageIndex{order.stage_index}};
  StageEvents events;
  events.listening = [this, epoch](const wire::StageListening& said) {
    (void)link_->send(said, epoch);
  };
  events.progress = [this, epoch](const wire::Progress& said) { (void)link_->send(said, epoch); };
  events.loaded = [this, epoch](const wire::StageLoaded& said) { (void)link_->send(said, epoch); };
  events.failed = [this, epoch](const wire::StageFailed& said) {
    (void)link_->send(events_.status());  // what is free now counts for the next try
    (void)link_->send(said, epoch);
  };
  events.stats = [this, key](const wire::Stats& stats) { take_stats(key, stats); };
  return events;
}

void NodeAgent::take_stats(StageKey key, const wire::Stats& stats) {
  {
    MutexLock lock(mutex_);
    const auto stage = stages_.find(key);
    if (stage == stages_.end()) return;
    if (stage->second.steps != stats.steps) pacer_.stage_active();
    stage->second.steps = stats.steps;
  }
  (void)link_->send(stats, key.first);
}

// The paths are ours: nothing of them comes from the network.
void NodeAgent::load_stage(wire::LoadStage order) {
  const StageKey key{PlanEpoch{order.epoch}, StageIndex{order.stage_index}};
  MutexLock lock(mutex_);
  const auto stage = stages_.find(key);
  if (stage == stages_.end()) return;  // ended meanwhile; the coordinator has heard of it
  const auto made = files_.find(key.first);
  order.weights = made == files_.end() ? "" : made->second.shard.string();
  order.embedding_table = made == files_.end() ? "" : made->second.embedding_table.string();
  if (order.thread_count == 0) order.thread_count = options_.threads;
  stage->second.runner->load(order);
}

NodeAgent::Work NodeAgent::take_out(PlanEpoch epoch) {
  Work work;
  MutexLock lock(mutex_);
  for (auto stage = stages_.begin(); stage != stages_.end();) {
    if (stage->first.first != epoch) {
      ++stage;
      continue;
    }
    work.stages.push_back(std::move(stage->second));
    stage = stages_.erase(stage);
  }
  const auto [begin, end] = fetches_.equal_range(epoch);
  for (auto fetch = begin; fetch != end; ++fetch) work.fetches.push_back(std::move(fetch->second));
  fetches_.erase(begin, end);
  files_.erase(epoch);
  return work;
}

void NodeAgent::stop_epoch(PlanEpoch epoch) {
  end_later(take_out(epoch), [this, epoch] {
    // First what is free now: the next plan is made as soon as we say that we have stopped.
    (void)link_->send(events_.status());
    (void)link_->send(wire::Unload{.epoch = epoch.value}, epoch);
  });
}

void NodeAgent::stop_all() {
  std::set<PlanEpoch> epochs;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, stage] : stages_) epochs.insert(key.first);
    for (const auto& [epoch, fetch] : fetches_) epochs.insert(epoch);
  }
  for (const PlanEpoch epoch : epochs) end_later(take_out(epoch), [] {});
}

// Ending a worker takes up to two seconds; the link's thread has pings to answer meanwhile.
void NodeAgent::end_later(Work work, std::function<void()> ended) {
  auto pass = enders_.enter();
  if (!pass) return;
  std::thread([work = std::move(work), ended = std::move(ended),
               inside = std::move(*pass)]() mutable {
    for (const auto& fetch : work.fetches) fetch->cancel();
    work.fetches.clear();
    work.stages.clear();
    ended();
  }).detach();
}

// --- what changes all the time -------------------------------------------------------------------

void NodeAgent::status_loop() {
  for (int round = 0;; ++round) {
    {
      const TimePoint until = deadline_after(clock_.now(), kStatsPeriod);
      MutexLock lock(mutex_);
      while (!stopping_ && status_wake_.wait_until(mutex_, until)) {
      }
      if (stopping_) return;
      for (auto& [key, stage] : stages_) stage.runner->ask_stats(false);
    }
    if (round % kReportEvery == 0 && connected()) (void)link_->send(events_.status());
  }
}

}  // namespace salvage::agent
