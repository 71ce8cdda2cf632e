#pragma once

// A machine's part in a cluster: keeps the link to the coordinator, tells what this machine has,
// fetches what it is told to fetch, runs the stages that it is given, gives out weights to other
// members. It decides nothing; when the coordinator is gone, its stages end and what is on disk
// stays.
//
// Threads: the node link's, one per stage, one per fetch, the door's for weights links. Public
// methods from any thread.
// Lifetime: what is passed in by reference outlives the object; the destructor ends links, fetches
// and stages and waits for them, some two seconds.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/blob_server.h"
#include "agent/fetch_job.h"
#include "agent/node_link.h"
#include "agent/pacer.h"
#include "agent/stage_runner.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "identity/node_identity.h"
#include "store/piece_store.h"
#include "transport/transport.h"
#include "wire/cluster.h"

namespace salvage::agent {

struct NodeAgentOptions {
  std::string executable;
  std::string llama_pin;
  std::string kernel_fingerprint;
  std::uint32_t wire_version = wire::kWireVersion;
  identity::NodeIdentity identity;
  NodeId coordinator;
  std::uint32_t threads = 1;  // of a stage whose order leaves it to us
  std::uint16_t stage_port_first = 7421;
  std::uint16_t stage_port_count = 16;
};

struct NodeAgentEvents {
  // Where to dial the coordinator, best first, asked before each try.
  std::function<std::vector<transport::Endpoint>()> coordinator_addresses;
  // This machine's facts right now; name, addresses and view version included.
  std::function<wire::NodeFacts()> facts;
  std::function<wire::NodeStatus()> status;
  // A newer view of the cluster. Links of nodes that are not in it any more are to be ended.
  std::function<void(const wire::ClusterView&)> view;
  std::function<void()> link_up;
  // The link ended or could not be made: for people, with the time of the next try.
  std::function<void(const Error&, Duration retry_in)> link_down;
  // The coordinator doesn't want this node: removed, unknown, or its identity is in use elsewhere.
  std::function<void(const Error&)> refused;
};

class NodeAgent {
 public:
  NodeAgent(NodeAgentOptions options, NodeAgentEvents events, store::PieceStore& store,
            transport::Transport& transport, const Clock& clock);
  ~NodeAgent();
  NodeAgent(const NodeAgent&) = delete;
  NodeAgent& operator=(const NodeAgent&) = delete;

  // A link of role weights that the door let in; returns when it ends.
  void serve_weights(std::unique_ptr<transport::Connection> connection);
  // Before the door closes: its callbacks must return.
  void stop_serving();

  // One of a member's kinds (wire/cluster.h): asks the coordinator and waits for its answer.
  // Requests follow one another.
  Result<void> request(const wire::MemberRequest& request, TimePoint deadline) EXCLUDES(asking_);
  // Tells the coordinator that this process ends, and waits a moment for it to have heard. Nothing
  // comes from the coordinator afterwards.
  void say_goodbye();
  bool connected() const { return link_ && link_->connected(); }
  void retry_now();
  // Something of facts() or of the store's inventory has changed: tells the coordinator.
  void facts_changed();
  void inventory_changed(const ModelId& model);

 private:
  using StageKey = std::pair<PlanEpoch, StageIndex>;
  struct Stage {
    std::unique_ptr<StageRunner> runner;
    std::uint64_t steps = 0;  // as its worker counted last
  };

  Result<void> exchange(const wire::MemberRequest& request, TimePoint deadline);
  wire::NodeFacts on_link_up();
  void on_link_down(const Error& error, Duration retry_in);
  Result<void> take(const transport::IncomingFrame& frame);
  Result<void> take_stage_frame(const transport::IncomingFrame& frame);
  Result<void> take_view(const transport::IncomingFrame& frame);
  Result<void> take_reply(const transport::IncomingFrame& frame);
  Result<void> take_request(const wire::MemberRequest& request);
  void fetch(const wire::FetchOrder& order);
  std::vector<std::unique_ptr<FetchJob>> take_ended_fetches() REQUIRES(mutex_);
  void start_stage(const wire::StartStage& order);
  void load_stage(wire::LoadStage order);
  void stop_epoch(PlanEpoch epoch);
  void stop_all();
  StageEvents events_for(const wire::StartStage& order);
  void take_stats(StageKey key, const wire::Stats& stats);
  void remember_files(PlanEpoch epoch, const store::StageFiles& files);
  void announce_inventories();
  void status_loop();
  // What a plan made this machine do, taken out to be ended.
  struct Work {
    std::vector<Stage> stages;
    std::vector<std::unique_ptr<FetchJob>> fetches;
  };
  Work take_out(PlanEpoch epoch) EXCLUDES(mutex_);
  void end_later(Work work, std::function<void()> ended);

  const NodeAgentOptions options_;
  const NodeAgentEvents events_;
  store::PieceStore& store_;
  transport::Transport& transport_;
  const Clock& clock_;
  Pacer pacer_;
  BlobServer blobs_;

  Mutex asking_;  // one request at a time; taken before mutex_
  Mutex mutex_;
  Condition replied_;
  std::map<StageKey, Stage> stages_ GUARDED_BY(mutex_);
  std::map<PlanEpoch, store::StageFiles> files_ GUARDED_BY(mutex_);
  std::multimap<PlanEpoch, std::unique_ptr<FetchJob>> fetches_ GUARDED_BY(mutex_);
  std::uint64_t view_version_ GUARDED_BY(mutex_) = 0;
  std::optional<wire::MemberReply> reply_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  Condition status_wake_;

  Gate enders_;  // threads that end stages
  std::thread status_thread_;
  std::unique_ptr<NodeLink> link_;  // stopped first: its events use the rest
};

}  // namespace salvage::agent
