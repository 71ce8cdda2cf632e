#include "cluster/membership.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "cluster/names.h"

namespace salvage::cluster {
namespace {

std::string refusal_message(RefusalCode code, const Member& member) {
  switch (code) {
    case RefusalCode::kAlreadyConnected:
      return fmt::format(
          "a machine with this identity ({}, {}) is connected and answers; if this one was copied "
          "from it, remove the copy's data folder and join again with a new code",
          member.name, short_id(member.node));
    case RefusalCode::kRemoved:
      return "this machine was removed from the cluster; its key is not let in again";
    case RefusalCode::kUnknown:
      return "this machine is no member of the cluster; join with a new code";
  }
  return "";
}

// What everybody must know about, unlike memory that changes from second to second.
bool differs_for_others(NodeFacts a, const NodeFacts& b) {
  a.memory_free_bytes = b.memory_free_bytes;
  a.disk_free_bytes = b.disk_free_bytes;
  return a != b;
}

NodeFacts bounded(NodeFacts facts) {
  if (facts.addresses.size() > kAddressesMax) facts.addresses.resize(kAddressesMax);
  return facts;
}

}  // namespace

std::string_view member_state_name(MemberState state) {
  switch (state) {
    case MemberState::kOnline:
      return "online";
    case MemberState::kOffline:
      return "offline";
    case MemberState::kLost:
      return "lost";
    case MemberState::kLeft:
      return "left";
    case MemberState::kRemoved:
      return "removed";
  }
  return "offline";
}

std::string_view refusal_code_name(RefusalCode code) {
  switch (code) {
    case RefusalCode::kAlreadyConnected:
      return "already_connected";
    case RefusalCode::kRemoved:
      return "removed";
    case RefusalCode::kUnknown:
      return "unknown";
  }
  return "unknown";
}

Membership::Membership(MembershipStart start)
    : removed_(start.removed.begin(), start.removed.end()),
      self_(std::move(start.self)),
      view_version_(start.view_version) {
  for (Member& member : start.members) {
    if (removed_.contains(member.node)) continue;
    if (member.state != MemberState::kLeft) {
      member.state = MemberState::kOffline;
      member.reason = "not seen since the coordinator started";
    }
    member.name = free_name(member.name, member.node);
    const NodeId node = member.node;
    entries_[node].member = std::move(member);
  }
  if (!start.local) return;
  has_local_ = true;
  self_ = start.local->node;
  Member& member = entries_[self_].member;
  const std::string wanted = member.name.empty() ? start.local->name : member.name;
  member.name = free_name(wanted, self_);
  member.node = self_;
  member.state = MemberState::kOnline;
  member.reason.clear();
  member.facts = bounded(std::move(start.local->facts));
}

Result<Membership::Joined> Membership::join_accepted(Newcomer newcomer) {
  if (removed_.contains(newcomer.node)) {
    return fail(ErrorCode::kPermissionDenied, refusal_message(RefusalCode::kRemoved, {}));
  }
  if (newcomer.node == self_) {
    return fail(ErrorCode::kInvalidArgument,
                "this is the coordinator's own machine, or a copy of its identity");
  }
  if (!entries_.contains(newcomer.node) && entries_.size() >= kMembersMax) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("the cluster has {} members, which is the most; remove some that are "
                            "not used any more",
                            entries_.size()));
  }
  Entry& entry = entries_[newcomer.node];
  Member& member = entry.member;
  const std::string wanted = member.name.empty() ? newcomer.name : member.name;
  member.node = newcomer.node;
  member.name = free_name(wanted, member.node);
  member.ephemeral = newcomer.ephemeral;
  member.facts = bounded(std::move(newcomer.facts));
  entry.ticks_offline = 0;
  if (!entry.link) {
    member.state = MemberState::kOffline;
    member.reason = "has joined and not connected yet";
  }
  Joined joined{.name = member.name};
  joined.actions.push_back(PersistMember{member});
  publish(joined.actions);
  return joined;
}

MembershipActions Membership::link_up(LinkId link, Newcomer newcomer) {
  CHECK(!links_.contains(link));
  const auto refuse = [&](RefusalCode code, const Member& member) {
    return MembershipActions{RefuseLink{link, code, refusal_message(code, member)}};
  };
  if (removed_.contains(newcomer.node)) return refuse(RefusalCode::kRemoved, {});
  const auto found = entries_.find(newcomer.node);
  if (found == entries_.end() || found->second.member.state == MemberState::kLeft) {
    return refuse(RefusalCode::kUnknown, {});
  }
  Entry& entry = found->second;
  // The coordinator's own node lives as long as this process, and a third link can only be settled
  // once it is known which of the first two is real.
  if (is_local(entry) || entry.pending) {
    return refuse(RefusalCode::kAlreadyConnected, entry.member);
  }
  MembershipActions actions;
  if (!entry.link) {
    accept(entry, link, std::move(newcomer.facts), actions);
    return actions;
  }
  const std::uint64_t nonce = entry.liveness.probe();
  const std::string& instance = entry.member.facts.instance;
  const bool same_process = !instance.empty() && instance == newcomer.facts.instance;
  links_[link] = newcomer.node;
  entry.pending = Entry::Pending{link, std::move(newcomer.facts), nonce, 0};
  if (same_process) {
    settle_pending(entry, "the node connected anew", actions);
  } else {
    actions.push_back(SendPing{*entry.link, nonce});
  }
  return actions;
}

MembershipActions Membership::link_down(LinkId link, std::string reason) {
  MembershipActions actions;
  Entry* const entry = entry_of(link);
  if (entry == nullptr) return actions;
  links_.erase(link);
  if (entry->pending && entry->pending->link == link) {
    entry->pending.reset();
    return actions;
  }
  entry->link.reset();
  lose(*entry, MemberState::kLost, std::move(reason), actions);
  settle_pending(*entry, "", actions);
  return actions;
}

MembershipActions Membership::goodbye(LinkId link) {
  MembershipActions actions;
  Entry* const entry = entry_of(link);
  if (entry == nullptr || entry->link != link) return actions;
  close(*entry, "said goodbye", actions);
  lose(*entry, MemberState::kOffline, "was shut down", actions);
  settle_pending(*entry, "", actions);  // its next process was quicker than its last word
  return actions;
}

void Membership::heard(LinkId link) {
  Entry* const entry = entry_of(link);
  if (entry != nullptr && entry->link == link) entry->liveness.heard();
}

MembershipActions Membership::pong(LinkId link, std::uint64_t nonce) {
  MembershipActions actions;
  Entry* const entry = entry_of(link);
  if (entry == nullptr || entry->link != link) return actions;
  entry->liveness.heard();
  // Any pong for the probe or for a later ping was sent after the second link had come.
  if (entry->pending && nonce >= entry->pending->nonce) {
    refuse_pending(*entry, RefusalCode::kAlreadyConnected, actions);
  }
  return actions;
}

MembershipActions Membership::facts_changed(LinkId link, NodeFacts facts) {
  Entry* const entry = entry_of(link);
  if (entry == nullptr || entry->link != link) return {};
  return change_facts(*entry, std::move(facts));
}

MembershipActions Membership::local_facts_changed(NodeFacts facts) {
  const auto found = entries_.find(self_);
  if (!has_local_ || found == entries_.end()) return {};
  return change_facts(found->second, std::move(facts));
}

MembershipActions Membership::change_facts(Entry& entry, NodeFacts facts) {
  MembershipActions actions;
  facts = bounded(std::move(facts));
  const bool news = differs_for_others(entry.member.facts, facts);
  entry.member.facts = std::move(facts);
  if (news) {
    actions.push_back(PersistMember{entry.member});
    publish(actions);
  }
  return actions;
}

MembershipActions Membership::tick(TimePoint now) {
  MembershipActions actions;
  const bool burst = last_tick_ && now - *last_tick_ < kTickPeriod / 2;
  if (burst) return actions;
  const bool late = last_tick_ && now - *last_tick_ > 2 * kTickPeriod;
  last_tick_ = now;
  for (auto& [node, entry] : entries_) {
    if (entry.link) tick_link(entry, late, actions);
  }
  forget_ephemeral(actions);
  return actions;
}

void Membership::tick_link(Entry& entry, bool late, MembershipActions& actions) {
  if (late) {
    // The answers to what is unanswered may lie in our own queue: ask again, judge next time.
    const auto nonce = entry.liveness.tick();
    actions.push_back(SendPing{*entry.link, nonce ? *nonce : entry.liveness.probe()});
    return;
  }
  if (entry.liveness.lost()) {
    const std::string reason =
        fmt::format("left {} pings in a row unanswered", entry.liveness.unanswered());
    close(entry, reason, actions);
    lose(entry, MemberState::kLost, reason, actions);
    settle_pending(entry, "", actions);
    return;
  }
  if (entry.pending && ++entry.pending->ticks > kProbeTicksMax) {
    settle_pending(entry, "a new link of the node took its place", actions);
    return;
  }
  actions.push_back(SendPing{*entry.link, *entry.liveness.tick()});
}

void Membership::forget_ephemeral(MembershipActions& actions) {
  std::vector<NodeId> gone;
  for (auto& [node, entry] : entries_) {
    if (!entry.member.ephemeral || entry.link || is_local(entry)) continue;
    if (++entry.ticks_offline > kEphemeralTicksMax) gone.push_back(node);
  }
  for (const NodeId& node : gone) {
    entries_.erase(node);
    actions.push_back(ForgetMember{node, false});
  }
  if (!gone.empty()) publish(actions);
}

Result<MembershipActions> Membership::leave(const NodeId& leaving) {
  ASSIGN_OR_RETURN(Entry* const entry, departing(leaving));
  const NodeId node = entry->member.node;  // `leaving` may live in the entry
  MembershipActions actions;
  const bool was_online = entry->link.has_value();
  refuse_pending(*entry, RefusalCode::kUnknown, actions);
  close(*entry, "left the cluster", actions);
  entry->member.state = MemberState::kLeft;
  entry->member.reason = "left the cluster";
  if (entry->member.ephemeral) {
    entries_.erase(node);
    actions.push_back(ForgetMember{node, false});
  } else {
    actions.push_back(PersistMember{entry->member});
  }
  publish(actions);
  if (was_online) actions.push_back(NodeLost{node, "left the cluster", MemberState::kLeft});
  return actions;
}

Result<MembershipActions> Membership::remove(const NodeId& unwanted) {
  if (removed_.contains(unwanted)) return MembershipActions{};
  ASSIGN_OR_RETURN(Entry* const entry, departing(unwanted));
  const NodeId node = entry->member.node;  // `unwanted` may live in the entry
  MembershipActions actions;
  const bool was_online = entry->link.has_value();
  // On the disk first: a crash in between must not let it in again.
  actions.push_back(ForgetMember{node, true});
  refuse_pending(*entry, RefusalCode::kRemoved, actions);
  close(*entry, "removed from the cluster", actions);
  entries_.erase(node);
  removed_.insert(node);
  publish(actions);
  if (was_online)
    actions.push_back(NodeLost{node, "removed from the cluster", MemberState::kRemoved});
  return actions;
}

Result<MembershipActions> Membership::rename(const NodeId& node, std::string_view wanted) {
  const auto found = entries_.find(node);
  if (found == entries_.end()) {
    return fail(ErrorCode::kNotFound, fmt::format("no member has the id {}", short_id(node)));
  }
  Member& member = found->second.member;
  MembershipActions actions;
  std::string name = free_name(wanted, node);
  if (name == member.name) return actions;
  member.name = std::move(name);
  actions.push_back(PersistMember{member});
  publish(actions);
  return actions;
}

ClusterView Membership::view() const {
  ClusterView view{.version = view_version_};
  for (const auto& [node, entry] : entries_) view.members.push_back(entry.member);
  view.removed.assign(removed_.begin(), removed_.end());
  return view;
}

const Member* Membership::find(const NodeId& node) const {
  const auto found = entries_.find(node);
  return found == entries_.end() ? nullptr : &found->second.member;
}

Result<NodeId> Membership::resolve(std::string_view name_or_id) const {
  constexpr std::size_t kIdDigitsMin = 4;
  std::vector<NodeId> by_id;
  std::vector<std::string> names;
  for (const auto& [node, entry] : entries_) {
    if (entry.member.name == name_or_id) return node;
    names.push_back(entry.member.name);
    if (name_or_id.size() >= kIdDigitsMin && node.value.starts_with(name_or_id)) {
      by_id.push_back(node);
    }
  }
  if (by_id.size() == 1) return by_id.front();
  const std::string asked = clean_name(name_or_id);
  if (by_id.size() > 1) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} nodes have an id that begins with {}; type more of it",
                            by_id.size(), asked));
  }
  return fail(ErrorCode::kNotFound,
              fmt::format("no node is called {}; there are: {}", asked, fmt::join(names, ", ")));
}

std::vector<NodeId> Membership::online() const {
  std::vector<const Member*> members;
  for (const auto& [node, entry] : entries_) {
    if (entry.member.state == MemberState::kOnline) members.push_back(&entry.member);
  }
  std::sort(members.begin(), members.end(), [this](const Member* a, const Member* b) {
    return std::pair(a->node != self_, a->name) < std::pair(b->node != self_, b->name);
  });
  std::vector<NodeId> nodes;
  nodes.reserve(members.size());
  for (const Member* const member : members) nodes.push_back(member->node);
  return nodes;
}

bool Membership::is_member(const NodeId& node) const {
  const Member* const member = find(node);
  return member != nullptr && member->state != MemberState::kLeft;
}

std::optional<LinkId> Membership::link_of(const NodeId& node) const {
  const auto found = entries_.find(node);
  return found == entries_.end() ? std::nullopt : found->second.link;
}

Membership::Entry* Membership::entry_of(LinkId link) {
  const auto found = links_.find(link);
  return found == links_.end() ? nullptr : &entries_.at(found->second);
}

std::string Membership::free_name(std::string_view wanted, const NodeId& owner) const {
  const std::string name = clean_name(wanted);
  const auto taken = [&](const std::string& candidate) {
    return std::any_of(entries_.begin(), entries_.end(), [&](const auto& other) {
      return other.first != owner && other.second.member.name == candidate;
    });
  };
  std::string candidate = name;
  for (std::uint32_t number = 2; taken(candidate); ++number) {
    const std::string suffix = fmt::format("-{}", number);
    candidate = clean_name(name.substr(0, kNameBytesMax - suffix.size())) + suffix;
  }
  return candidate;
}

void Membership::accept(Entry& entry, LinkId link, NodeFacts facts, MembershipActions& actions) {
  Member& member = entry.member;
  entry.link = link;
  entry.liveness = Liveness();
  entry.ticks_offline = 0;
  links_[link] = member.node;
  member.state = MemberState::kOnline;
  member.reason.clear();
  member.facts = bounded(std::move(facts));
  actions.push_back(AcceptLink{link, member.node, member.name});
  actions.push_back(PersistMember{member});
  publish(actions);
  actions.push_back(NodeOnline{member.node});
}

// The node was online and isn't any more; its link is gone or being closed.
void Membership::lose(Entry& entry, MemberState state, std::string reason,
                      MembershipActions& actions) {
  entry.member.state = state;
  entry.member.reason = reason;
  publish(actions);
  actions.push_back(NodeLost{entry.member.node, std::move(reason), state});
}

void Membership::close(Entry& entry, std::string reason, MembershipActions& actions) {
  if (!entry.link) return;
  links_.erase(*entry.link);
  actions.push_back(CloseLink{*entry.link, std::move(reason)});
  entry.link.reset();
}

// The second link wins. `reason`: why the first, if it is still there, is closed.
void Membership::settle_pending(Entry& entry, std::string reason, MembershipActions& actions) {
  if (!entry.pending) return;
  Entry::Pending pending = std::move(*entry.pending);
  entry.pending.reset();
  if (entry.link) {
    close(entry, reason, actions);
    lose(entry, MemberState::kLost, std::move(reason), actions);
  }
  accept(entry, pending.link, std::move(pending.facts), actions);
}

void Membership::refuse_pending(Entry& entry, RefusalCode code, MembershipActions& actions) {
  if (!entry.pending) return;
  const LinkId link = entry.pending->link;
  entry.pending.reset();
  links_.erase(link);
  actions.push_back(RefuseLink{link, code, refusal_message(code, entry.member)});
}

Result<Membership::Entry*> Membership::departing(const NodeId& node) {
  const auto found = entries_.find(node);
  if (found == entries_.end()) {
    return fail(ErrorCode::kNotFound, fmt::format("no member has the id {}", short_id(node)));
  }
  if (node == self_) {
    return fail(ErrorCode::kInvalidArgument,
                "this is the coordinator's own machine; the cluster ends where it does");
  }
  return &found->second;
}

void Membership::publish(MembershipActions& actions) {
  ++view_version_;
  actions.push_back(PublishView{view()});
}

}  // namespace salvage::cluster
