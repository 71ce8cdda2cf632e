#pragma once

// One model that is loaded, or shall be, over several nodes: from the plan to the ready pipeline,
// and back there after whatever fails. A pure state machine: events in, actions out; no clock
// (tick() brings the time), no thread, no socket. One thread owns it and carries out the actions in
// their order; an event that arises from one (a node that can't be told) waits until all are done.
//
//   unloaded -> planning -> fetching -> starting -> loading -> linking -> ready
//                  ^                                                        |
//                  '---- waiting <---- anything that fails, a node lost ----'
//
// Every plan has an epoch of its own, given in with it; an event of another epoch changes nothing.
// Before a new plan is made, all that was started for the old one has been stopped, or its node is
// lost, or kStopWait is over.
// Failures of workers, fetches and links pause the next try: 1 s, doubled up to kPauseMax,
// forgotten after kStableAfter of ready. When a node is lost, what runs on it can go elsewhere at
// once if the others have its layers; otherwise it is given kReturnWait to come back, before
// weights move. While a plan is being carried out no time limit counts as long as a node lives:
// loading may take as long as it takes. Only answers that need no work have one (kAnswerWait).

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "cluster/deployment_options.h"
#include "cluster/liveness.h"
#include "planner/placement.h"

namespace salvage::cluster {

inline constexpr Duration kPauseMin = std::chrono::seconds(1);
inline constexpr Duration kPauseMax = std::chrono::seconds(60);
inline constexpr Duration kStableAfter = std::chrono::seconds(60);
inline constexpr Duration kReturnWait = std::chrono::seconds(30);
inline constexpr Duration kStopWait = std::chrono::seconds(10);
// A link breaks before anybody has seen which process behind it died.
inline constexpr Duration kCauseWait = std::chrono::seconds(1);
inline constexpr Duration kAnswerWait = std::chrono::seconds(60);  // starting and linking

enum class DeploymentState {
  kUnloaded,
  kPlanning,
  kFetching,
  kStarting,
  kLoading,
  kLinking,
  kReady,
  kWaiting,    // for a pause to end, or for a node
  kUnloading,  // stages are being stopped
};
std::string_view deployment_state_name(DeploymentState state);  // "unloaded", ...

enum class StageState { kFetching, kFetched, kStarting, kStarted, kLoading, kLoaded };
std::string_view stage_state_name(StageState state);

struct StageStatus {
  planner::PlacedStage placed;
  StageState state = StageState::kFetching;
  std::uint64_t fetched_bytes = 0;
  std::uint64_t fetch_bytes = 0;  // as the node counts them; 0 until it says so
  double load_fraction = 0;
  std::vector<std::string> endpoints;  // where the worker listens
};

struct DeploymentStatus {
  ModelId model;
  DeploymentState state = DeploymentState::kUnloaded;
  bool wanted = false;
  PlanEpoch epoch;                  // 0: none
  std::vector<StageStatus> stages;  // of that epoch; empty if none is under way
  std::vector<planner::LeftOut> left_out;
  std::string reason;               // what it waits for, or why the last try failed
  std::string last_lines;           // of the worker that failed last
  std::uint32_t failure_count = 0;  // in a row
  std::optional<TimePoint> retry_at;
};

// --- actions, to be carried out in order ---
struct MakePlan {  // Answer with planned() or plan_failed(). `nodes` are online; local first is
                   // yours.
  std::set<NodeId> nodes;
  DeploymentOptions options;
  planner::LayersByNode current;  // the home of each layer
  bool keep = false;
};
struct FetchLayers {  // Answer with fetch_progress(), fetch_done(), fetch_failed().
  PlanEpoch epoch;
  NodeId node;
  StageIndex stage;
  LayerRange layers;
};
struct StartWorker {  // Answer with worker_started() or stage_failed().
  PlanEpoch epoch;
  NodeId node;
  StageIndex stage;
  LayerRange layers;
};
struct LoadStage {  // Answer with load_progress(), stage_loaded() or stage_failed().
  PlanEpoch epoch;
  NodeId node;
  StageIndex stage;
};
struct ConnectPipeline {  // Answer with pipeline_connected() or link_failed().
  PlanEpoch epoch;
};
struct StopStages {  // All that the node does for this epoch, fetches too. Answer:
                     // stages_stopped().
  PlanEpoch epoch;
  NodeId node;
};
struct FailRequests {  // End all live requests of this epoch.
  PlanEpoch epoch;
  std::string reason;
};
struct Announce {  // The status changed in more than progress.
  DeploymentState state = DeploymentState::kUnloaded;
  PlanEpoch epoch;
  std::string reason;
};
struct PersistDeployment {
  DeploymentRecord record;
};
using DeploymentAction =
    std::variant<MakePlan, FetchLayers, StartWorker, LoadStage, ConnectPipeline, StopStages,
                 FailRequests, Announce, PersistDeployment>;
using DeploymentActions = std::vector<DeploymentAction>;

struct StageRef {
  PlanEpoch epoch;
  StageIndex stage;
};
struct StageFailure {
  std::string reason;      // "exited with code 1", "killed by signal 9", "no room for the KV cache"
  std::string last_lines;  // what the worker wrote last
};

class Deployment {
 public:
  Deployment(ModelId model, std::set<NodeId> online, TimePoint now);

  // --- the user ---
  // Makes the model resident with these options; what runs with others is stopped first.
  DeploymentActions load(DeploymentOptions options);
  DeploymentActions unload();
  // What was persisted, after a start of the coordinator: nodes get kReturnWait to come back.
  DeploymentActions restore(DeploymentRecord record);

  // --- nodes ---
  DeploymentActions node_online(const NodeId& node);
  // `for_good`: it left or was removed, so nothing waits for it and nothing is pinned any more if
  // something was pinned to it. Also for a node that was not online.
  DeploymentActions node_lost(const NodeId& node, std::string_view reason, bool for_good = false);

  // --- the planner ---
  // `epoch` is higher than every one before it, of all deployments.
  DeploymentActions planned(PlanEpoch epoch, planner::Placement placement);
  // A wish that can't be fulfilled (invalid_argument, unsupported, not_found) by a load() that
  // never was ready ends it: unloaded. Everything else waits and tries again.
  DeploymentActions plan_failed(const Error& error);

  // --- what the nodes do ---
  DeploymentActions fetch_progress(StageRef stage, std::uint64_t done, std::uint64_t total);
  DeploymentActions fetch_done(StageRef stage);
  DeploymentActions fetch_failed(StageRef stage, std::string_view reason);
  DeploymentActions worker_started(StageRef stage, std::vector<std::string> endpoints);
  DeploymentActions load_progress(StageRef stage, double fraction);
  DeploymentActions stage_loaded(StageRef stage);
  // A worker that could not start or load, or that died, at whatever time.
  DeploymentActions stage_failed(StageRef stage, StageFailure failure);
  DeploymentActions pipeline_connected(PlanEpoch epoch);
  // A link of the coordinator's own. Of a ready pipeline it is a symptom: what stage_failed() or
  // node_lost() say within kCauseWait is given as the reason, and the link's end only otherwise.
  DeploymentActions link_failed(PlanEpoch epoch, std::string_view reason);
  DeploymentActions stages_stopped(const NodeId& node, PlanEpoch epoch);

  DeploymentActions tick(TimePoint now);

  DeploymentStatus status() const;
  DeploymentState state() const { return state_; }
  PlanEpoch epoch() const { return epoch_; }
  bool wanted() const { return record_.loaded; }
  bool uses(const NodeId& node) const;
  const DeploymentRecord& record() const { return record_; }

 private:
  // Does a node that comes online end the wait, or only its time?
  enum class WaitFor { kPause, kNode };

  void enter(DeploymentState state, std::string reason, DeploymentActions& actions);
  void persist(DeploymentActions& actions) const;
  void stop_all(std::string_view reason, DeploymentActions& actions);
  void stopped(const NodeId& node, DeploymentActions& actions);
  void all_stopped(DeploymentActions& actions);
  void fail_try(std::string reason, DeploymentActions& actions);
  void wait(WaitFor what, TimePoint until, std::string reason, DeploymentActions& actions);
  void replan(std::string reason, DeploymentActions& actions);
  void ask_planner(DeploymentActions& actions);
  bool plan_wanted();
  void carry_out(PlanEpoch epoch, planner::Placement placement, DeploymentActions& actions);
  void forget(const NodeId& node, DeploymentActions& actions);
  void settle_record(DeploymentActions& actions);
  std::vector<HomeStage> home_of_stages() const;
  bool waits_for_home(const planner::Placement& placement, DeploymentActions& actions);
  void start_workers(DeploymentActions& actions);
  void load_stages(DeploymentActions& actions);
  void forgive_stall(TimePoint now);
  bool all_stages(StageState state) const;
  StageStatus* current(StageRef stage, StageState expected);
  bool is_home(const NodeId& node) const;
  std::string missing_home() const;  // names; empty if none is missing
  std::string stage_text(StageRef stage) const;
  std::string names_text() const;

  ModelId model_;
  DeploymentState state_ = DeploymentState::kUnloaded;
  DeploymentRecord record_;
  std::set<NodeId> online_;
  PlanEpoch epoch_;
  PlanEpoch highest_epoch_;
  std::vector<StageStatus> stages_;
  std::vector<planner::LeftOut> left_out_;
  std::map<NodeId, PlanEpoch> stopping_;  // nodes that have not said yet that they stopped
  std::string reason_;
  std::string last_lines_;
  std::uint32_t failure_count_ = 0;
  bool plan_under_way_ = false;  // MakePlan went out and was not answered
  bool plan_outdated_ = false;   // and its answer will not do any more
  bool first_try_ = false;       // of a load() by the user
  bool restored_ = false;        // by restore(), and not ready since
  TimePoint now_;
  TimePoint entered_;       // the present state, at
  TimePoint stop_until_;    // nodes that stop are waited for until then
  TimePoint return_until_;  // lost nodes are waited for until then
  struct Symptom {
    std::string reason;
    TimePoint until;  // a cause is waited for
  };
  std::optional<Symptom> symptom_;  // only while ready
  WaitFor wait_for_ = WaitFor::kPause;
  std::optional<TimePoint> retry_at_;
};

}  // namespace salvage::cluster
