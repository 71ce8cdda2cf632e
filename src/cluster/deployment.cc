#include "cluster/deployment.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"

namespace salvage::cluster {
namespace {

// 1, 2, 4, ... s.
Duration pause_after(std::uint32_t failure_count) {
  Duration pause = kPauseMin;
  for (std::uint32_t i = 1; i < failure_count && pause < kPauseMax; ++i) pause *= 2;
  return std::min(pause, kPauseMax);
}

bool runs(DeploymentState state) {
  return state == DeploymentState::kFetching || state == DeploymentState::kStarting ||
         state == DeploymentState::kLoading || state == DeploymentState::kLinking ||
         state == DeploymentState::kReady;
}

}  // namespace

std::string_view deployment_state_name(DeploymentState state) {
  switch (state) {
    case DeploymentState::kUnloaded:
      return "unloaded";
    case DeploymentState::kPlanning:
      return "planning";
    case DeploymentState::kFetching:
      return "fetching";
    case DeploymentState::kStarting:
      return "starting";
    case DeploymentState::kLoading:
      return "loading";
    case DeploymentState::kLinking:
      return "linking";
    case DeploymentState::kReady:
      return "ready";
    case DeploymentState::kWaiting:
      return "waiting";
    case DeploymentState::kUnloading:
      return "unloading";
  }
  return "unloaded";
}

std::string_view stage_state_name(StageState state) {
  switch (state) {
    case StageState::kFetching:
      return "fetching";
    case StageState::kFetched:
      return "fetched";
    case StageState::kStarting:
      return "starting";
    case StageState::kStarted:
      return "started";
    case StageState::kLoading:
      return "loading";
    case StageState::kLoaded:
      return "loaded";
  }
  return "fetching";
}

Deployment::Deployment(ModelId model, std::set<NodeId> online, TimePoint now)
    : model_(std::move(model)),
      online_(std::move(online)),
      now_(now),
      entered_(now),
      stop_until_(now),
      return_until_(now) {}

// --- the user -----------------------------------------------------------------------------------

DeploymentActions Deployment::load(DeploymentOptions options) {
  DeploymentActions actions;
  const bool same = record_.loaded && record_.options == options;
  if (same && runs(state_)) return actions;
  if (!same) {
    record_ = {.options = std::move(options), .loaded = true, .home = {}};
    first_try_ = true;
    persist(actions);
  }
  restored_ = false;
  failure_count_ = 0;
  return_until_ = now_;
  last_lines_.clear();
  stop_all("the model is loaded with other options", actions);
  replan("", actions);
  return actions;
}

DeploymentActions Deployment::unload() {
  DeploymentActions actions;
  if (!record_.loaded) return actions;
  record_.loaded = false;
  persist(actions);
  stop_all("the model was unloaded", actions);
  const bool at_once = stopping_.empty();
  enter(at_once ? DeploymentState::kUnloaded : DeploymentState::kUnloading, "", actions);
  return actions;
}

DeploymentActions Deployment::restore(DeploymentRecord record) {
  CHECK(state_ == DeploymentState::kUnloaded && !plan_under_way_);
  DeploymentActions actions;
  record_ = std::move(record);
  if (!record_.loaded) return actions;
  restored_ = true;
  return_until_ = now_ + kReturnWait;
  const std::string missing = missing_home();
  if (record_.home.empty()) {
    // It never came to a plan. Not for the first node alone that happens to connect.
    wait(WaitFor::kPause, return_until_, "for nodes to connect", actions);
  } else if (missing.empty()) {
    replan("", actions);
  } else {
    wait(WaitFor::kNode, return_until_, "for " + missing + " to come back", actions);
  }
  return actions;
}

// --- nodes --------------------------------------------------------------------------------------

DeploymentActions Deployment::node_online(const NodeId& node) {
  DeploymentActions actions;
  online_.insert(node);
  if (!record_.loaded) return actions;
  if (plan_under_way_ && is_home(node)) plan_outdated_ = true;
  if (state_ == DeploymentState::kWaiting && wait_for_ == WaitFor::kNode &&
      (missing_home().empty() || now_ >= return_until_)) {
    replan("", actions);
  } else if (state_ == DeploymentState::kFetching && is_home(node) && !uses(node)) {
    // Its layers were on their way elsewhere; it has them, so it is the quicker choice again.
    stop_all("a node came back", actions);
    replan("", actions);
  }
  return actions;
}

DeploymentActions Deployment::node_lost(const NodeId& node, std::string_view reason,
                                        bool for_good) {
  DeploymentActions actions;
  online_.erase(node);
  if (for_good) forget(node, actions);
  if (is_home(node)) return_until_ = now_ + kReturnWait;
  if (plan_under_way_) plan_outdated_ = true;
  const auto stage = std::find_if(stages_.begin(), stages_.end(), [&](const StageStatus& status) {
    return status.placed.node == node;
  });
  if (stage == stages_.end()) {
    stopped(node, actions);
    return actions;
  }
  const std::string text = fmt::format("lost node {}: {}", stage->placed.name, reason);
  stop_all(text, actions);
  // At once for the first time; a node that comes and goes must not keep the others loading.
  ++failure_count_;
  if (failure_count_ == 1) {
    replan(text, actions);
  } else {
    wait(WaitFor::kPause, now_ + pause_after(failure_count_ - 1), text, actions);
  }
  return actions;
}

// Nobody waits for it, and layers that were fixed to it can't stay so: what was fixed to the others
// left them no room, so all of it is free again.
void Deployment::forget(const NodeId& node, DeploymentActions& actions) {
  const bool pinned = record_.options.pins.contains(node);
  if (pinned) record_.options.pins.clear();
  const auto erased =
      std::erase_if(record_.home, [&](const HomeStage& home) { return home.node == node; });
  if (pinned || erased > 0) persist(actions);
  if (pinned && state_ == DeploymentState::kWaiting && wait_for_ == WaitFor::kNode) {
    retry_at_ = now_;
  }
}

// --- the planner --------------------------------------------------------------------------------

void Deployment::ask_planner(DeploymentActions& actions) {
  if (plan_under_way_) {
    plan_outdated_ = true;
    return;
  }
  if (online_.empty()) {
    wait(WaitFor::kNode, now_ + kPauseMax, "no node is online", actions);
    return;
  }
  MakePlan plan{.nodes = online_, .options = record_.options, .keep = !record_.home.empty()};
  for (const HomeStage& home : record_.home) plan.current[home.node].push_back(home.layers);
  plan_under_way_ = true;
  actions.push_back(std::move(plan));
}

// The planner has answered; is the answer still of use?
bool Deployment::plan_wanted() {
  const bool outdated = std::exchange(plan_outdated_, false);
  plan_under_way_ = false;
  return !outdated && state_ == DeploymentState::kPlanning && stopping_.empty();
}

DeploymentActions Deployment::planned(PlanEpoch epoch, planner::Placement placement) {
  DeploymentActions actions;
  if (!plan_under_way_) return actions;
  CHECK(epoch > highest_epoch_ && !placement.stages.empty());
  highest_epoch_ = epoch;
  const bool all_online = std::all_of(
      placement.stages.begin(), placement.stages.end(),
      [this](const planner::PlacedStage& stage) { return online_.contains(stage.node); });
  if (!plan_wanted() || !all_online) {
    if (state_ == DeploymentState::kPlanning && stopping_.empty()) ask_planner(actions);
    return actions;
  }
  if (!waits_for_home(placement, actions)) carry_out(epoch, std::move(placement), actions);
  return actions;
}

DeploymentActions Deployment::plan_failed(const Error& error) {
  DeploymentActions actions;
  if (!plan_under_way_) return actions;
  if (!plan_wanted()) {
    if (state_ == DeploymentState::kPlanning && stopping_.empty()) ask_planner(actions);
    return actions;
  }
  if (first_try_) {
    record_.loaded = false;
    persist(actions);
    enter(DeploymentState::kUnloaded, error.message(), actions);
    return actions;
  }
  ++failure_count_;
  wait(WaitFor::kNode, now_ + pause_after(failure_count_), error.message(), actions);
  return actions;
}

// Weights don't move, and after a start of ours nothing does, as long as the nodes that had the
// layers may come back.
bool Deployment::waits_for_home(const planner::Placement& placement, DeploymentActions& actions) {
  const std::string missing = missing_home();
  if (missing.empty() || now_ >= return_until_) return false;
  if (!restored_ && placement.fetch_bytes() == 0) return false;
  wait(WaitFor::kNode, return_until_,
       fmt::format("for {} to come back before layers move elsewhere", missing), actions);
  return true;
}

void Deployment::carry_out(PlanEpoch epoch, planner::Placement placement,
                           DeploymentActions& actions) {
  first_try_ = false;
  epoch_ = epoch;
  left_out_ = std::move(placement.left_out);
  stages_.clear();
  for (planner::PlacedStage& placed : placement.stages) {
    stages_.push_back({.placed = std::move(placed)});
  }
  settle_record(actions);
  enter(DeploymentState::kFetching, "", actions);
  for (std::uint32_t i = 0; i < stages_.size(); ++i) {
    const planner::PlacedStage& placed = stages_[i].placed;
    actions.push_back(FetchLayers{epoch_, placed.node, StageIndex{i}, placed.layers});
  }
}

// What a restart must know of the first plan, ready or not: which nodes the numbers of --split
// meant, since others may be online by then, and which nodes to wait for.
void Deployment::settle_record(DeploymentActions& actions) {
  if (!record_.home.empty() && record_.options.split.empty()) return;
  if (!record_.options.split.empty()) {
    record_.options.split.clear();
    for (const StageStatus& stage : stages_) {
      const LayerRange layers = stage.placed.layers;
      record_.options.pins[stage.placed.node] = {.layer_count = layers.count(), .layers = layers};
    }
  }
  if (record_.home.empty()) record_.home = home_of_stages();
  persist(actions);
}

std::vector<HomeStage> Deployment::home_of_stages() const {
  std::vector<HomeStage> home;
  for (const StageStatus& stage : stages_) {
    home.push_back({stage.placed.node, stage.placed.name, stage.placed.layers});
  }
  return home;
}

// --- what the nodes do --------------------------------------------------------------------------

DeploymentActions Deployment::fetch_progress(StageRef stage, std::uint64_t done,
                                             std::uint64_t total) {
  if (StageStatus* const status = current(stage, StageState::kFetching)) {
    status->fetch_bytes = total;
    status->fetched_bytes = std::min(done, total);
  }
  return {};
}

DeploymentActions Deployment::fetch_done(StageRef stage) {
  DeploymentActions actions;
  StageStatus* const status = current(stage, StageState::kFetching);
  if (status == nullptr) return actions;
  status->state = StageState::kFetched;
  status->fetched_bytes = status->fetch_bytes;
  if (all_stages(StageState::kFetched)) start_workers(actions);
  return actions;
}

DeploymentActions Deployment::fetch_failed(StageRef stage, std::string_view reason) {
  DeploymentActions actions;
  if (current(stage, StageState::kFetching) == nullptr) return actions;
  fail_try(fmt::format("{} could not get its weights: {}", stage_text(stage), reason), actions);
  return actions;
}

void Deployment::start_workers(DeploymentActions& actions) {
  enter(DeploymentState::kStarting, "", actions);
  for (std::uint32_t i = 0; i < stages_.size(); ++i) {
    const planner::PlacedStage& placed = stages_[i].placed;
    stages_[i].state = StageState::kStarting;
    actions.push_back(StartWorker{epoch_, placed.node, StageIndex{i}, placed.layers});
  }
}

DeploymentActions Deployment::worker_started(StageRef stage, std::vector<std::string> endpoints) {
  DeploymentActions actions;
  StageStatus* const status = current(stage, StageState::kStarting);
  if (status == nullptr) return actions;
  status->state = StageState::kStarted;
  status->endpoints = std::move(endpoints);
  if (all_stages(StageState::kStarted)) load_stages(actions);
  return actions;
}

void Deployment::load_stages(DeploymentActions& actions) {
  enter(DeploymentState::kLoading, "", actions);
  for (std::uint32_t i = 0; i < stages_.size(); ++i) {
    stages_[i].state = StageState::kLoading;
    actions.push_back(LoadStage{epoch_, stages_[i].placed.node, StageIndex{i}});
  }
}

DeploymentActions Deployment::load_progress(StageRef stage, double fraction) {
  if (StageStatus* const status = current(stage, StageState::kLoading)) {
    status->load_fraction = fraction >= 0 && fraction <= 1 ? fraction : 0;  // NaN too
  }
  return {};
}

DeploymentActions Deployment::stage_loaded(StageRef stage) {
  DeploymentActions actions;
  StageStatus* const status = current(stage, StageState::kLoading);
  if (status == nullptr) return actions;
  status->state = StageState::kLoaded;
  status->load_fraction = 1;
  if (all_stages(StageState::kLoaded)) {
    enter(DeploymentState::kLinking, "", actions);
    actions.push_back(ConnectPipeline{epoch_});
  }
  return actions;
}

DeploymentActions Deployment::stage_failed(StageRef stage, StageFailure failure) {
  DeploymentActions actions;
  const bool ours = runs(state_) && stage.epoch == epoch_ && stage.stage.value < stages_.size();
  if (!ours) return actions;
  last_lines_ = std::move(failure.last_lines);
  fail_try(fmt::format("{}: {}", stage_text(stage), failure.reason), actions);
  return actions;
}

DeploymentActions Deployment::pipeline_connected(PlanEpoch epoch) {
  DeploymentActions actions;
  if (state_ != DeploymentState::kLinking || epoch != epoch_) return actions;
  restored_ = false;
  record_.home = home_of_stages();
  persist(actions);
  enter(DeploymentState::kReady, "", actions);
  return actions;
}

DeploymentActions Deployment::link_failed(PlanEpoch epoch, std::string_view reason) {
  DeploymentActions actions;
  if (!runs(state_) || epoch != epoch_) return actions;
  std::string text = fmt::format("a link of the pipeline ({}) failed: {}", names_text(), reason);
  if (state_ != DeploymentState::kReady) {
    fail_try(std::move(text), actions);
  } else if (!symptom_) {
    symptom_ = Symptom{std::move(text), now_ + kCauseWait};
  }
  return actions;
}

DeploymentActions Deployment::stages_stopped(const NodeId& node, PlanEpoch epoch) {
  DeploymentActions actions;
  const auto found = stopping_.find(node);
  if (found != stopping_.end() && found->second == epoch) stopped(node, actions);
  return actions;
}

// --- time ---------------------------------------------------------------------------------------

DeploymentActions Deployment::tick(TimePoint now) {
  DeploymentActions actions;
  forgive_stall(now);
  now_ = std::max(now_, now);
  if (!stopping_.empty() && now_ >= stop_until_) {
    // Whatever still runs there belongs to an old epoch, which nobody listens to any more.
    stopping_.clear();
    all_stopped(actions);
  }
  const Duration here = now_ - entered_;
  if (state_ == DeploymentState::kReady && here >= kStableAfter) failure_count_ = 0;
  if (symptom_ && now_ >= symptom_->until) fail_try(std::string(symptom_->reason), actions);
  if (state_ == DeploymentState::kWaiting && retry_at_ && now_ >= *retry_at_) {
    replan("", actions);
  } else if ((state_ == DeploymentState::kStarting || state_ == DeploymentState::kLinking) &&
             here >= kAnswerWait) {
    fail_try(fmt::format("no answer while {} for {} s", deployment_state_name(state_),
                         std::chrono::duration_cast<std::chrono::seconds>(here).count()),
             actions);
  }
  return actions;
}

// A process that was itself stopped has no right to call others late.
void Deployment::forgive_stall(TimePoint now) {
  const Duration gap = now - now_;
  if (gap <= 2 * kTickPeriod) return;
  entered_ += gap;
  stop_until_ += gap;
  return_until_ += gap;
  if (symptom_) symptom_->until += gap;
}

// --- the machinery ------------------------------------------------------------------------------

void Deployment::enter(DeploymentState state, std::string reason, DeploymentActions& actions) {
  if (state != DeploymentState::kWaiting) retry_at_.reset();
  if (state == state_ && reason == reason_) return;
  if (state != state_) entered_ = now_;
  state_ = state;
  reason_ = std::move(reason);
  actions.push_back(Announce{state_, epoch_, reason_});
}

void Deployment::persist(DeploymentActions& actions) const {
  actions.push_back(PersistDeployment{record_});
}

// Ends everything that the present epoch started; without one there is nothing to end.
void Deployment::stop_all(std::string_view reason, DeploymentActions& actions) {
  symptom_.reset();
  if (epoch_.value == 0) return;
  actions.push_back(FailRequests{epoch_, std::string(reason)});
  for (const StageStatus& stage : stages_) {
    const NodeId& node = stage.placed.node;
    if (!online_.contains(node)) continue;
    stopping_[node] = epoch_;
    actions.push_back(StopStages{epoch_, node});
  }
  stages_.clear();
  epoch_ = PlanEpoch{};
  stop_until_ = now_ + kStopWait;
}

void Deployment::stopped(const NodeId& node, DeploymentActions& actions) {
  if (stopping_.erase(node) > 0 && stopping_.empty()) all_stopped(actions);
}

void Deployment::all_stopped(DeploymentActions& actions) {
  if (state_ == DeploymentState::kUnloading) {
    enter(DeploymentState::kUnloaded, "", actions);
  } else if (state_ == DeploymentState::kPlanning) {
    ask_planner(actions);
  }
}

void Deployment::fail_try(std::string reason, DeploymentActions& actions) {
  ++failure_count_;
  stop_all(reason, actions);
  wait(WaitFor::kPause, now_ + pause_after(failure_count_), std::move(reason), actions);
}

void Deployment::wait(WaitFor what, TimePoint until, std::string reason,
                      DeploymentActions& actions) {
  wait_for_ = what;
  retry_at_ = until;
  enter(DeploymentState::kWaiting, std::move(reason), actions);
}

// To a new plan, once what belongs to the old one has stopped.
void Deployment::replan(std::string reason, DeploymentActions& actions) {
  enter(DeploymentState::kPlanning, std::move(reason), actions);
  if (stopping_.empty()) ask_planner(actions);
}

bool Deployment::all_stages(StageState state) const {
  return std::all_of(stages_.begin(), stages_.end(),
                     [state](const StageStatus& stage) { return stage.state == state; });
}

// The stage that an event is about, if it is of this epoch and in the state that the event ends.
StageStatus* Deployment::current(StageRef stage, StageState expected) {
  if (stage.epoch != epoch_ || stage.stage.value >= stages_.size()) return nullptr;
  StageStatus& status = stages_[stage.stage.value];
  return status.state == expected ? &status : nullptr;
}

bool Deployment::uses(const NodeId& node) const {
  return std::any_of(stages_.begin(), stages_.end(),
                     [&](const StageStatus& stage) { return stage.placed.node == node; });
}

bool Deployment::is_home(const NodeId& node) const {
  return std::any_of(record_.home.begin(), record_.home.end(),
                     [&](const HomeStage& home) { return home.node == node; });
}

std::string Deployment::missing_home() const {
  std::vector<std::string_view> names;
  for (const HomeStage& home : record_.home) {
    if (!online_.contains(home.node)) names.push_back(home.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string Deployment::stage_text(StageRef stage) const {
  const planner::PlacedStage& placed = stages_[stage.stage.value].placed;
  return fmt::format("stage {} on {} (layers {}:{})", stage.stage.value, placed.name,
                     placed.layers.begin, placed.layers.end);
}

// The machines of the pipeline in their order.
std::string Deployment::names_text() const {
  std::vector<std::string_view> names;
  for (const StageStatus& stage : stages_) names.push_back(stage.placed.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

DeploymentStatus Deployment::status() const {
  return {.model = model_,
          .state = state_,
          .wanted = record_.loaded,
          .epoch = epoch_,
          .stages = stages_,
          .left_out = left_out_,
          .reason = reason_,
          .last_lines = last_lines_,
          .failure_count = failure_count_,
          .retry_at = retry_at_};
}

}  // namespace salvage::cluster
