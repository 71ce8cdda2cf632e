// What a deployment's state machine wants done: places, fetches, starts, loads and connects.

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/random.h"
#include "coordinator/service.h"
#include "planner/placement.h"

namespace salvage::coordinator {
namespace {

using std::chrono::seconds;

constexpr Logger kLog("deploy");
constexpr std::size_t kTokenBytes = 32;
constexpr auto kResultsTime = seconds(30);
// Between stages: one in work, one waiting.
constexpr std::uint32_t kStageCredits = 2;

// "tls:[::]:7421" -> 7421
Result<std::uint16_t> port_of(const std::string& endpoint) {
  ASSIGN_OR_RETURN(const transport::Endpoint parsed, transport::parse_endpoint(endpoint));
  return parsed.port;
}

// The layers of a model whose pieces are among `has`, as ranges.
std::vector<LayerRange> layers_among(std::span<const model::PieceEntry> pieces,
                                     const std::set<PieceDigest>& has) {
  std::vector<LayerRange> ranges;
  std::uint32_t layer = 0;
  for (const model::PieceEntry& piece : pieces) {
    if (!piece.name.starts_with("layer ")) continue;
    if (has.contains(piece.digest)) {
      if (ranges.empty() || ranges.back().end != layer) ranges.push_back({layer, layer});
      ++ranges.back().end;
    }
    ++layer;
  }
  return ranges;
}

StageIndex index_of(std::size_t stage) {
  return {static_cast<std::uint32_t>(stage)};
}

}  // namespace

void Service::act(Entry& entry, const Actions& actions) {
  ++acting_;
  for (const auto& action : actions) {
    std::visit([&](const auto& one) { act_on(entry, one); }, action);
  }
  --acting_;
  while (acting_ == 0 && !later_.empty()) {
    const auto event = std::move(later_.front());
    later_.pop_front();
    event();
  }
}

// What comes of carrying out an action is an event of its own, and comes when all actions are done.
void Service::later(const Entry& entry, DeploymentEvent event) {
  later_.push_back([this, model = entry.deployment.status().model, event = std::move(event)] {
    const auto found = entries_.find(model);
    if (found != entries_.end()) act(*found->second, event(found->second->deployment));
  });
}

// --- placing -------------------------------------------------------------------------------------

void Service::act_on(Entry& entry, const cluster::MakePlan& action) {
  auto plan = make_plan(entry, action);
  if (!plan) {
    return later(entry, [error = plan.error()](cluster::Deployment& deployment) {
      return deployment.plan_failed(error);
    });
  }
  forget_epoch(entry);
  entry.token = plan->token;
  later(entry, [plan = std::move(*plan)](cluster::Deployment& deployment) {
    return deployment.planned(plan.epoch, plan.placement);
  });
}

Result<Service::Plan> Service::make_plan(const Entry& entry, const cluster::MakePlan& action) {
  Plan plan;
  ASSIGN_OR_RETURN(plan.placement, make_placement(entry, action));
  ASSIGN_OR_RETURN(plan.epoch.value, parts_.state.next(state::Counter::kPlanEpoch));
  ASSIGN_OR_RETURN(plan.token, random_hex(kTokenBytes));
  return plan;
}

Result<planner::Placement> Service::make_placement(const Entry& entry,
                                                   const cluster::MakePlan& action) {
  const ModelId& model = entry.deployment.status().model;
  ASSIGN_OR_RETURN(const auto manifest, this->manifest(model));
  planner::PlacementRequest request = cluster::to_placement_request(action.options);
  const cluster::Member* self = membership_->find(options_.self);
  if (self != nullptr && action.nodes.contains(self->node)) request.nodes.push_back(room_of(*self));
  for (const NodeId& node : membership_->online()) {
    const cluster::Member* member = membership_->find(node);
    if (member == nullptr || node == options_.self || !action.nodes.contains(node)) continue;
    request.nodes.push_back(room_of(*member));
  }
  for (const auto& [node, pin] : action.options.pins) request.names[node] = name_of(node);
  request.held = held_layers(model);
  request.current = action.current;
  request.keep = action.keep;
  request.need.checkpoint_count =
      planner::checkpoints_wanted(*manifest, action.options.sequence_count);
  return planner::place(*manifest, request);
}

planner::NodeRoom Service::room_of(const cluster::Member& member) const {
  return {.node = member.node,
          .name = member.name,
          .memory_bytes = member.facts.memory_free_bytes,
          .reserve_bytes = std::nullopt,
          .disk_bytes = member.facts.disk_free_bytes};
}

// Which whole layers each node has on its disk.
planner::LayersByNode Service::held_layers(const ModelId& model) const {
  planner::LayersByNode held;
  const auto entry = parts_.store.entry(model);
  if (!entry) return held;
  for (const NodeId& node : membership_->online()) {
    auto ranges = layers_among(entry->pieces, pieces_of(node, model));
    if (!ranges.empty()) held[node] = std::move(ranges);
  }
  return held;
}

// --- fetching ------------------------------------------------------------------------------------

void Service::act_on(Entry& entry, const cluster::FetchLayers& action) {
  wire::FetchOrder order = fetch_order(entry.deployment.status().model, action.layers);
  order.epoch = action.epoch.value;
  if (send_to(action.node, order, action.epoch)) return;
  later(entry, [stage = cluster::StageRef{action.epoch, action.stage}](auto& deployment) {
    return deployment.fetch_failed(stage, "the node can't be reached");
  });
}

// --- starting and loading ------------------------------------------------------------------------

void Service::act_on(Entry& entry, const cluster::StartWorker& action) {
  const auto status = entry.deployment.status();
  const NodeId& before = action.stage.value == 0
                             ? options_.self
                             : status.stages.at(action.stage.value - 1).placed.node;
  const wire::StartStage order{.epoch = action.epoch.value,
                               .stage_index = action.stage.value,
                               .model = status.model.value,
                               .layer_begin = action.layers.begin,
                               .layer_end = action.layers.end,
                               .token = entry.token,
                               .remote = before != action.node};
  if (send_to(action.node, order, action.epoch)) return;
  later(entry, [stage = cluster::StageRef{action.epoch, action.stage}](auto& deployment) {
    return deployment.stage_failed(stage, {"the node can't be reached", ""});
  });
}

void Service::act_on(Entry& entry, const cluster::LoadStage& action) {
  const auto status = entry.deployment.status();
  if (action.stage.value + 1 == status.stages.size()) {
    open_results(entry, action.epoch, action.node);
  }
  const auto order = load_order(entry, action.stage.value);
  if (order && send_to(action.node, *order, action.epoch)) return;
  const std::string why = order ? "the node can't be reached" : order.error().message();
  later(entry, [stage = cluster::StageRef{action.epoch, action.stage}, why](auto& deployment) {
    return deployment.stage_failed(stage, {why, ""});
  });
}

Result<wire::LoadStage> Service::load_order(const Entry& entry, std::uint32_t stage) const {
  const auto status = entry.deployment.status();
  const cluster::DeploymentOptions& wish = entry.deployment.record().options;
  const auto count = static_cast<std::uint32_t>(status.stages.size());
  wire::LoadStage order;
  order.epoch = status.epoch.value;
  order.stage_index = stage;
  order.stage_count = count;
  order.context_per_sequence = wish.context_per_sequence;
  order.sequence_count_max = wish.sequence_count;
  order.rows_max = wish.rows_max;
  order.logit_rows_max = wish.logit_rows_max;
  order.thread_count = wish.thread_count;
  order.cache_type_k = cache_type_name(wish.cache_type_k);
  order.cache_type_v = cache_type_name(wish.cache_type_v);
  order.exact = wish.exact;
  order.checkpoint_count = status.stages.at(stage).placed.checkpoint_count;
  ASSIGN_OR_RETURN(order.hidden_type, wire::parse_hidden_type(wish.hidden_type));
  // Stage 0 is granted all that the scheduler may have under way, so sending to it never blocks.
  order.credits = stage == 0 ? pipeline::in_flight_max(count) : kStageCredits;
  const NodeId& node = status.stages.at(stage).placed.node;
  const NodeId& before = stage == 0 ? options_.self : status.stages.at(stage - 1).placed.node;
  if (before != node) order.upstream_node = before.value;
  std::vector<std::string> next;
  if (stage + 1 == count) {
    next = node == options_.self
               ? std::vector{fmt::format("tls:127.0.0.1:{}/{}", options_.port, node.value)}
               : addresses_of(options_.self, options_.port);
  } else if (status.stages.at(stage + 1).placed.node == node) {
    next = {entry.stages.at(index_of(stage + 1)).local_endpoint};
  } else {
    next = worker_endpoints(entry, stage + 1);
  }
  if (next.empty()) return fail(ErrorCode::kUnavailable, "the next stage has no address");
  order.next_endpoint = next.front();
  order.next_endpoints.assign(next.begin() + 1, next.end());
  return order;
}

// The addresses of its node with the port on which the worker itself listens.
std::vector<std::string> Service::worker_endpoints(const Entry& entry, std::uint32_t stage) const {
  const auto status = entry.deployment.status();
  const auto known = entry.stages.find(index_of(stage));
  if (known == entry.stages.end() || known->second.endpoints.empty()) return {};
  const auto port = port_of(known->second.endpoints.front());
  return port ? addresses_of(status.stages.at(stage).placed.node, *port)
              : std::vector<std::string>{};
}

// Where a node is, with another port than its door's unless `port` is 0.
std::vector<std::string> Service::addresses_of(const NodeId& node, std::uint16_t port) const {
  std::vector<std::string> endpoints;
  const cluster::Member* member = membership_->find(node);
  if (member == nullptr) return endpoints;
  for (const cluster::NodeAddress& address : member->facts.addresses) {
    auto parsed = transport::parse_endpoint(address.endpoint);
    if (!parsed || !transport::is_tls(parsed->kind)) continue;
    if (port != 0) parsed->port = port;
    parsed->node = node;
    endpoints.push_back(transport::to_string(*parsed));
  }
  return endpoints;
}

// --- connecting ----------------------------------------------------------------------------------

void Service::open_results(const Entry& entry, PlanEpoch epoch, const NodeId& last) {
  MutexLock lock(mutex_);
  results_[epoch] = {entry.token, last,
                     std::make_shared<BoundedQueue<std::unique_ptr<transport::Connection>>>(1)};
}

void Service::act_on(Entry& entry, const cluster::ConnectPipeline& action) {
  auto order = pipeline_order(entry);
  std::optional<ResultsDoor> door;
  {
    MutexLock lock(mutex_);
    const auto found = results_.find(action.epoch);
    if (found != results_.end()) door = found->second;
  }
  if (order && door) {
    return connect(entry.deployment.status().model, std::move(*order), *door);
  }
  later(entry,
        [epoch = action.epoch, why = order ? "no results are expected" : order.error().message()](
            auto& deployment) { return deployment.link_failed(epoch, why); });
}

Result<PipelineOrder> Service::pipeline_order(Entry& entry) {
  const auto status = entry.deployment.status();
  const cluster::DeploymentOptions& wish = entry.deployment.record().options;
  PipelineOrder order;
  order.epoch = status.epoch;
  order.hello.wire_version = options_.wire_version;
  order.hello.llama_pin = options_.llama_pin;
  order.hello.kernel_fingerprint = options_.kernel_fingerprint;
  order.hello.role = wire::LinkRole::kData;
  order.hello.epoch = status.epoch.value;
  order.hello.auth_token = entry.token;
  const bool local = status.stages.front().placed.node == options_.self;
  const auto first =
      local ? std::vector{entry.stages.at(index_of(0)).local_endpoint} : worker_endpoints(entry, 0);
  for (const std::string& text : first) {
    ASSIGN_OR_RETURN(order.first.emplace_back(), transport::parse_endpoint(text));
  }
  std::vector<pipeline::StageAbility> abilities;
  for (const auto& [index, stage] : entry.stages) {
    if (!stage.loaded) return fail(ErrorCode::kInternal, "a stage without facts");
    abilities.push_back({stage.loaded->can_trim, stage.loaded->rows_exact_max,
                         stage.loaded->checkpoint_count, stage.loaded->can_skip});
  }
  order.limits =
      pipeline::scheduler_limits({.stage_count = static_cast<std::uint32_t>(status.stages.size()),
                                  .sequence_count = wish.sequence_count,
                                  .context_per_sequence = wish.context_per_sequence,
                                  .rows_max = wish.rows_max,
                                  .logit_rows_max = wish.logit_rows_max,
                                  .exact = wish.exact},
                                 abilities);
  order.limits.chunk_rows = wish.chunk_rows;
  order.position_planes = entry.stages.begin()->second.loaded->position_planes;
  order.vocabulary_size = entry.stages.rbegin()->second.loaded->vocabulary_size;
  ASSIGN_OR_RETURN(order.text, text_of(status.model));
  order.broken = [this, model = status.model, epoch = status.epoch](const Error& error) {
    (void)loop_.post([this, model, epoch, why = error.message()] {
      const auto found = entries_.find(model);
      if (found != entries_.end()) {
        act(*found->second, found->second->deployment.link_failed(epoch, why));
      }
    });
  };
  return order;
}

// Dialing waits for a peer, so it happens beside the loop.
void Service::connect(const ModelId& model, PipelineOrder order, const ResultsDoor& door) {
  auto pass = connecting_.enter();
  if (!pass) return;
  std::thread([this, model, order = std::move(order), arrived = door.arrived,
               inside = std::move(*pass)]() mutable {
    const PlanEpoch epoch = order.epoch;
    auto results = arrived->pop(deadline_after(parts_.clock.now(), kResultsTime));
    Result<std::shared_ptr<ClusterPipeline>> pipeline =
        fail(ErrorCode::kDeadlineExceeded, "the last stage has not connected");
    if (results) {
      pipeline = ClusterPipeline::connect(std::move(order), std::move(*results), parts_.transport,
                                          parts_.clock);
    }
    (void)loop_.post([this, model, epoch, pipeline = std::move(pipeline)] {
      const auto found = entries_.find(model);
      if (found == entries_.end()) return;
      Entry& entry = *found->second;
      if (!pipeline) {
        return act(entry, entry.deployment.link_failed(epoch, pipeline.error().message()));
      }
      if (entry.deployment.epoch() == epoch) entry.pipeline = *pipeline;
      act(entry, entry.deployment.pipeline_connected(epoch));
    });
  }).detach();
}

// --- ending --------------------------------------------------------------------------------------

void Service::act_on(Entry& entry, const cluster::StopStages& action) {
  if (entry.pipeline && entry.pipeline->epoch() == action.epoch) entry.pipeline.reset();
  (void)send_to(action.node, wire::Unload{.epoch = action.epoch.value}, action.epoch);
}

void Service::act_on(Entry& entry, const cluster::FailRequests& action) {
  if (!entry.pipeline || entry.pipeline->epoch() != action.epoch) return;
  entry.pipeline->fail_all(Error(ErrorCode::kUnavailable, action.reason));
}

void Service::act_on(Entry& entry, const cluster::Announce& action) {
  tell({.code = "deployment",
        .node = {},
        .model = entry.model_name,
        .state = std::string(cluster::deployment_state_name(action.state)),
        .detail = action.reason});
  const bool ready = action.state == cluster::DeploymentState::kReady;
  const bool served = std::exchange(entry.serving, ready);
  if (ready) {
    log_layers(entry);
    order_spares(entry);
  } else if (served) {
    log_work(entry);
  }
}

void Service::act_on(Entry& entry, const cluster::PersistDeployment& action) {
  const Result<void> put =
      parts_.state.put_deployment({.model = entry.deployment.status().model,
                                   .loaded = action.record.loaded,
                                   .options = cluster::to_json(action.record.options),
                                   .home = cluster::to_json(action.record.home)});
  if (!put) kLog.error("state_not_written", {{"why", put.error().message()}});
}

void Service::forget_epoch(Entry& entry) {
  entry.stages.clear();
  entry.pipeline.reset();
  entry.sent = {};
  MutexLock lock(mutex_);
  std::erase_if(results_, [&](const auto& door) { return door.second.token == entry.token; });
}

Result<void> Service::restore_deployments() {
  ASSIGN_OR_RETURN(const auto rows, parts_.state.deployments());
  for (const state::DeploymentRow& row : rows) {
    if (!row.loaded) continue;
    const auto known = parts_.store.entry(row.model);
    auto options = cluster::options_from_json(row.options);
    auto home = cluster::home_from_json(row.home);
    if (!known || !options || !home) {
      kLog.warn("deployment_not_restored", {{"model", row.model.value}});
      continue;
    }
    Entry& entry = entry_for(row.model);
    act(entry, entry.deployment.restore(
                   {.options = std::move(*options), .loaded = true, .home = std::move(*home)}));
  }
  return {};
}

}  // namespace salvage::coordinator
