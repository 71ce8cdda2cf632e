#include "app/cluster_view.h"

#include <algorithm>
#include <utility>

namespace salvage::app {
namespace {

cluster::MemberState state_named(const std::string& name) {
  using cluster::MemberState;
  for (const MemberState state : {MemberState::kOnline, MemberState::kOffline, MemberState::kLost,
                                  MemberState::kLeft, MemberState::kRemoved}) {
    if (cluster::member_state_name(state) == name) return state;
  }
  return MemberState::kOffline;
}

coordinator::NodeInfo node_info(const wire::MemberRecord& record) {
  coordinator::NodeInfo info;
  info.member.node = {record.node};
  info.member.name = record.name;
  info.member.state = state_named(record.state);
  info.coordinator = record.coordinator;
  for (const wire::NodeAddress& address : record.addresses) {
    info.member.facts.addresses.push_back({address.endpoint, address.link});
  }
  if (!record.addresses.empty()) info.link_type = record.addresses.front().link;
  return info;
}

}  // namespace

bool ViewKeeper::lets_in(const NodeId& node) const {
  if (node == coordinator_) return true;
  return std::any_of(view_.members.begin(), view_.members.end(), [&](const auto& member) {
    return member.node == node.value && member.state != "left" && member.state != "removed";
  });
}

bool ViewKeeper::admits(const NodeId& node) const {
  MutexLock lock(mutex_);
  return lets_in(node);
}

std::vector<NodeId> ViewKeeper::update(wire::ClusterView view) {
  MutexLock lock(mutex_);
  // A coordinator that was made anew from nothing counts from 1 again, under another cluster id.
  if (view.version <= view_.version) return {};
  const wire::ClusterView before = std::exchange(view_, std::move(view));
  std::vector<NodeId> out;
  for (const wire::ClusterView* one : {&before, static_cast<const wire::ClusterView*>(&view_)}) {
    for (const wire::MemberRecord& member : one->members) {
      const NodeId node{member.node};
      const bool listed = std::find(out.begin(), out.end(), node) != out.end();
      if (!listed && !lets_in(node)) out.push_back(node);
    }
  }
  return out;
}

wire::ClusterView ViewKeeper::view() const {
  MutexLock lock(mutex_);
  return view_;
}

std::vector<std::string> ViewKeeper::coordinator_addresses() const {
  MutexLock lock(mutex_);
  std::vector<std::string> addresses;
  for (const wire::MemberRecord& member : view_.members) {
    if (member.node != coordinator_.value) continue;
    for (const wire::NodeAddress& address : member.addresses) addresses.push_back(address.endpoint);
  }
  return addresses;
}

std::string ViewKeeper::name_of(const NodeId& node) const {
  MutexLock lock(mutex_);
  for (const wire::MemberRecord& member : view_.members) {
    if (member.node == node.value) return member.name;
  }
  return {};
}

coordinator::ClusterInfo ViewKeeper::info(const std::string& cluster_id) const {
  MutexLock lock(mutex_);
  coordinator::ClusterInfo info;
  info.name = view_.cluster_name;
  info.cluster_id = cluster_id;
  info.coordinator = coordinator_;
  info.lost_after_ms = view_.lost_after_ms;
  for (const wire::MemberRecord& member : view_.members) {
    if (member.state == "removed") continue;
    info.nodes.push_back(node_info(member));
  }
  return info;
}

}  // namespace salvage::app
