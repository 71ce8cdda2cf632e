// What is fetched beside plans: spare copies, and the catalogue of models that a member brought.

#include "base/log.h"
#include "coordinator/service.h"
#include "planner/placement.h"

namespace salvage::coordinator {
namespace {

constexpr Logger kLog("spares");
// Each is a thread of our agent. Whoever brings more models waits with them.
constexpr std::size_t kCataloguesMax = 8;

}  // namespace

wire::FetchOrder Service::fetch_order(const ModelId& model, LayerRange layers) const {
  wire::FetchOrder order{.epoch = 0,
                         .model = model.value,
                         .layer_begin = layers.begin,
                         .layer_end = layers.end,
                         .sources = {}};
  for (const NodeId& node : membership_->online()) {
    const std::set<PieceDigest> pieces = pieces_of(node, model);
    wire::FetchSource source{.node = node.value, .endpoints = addresses_of(node, 0), .pieces = {}};
    for (const PieceDigest& piece : pieces) source.pieces.push_back(piece.value);
    if (!pieces.empty() && !source.endpoints.empty()) order.sources.push_back(std::move(source));
  }
  return order;
}

std::set<PieceDigest> Service::pieces_of(const NodeId& node, const ModelId& model) const {
  if (node == options_.self) {
    const auto own = parts_.store.inventory(model);
    return {own.begin(), own.end()};
  }
  const auto models = inventories_.find(node);
  if (models == inventories_.end()) return {};
  const auto pieces = models->second.find(model);
  return pieces == models->second.end() ? std::set<PieceDigest>{} : pieces->second;
}

// Once a model is ready: a second home on disk for each layer where there is room. They move behind
// answers (agent/pacer.h) and belong to no plan, so a new one doesn't stop them.
void Service::order_spares(const Entry& entry) {
  const auto status = entry.deployment.status();
  const auto known = manifest(status.model);
  if (!known) return;
  planner::Placement placement;
  for (const cluster::StageStatus& stage : status.stages) placement.stages.push_back(stage.placed);
  std::map<NodeId, std::uint64_t> disk;
  for (const NodeId& node : membership_->online()) {
    const cluster::Member* member = membership_->find(node);
    if (member != nullptr && member->facts.disk_free_bytes) {
      disk[node] = *member->facts.disk_free_bytes;
    }
  }
  for (const planner::Spare& spare :
       planner::choose_spares(**known, placement, disk, held_layers(status.model))) {
    if (spare.bytes == 0) continue;
    wire::FetchOrder order = fetch_order(status.model, spare.layers);
    order.spare = true;
    kLog.info("spare_ordered", {{"node", spare.node.value},
                                {"layer_begin", spare.layers.begin},
                                {"layer_end", spare.layers.end},
                                {"bytes", spare.bytes}});
    (void)send_to(spare.node, order);
  }
}

// A model that only members have: its entry and skeleton come here, its weights stay there.
void Service::order_catalogue(const ModelId& model) {
  if (parts_.store.entry(model) || catalogues_ordered_.contains(model)) return;
  if (catalogues_ordered_.size() >= kCataloguesMax) return;  // when one of them is done
  if (send_to(options_.self, fetch_order(model, {}))) catalogues_ordered_.insert(model);
}

void Service::catalogue_ended(const ModelId& model, const wire::FetchProgress& said) {
  if (catalogues_ordered_.erase(model) == 0) return;
  if (said.phase != "done") {
    // Its next inventory tries again.
    kLog.warn("catalogue_not_fetched", {{"model", model.value}, {"why", said.error}});
    return;
  }
  for (const auto& [node, models] : inventories_) {
    for (const auto& [other, pieces] : models) order_catalogue(other);
  }
}

}  // namespace salvage::coordinator
