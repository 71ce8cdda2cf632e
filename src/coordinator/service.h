#pragma once

// The Coordinator's implementation, private to this folder. What runs on the loop is marked so; the
// files divide it by subject: service.cc (start, door, links), members.cc, deploy.cc (placing and
// starting), stage_frames.cc (what stages say), spares.cc, layer_log.cc, models.cc, answers.cc.

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/bounded_queue.h"
#include "base/mutex.h"
#include "base/stop.h"
#include "cluster/deployment.h"
#include "cluster/invites.h"
#include "cluster/membership.h"
#include "coordinator/cluster_pipeline.h"
#include "coordinator/coordinator.h"
#include "coordinator/loop.h"
#include "coordinator/node_session.h"
#include "coordinator/recent_rates.h"
#include "model/manifest.h"

namespace salvage::coordinator {

using SessionPtr = std::shared_ptr<NodeSession>;

// A model that is, was or shall be loaded.
struct Entry {
  Entry(ModelId id, std::set<NodeId> online, TimePoint now)
      : deployment(std::move(id), std::move(online), now) {}

  cluster::Deployment deployment;
  std::string model_name;
  std::string token;  // of the present epoch's links
  struct Stage {
    std::string node;  // its name
    std::string local_endpoint;
    std::vector<std::string> endpoints;
    std::optional<wire::StageLoaded> loaded;
    std::optional<StageCounters> counters;
    RecentRates recent;
  };
  std::map<StageIndex, Stage> stages;  // of the present epoch
  std::shared_ptr<ClusterPipeline> pipeline;
  RecentRates sent;      // by us, to the first stage
  bool serving = false;  // was announced as ready, and as nothing else since
};

// Who may open the data link that brings the results of one epoch.
struct ResultsDoor {
  std::string token;
  NodeId last_node;
  std::shared_ptr<BoundedQueue<std::unique_ptr<transport::Connection>>> arrived;
};

class Service final : public Coordinator {
 public:
  Service(CoordinatorOptions options, const Parts& parts);
  ~Service() override;
  Result<void> restore();

  pipeline::Terms terms(const wire::Hello& hello, const transport::Connection& connection) override;
  void admit(std::unique_ptr<transport::Connection> connection, const wire::Hello& hello) override;
  bool admits(const NodeId& node) const override;

  ClusterInfo cluster() override;
  Result<OpenInvite> invite(const InviteOptions& options) override;
  std::vector<cluster::Invite> invites() override;
  Result<void> revoke_invite(const std::string& id) override;
  bool any_invite_open() override;
  bool may_download(std::string_view invite_id, std::string_view token) override;
  Result<std::string> rename(const std::string& node, const std::string& name) override;
  Result<void> remove(const std::string& node) override;

  std::vector<ModelInfo> models() override;
  Result<ModelId> resolve_model(const std::string& name) override;
  Result<void> load(const LoadWish& wish) override;
  Result<void> unload(const ModelId& model) override;
  Result<void> remove_model(const ModelId& model) override;
  std::vector<DeploymentInfo> deployments() override;

  Result<ReadyPipeline> ready(const std::string& model) override;

 private:
  // --- service.cc: links ---
  void serve_node(std::unique_ptr<transport::Connection> connection, const wire::Hello& hello);
  Result<void> read_node(const SessionPtr& session);
  void take_frame(const SessionPtr& session, wire::FrameHeader header,
                  std::vector<std::byte> body);  // loop
  Result<void> take_node_frame(const SessionPtr& session, const wire::FrameHeader& header,
                               std::span<const std::byte> body);  // loop
  void tick();                                                    // loop
  pipeline::Terms terms_of_data(const wire::Hello& hello,
                                const transport::Connection& connection) const;
  SessionPtr session_of(const NodeId& node) const;  // loop
  template <typename Message>
  bool send_to(const NodeId& node, const Message& message, PlanEpoch epoch = {}) {  // loop
    const SessionPtr session = session_of(node);
    return session && session->send(message, epoch).has_value();
  }
  void tell(ClusterEvent event) const;

  // --- members.cc ---
  void serve_join(transport::Connection& connection);
  wire::JoinReply join(const wire::JoinRequest& request,
                       const transport::PeerIdentity& peer);  // loop
  Result<wire::JoinReply> redeem(const wire::JoinRequest& request,
                                 const transport::PeerIdentity& peer);  // loop
  void act(const cluster::MembershipActions& actions);                  // loop
  void act_on(const cluster::AcceptLink& action);
  void act_on(const cluster::RefuseLink& action);
  void act_on(const cluster::CloseLink& action);
  void act_on(const cluster::SendPing& action);
  void act_on(const cluster::PublishView& action);
  void act_on(const cluster::PersistMember& action);
  void act_on(const cluster::ForgetMember& action);
  void act_on(const cluster::NodeOnline& action);
  void act_on(const cluster::NodeLost& action);
  std::string name_of(const NodeId& node) const;  // loop
  wire::ClusterView wire_view(const cluster::ClusterView& view) const;
  Result<cluster::MembershipActions> grant(const SessionPtr& session,
                                           const wire::MemberRequest& request);  // loop
  Result<void> take_member_request(const SessionPtr& session, std::span<const std::byte> body);
  Result<void> take_status(const SessionPtr& session, std::span<const std::byte> body);
  Result<void> restore_members();

  // --- deploy.cc ---
  using Actions = cluster::DeploymentActions;
  using DeploymentEvent = std::function<Actions(cluster::Deployment&)>;
  struct Plan {
    PlanEpoch epoch;
    planner::Placement placement;
    std::string token;
  };
  void act(Entry& entry, const Actions& actions);         // loop
  void later(const Entry& entry, DeploymentEvent event);  // loop
  Result<Plan> make_plan(const Entry& entry, const cluster::MakePlan& action);
  void act_on(Entry& entry, const cluster::MakePlan& action);
  void act_on(Entry& entry, const cluster::FetchLayers& action);
  void act_on(Entry& entry, const cluster::StartWorker& action);
  void act_on(Entry& entry, const cluster::LoadStage& action);
  void act_on(Entry& entry, const cluster::ConnectPipeline& action);
  void act_on(Entry& entry, const cluster::StopStages& action);
  void act_on(Entry& entry, const cluster::FailRequests& action);
  void act_on(Entry& entry, const cluster::Announce& action);
  void act_on(Entry& entry, const cluster::PersistDeployment& action);
  Result<planner::Placement> make_placement(const Entry& entry, const cluster::MakePlan& action);
  planner::NodeRoom room_of(const cluster::Member& member) const;
  planner::LayersByNode held_layers(const ModelId& model) const;
  Result<PipelineOrder> pipeline_order(Entry& entry);
  void connect(const ModelId& model, PipelineOrder order, const ResultsDoor& door);
  std::vector<std::string> worker_endpoints(const Entry& entry, std::uint32_t stage) const;
  std::vector<std::string> addresses_of(const NodeId& node, std::uint16_t port) const;
  Result<wire::LoadStage> load_order(const Entry& entry, std::uint32_t stage) const;
  void open_results(const Entry& entry, PlanEpoch epoch, const NodeId& last);
  void forget_epoch(Entry& entry);
  Result<void> restore_deployments();

  // --- layer_log.cc ---
  void log_layers(const Entry& entry) const;
  void log_work(const Entry& entry) const;

  // --- spares.cc ---
  // What a node has of a model; our own store is asked itself.
  std::set<PieceDigest> pieces_of(const NodeId& node, const ModelId& model) const;  // loop
  wire::FetchOrder fetch_order(const ModelId& model, LayerRange layers) const;      // loop
  void order_spares(const Entry& entry);                                            // loop
  void order_catalogue(const ModelId& model);                                       // loop
  void catalogue_ended(const ModelId& model, const wire::FetchProgress& said);      // loop

  // --- stage_frames.cc ---
  Result<void> take_stage_frame(const SessionPtr& session, const wire::FrameHeader& header,
                                std::span<const std::byte> body);  // loop
  Result<void> take_fetch(const SessionPtr& session, std::span<const std::byte> body);
  Result<void> take_inventory(const SessionPtr& session, std::span<const std::byte> body);
  Entry* entry_of(PlanEpoch epoch);
  std::optional<cluster::StageRef> stage_of(const Entry& entry, PlanEpoch epoch,
                                            const NodeId& node) const;

  // --- models.cc ---
  Result<std::shared_ptr<const model::Manifest>> manifest(const ModelId& model);  // loop
  Result<engine::TextTools> text_of(const ModelId& model);                        // loop
  ModelInfo info_of(const model::CatalogueEntry& entry);
  DeploymentInfo info_of(const Entry& entry) const;
  std::vector<LinkInfo> links_of(const Entry& entry) const;
  Entry& entry_for(const ModelId& model);  // loop
  Result<cluster::DeploymentOptions> options_of(const LoadWish& wish);

  // --- answers.cc ---
  Result<ReadyPipeline> ready_pipeline(const std::string& model);  // loop

  const CoordinatorOptions options_;
  const Parts parts_;

  mutable Mutex mutex_;
  std::set<NodeId> admitted_ GUARDED_BY(mutex_);
  std::map<PlanEpoch, ResultsDoor> results_ GUARDED_BY(mutex_);
  std::set<transport::Connection*> joining_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::atomic<std::uint64_t> next_link_ = 1;

  // The loop's.
  int acting_ = 0;                           // actions being carried out, nested
  std::deque<std::function<void()>> later_;  // what came of them
  std::optional<cluster::Membership> membership_;
  cluster::Invites invites_;
  bool ended_ = false;  // links that come now are too late
  TimePoint next_membership_tick_{};
  std::map<cluster::LinkId, SessionPtr> sessions_;
  std::map<ModelId, std::unique_ptr<Entry>> entries_;
  std::map<NodeId, std::string> names_;  // of members and of those that were some
  std::map<NodeId, std::map<ModelId, std::set<PieceDigest>>> inventories_;  // of other machines
  std::set<ModelId> catalogues_ordered_;  // by our own agent, not answered yet
  std::map<ModelId, std::shared_ptr<const model::Manifest>> manifests_;
  std::map<ModelId, engine::TextTools> texts_;

  Gate connecting_;  // threads that connect pipelines, and links being served
  Loop loop_;
};

}  // namespace salvage::coordinator
