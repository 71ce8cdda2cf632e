#pragma once

// Who belongs to the cluster and who is there: the coordinator's list of members, their links and
// their names. A pure state machine: events in, actions out; no clock, no thread, no socket. One
// thread owns it and carries out the actions in their order; an event that arises from one waits
// until all are done.
//
//  - A node is online while it has a live link. A link that ends, or that leaves kUnansweredMax
//    pings in a row unanswered, makes it lost (cluster/liveness.h). One that says goodbye first is
//    offline at once: whoever switched it off knows, and nobody has to wait or to worry.
//  - A second link of an online node is believed at once if it comes from the same process. Else
//    the first is probed. If it answers, two machines have one identity and the later is refused;
//    if it doesn't within kProbeTicksMax, the new link replaces it.
//  - A removed node's key is refused for ever, a node that left may join again with a code.
//  - Every change is published as a new view, with a higher version.

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
#include "cluster/liveness.h"

namespace salvage::cluster {

// A node link of the coordinator, numbered by it; never reused while the process runs.
using LinkId = Id<struct LinkIdTag, std::uint64_t>;

inline constexpr std::size_t kMembersMax = 256;
inline constexpr std::size_t kNameBytesMax = 64;
inline constexpr std::size_t kAddressesMax = 16;
inline constexpr std::uint32_t kProbeTicksMax = 2;
// An ephemeral member that was offline for so many ticks is forgotten.
inline constexpr std::uint32_t kEphemeralTicksMax = 600;

enum class MemberState {
  kOnline,
  kOffline,  // said goodbye, or was not seen since the coordinator started
  kLost,     // its link broke or went silent
  kLeft,     // said that it leaves
  kRemoved,  // refused for ever
};
std::string_view member_state_name(MemberState state);  // "online", ...

// One way to reach a node.
struct NodeAddress {
  std::string endpoint;          // "tls:192.168.1.7:7420"
  std::string link_type;         // "wired", "wifi", "other"
  std::string interface;         // "eth0"
  std::uint32_t speed_mbit = 0;  // 0: unknown
  friend bool operator==(const NodeAddress&, const NodeAddress&) = default;
};

// What a node tells of itself. Unknown figures are unset, never 0.
struct NodeFacts {
  std::string version;   // of salvage
  std::string instance;  // random, one a process
  std::string llama_pin;
  std::string kernel_fingerprint;
  std::uint32_t wire_version_min = 0;
  std::uint32_t wire_version = 0;
  std::string processor;
  std::string system;
  std::uint32_t core_count = 0;
  std::optional<std::uint64_t> memory_total_bytes;
  std::optional<std::uint64_t> memory_free_bytes;  // what can be used without swapping
  std::optional<std::uint64_t> disk_free_bytes;
  std::vector<NodeAddress> addresses;  // best first
  friend bool operator==(const NodeFacts&, const NodeFacts&) = default;
};

struct Member {
  NodeId node;
  std::string name;  // unique among members
  MemberState state = MemberState::kOffline;
  bool ephemeral = false;
  NodeFacts facts;     // the last that were heard
  std::string reason;  // why it is lost, left or offline; empty while online
  friend bool operator==(const Member&, const Member&) = default;
};

struct ClusterView {
  std::uint64_t version = 0;  // grows
  std::vector<Member> members;
  std::vector<NodeId> removed;
};

enum class RefusalCode { kAlreadyConnected, kRemoved, kUnknown };
std::string_view refusal_code_name(RefusalCode code);  // "already_connected", ...

// --- actions, to be carried out in order ---
struct AcceptLink {  // Tell the node that it is in, with its name; then send it the view.
  LinkId link;
  NodeId node;
  std::string name;
};
struct RefuseLink {  // Say so and close.
  LinkId link;
  RefusalCode code = RefusalCode::kUnknown;
  std::string message;
};
struct CloseLink {
  LinkId link;
  std::string reason;
};
struct SendPing {  // A pong with the same nonce is wanted.
  LinkId link;
  std::uint64_t nonce = 0;
};
struct PublishView {  // To every online node. Links of removed nodes end everywhere.
  ClusterView view;
};
struct PersistMember {
  Member member;
};
struct ForgetMember {  // Take it off the disk; `removed` says that its key stays refused.
  NodeId node;
  bool removed = false;
};
struct NodeOnline {  // for the deployments
  NodeId node;
};
struct NodeLost {  // for the deployments: online before, and now `state`
  NodeId node;
  std::string reason;
  MemberState state = MemberState::kLost;
  bool for_good() const {  // nobody waits for it
    return state == MemberState::kLeft || state == MemberState::kRemoved;
  }
};
using MembershipAction = std::variant<AcceptLink, RefuseLink, CloseLink, SendPing, PublishView,
                                      PersistMember, ForgetMember, NodeOnline, NodeLost>;
using MembershipActions = std::vector<MembershipAction>;

// How a node presents itself on a new link, or to the join service.
struct Newcomer {
  NodeId node;
  std::string name;  // as it would like to be called
  bool ephemeral = false;
  NodeFacts facts;
};

struct MembershipStart {
  // The coordinator's own node: it comes first and can neither leave nor be removed.
  NodeId self;
  // The same, if it needs no link: always online. Unset: it links like every other.
  std::optional<Newcomer> local;
  std::uint64_t view_version = 1;  // every view's is above it; not below any published before
  std::vector<Member> members;     // as they were persisted; their state is read only for kLeft
  std::vector<NodeId> removed;
};

class Membership {
 public:
  explicit Membership(MembershipStart start);

  // The join service accepted a code: a member from now on, offline until it links. Gives the name
  // that it got. Fails for a removed node and when there are kMembersMax.
  struct Joined {
    std::string name;
    MembershipActions actions;
  };
  Result<Joined> join_accepted(Newcomer newcomer);

  // A link whose other end proved to be `newcomer.node`. It may be used once AcceptLink names it.
  MembershipActions link_up(LinkId link, Newcomer newcomer);
  // A link ended, whoever ended it; also one that was refused.
  MembershipActions link_down(LinkId link, std::string reason);
  // The node says on this link that its process ends. Only the link in use has a say; it is closed.
  MembershipActions goodbye(LinkId link);
  // Any frame came on the link.
  void heard(LinkId link);
  MembershipActions pong(LinkId link, std::uint64_t nonce);
  MembershipActions facts_changed(LinkId link, NodeFacts facts);
  MembershipActions local_facts_changed(NodeFacts facts);
  // Once in kTickPeriod. Ticks that come in a burst count as one; no node is declared lost by a
  // tick that is itself late, since the answers may still wait in our own queue.
  MembershipActions tick(TimePoint now);

  // By the node itself or by a user. `not_found` for nodes that are no members;
  // `invalid_argument` for the coordinator's own.
  Result<MembershipActions> leave(const NodeId& node);
  Result<MembershipActions> remove(const NodeId& node);
  // The name becomes `wanted`, or `wanted`-2, ... if that is taken.
  Result<MembershipActions> rename(const NodeId& node, std::string_view wanted);

  ClusterView view() const;
  const Member* find(const NodeId& node) const;
  // By name, by id, or by the beginning of one; `not_found` and `invalid_argument` (several) say
  // which there are.
  Result<NodeId> resolve(std::string_view name_or_id) const;
  std::vector<NodeId> online() const;  // the coordinator's own first, then by name
  bool is_removed(const NodeId& node) const { return removed_.contains(node); }
  // May the holder of this key be let in on any port?
  bool is_member(const NodeId& node) const;
  std::optional<LinkId> link_of(const NodeId& node) const;

 private:
  struct Entry {
    Member member;
    std::optional<LinkId> link;
    Liveness liveness;
    std::uint32_t ticks_offline = 0;
    // A second link that waits until the first has answered a probe, or has not.
    struct Pending {
      LinkId link;
      NodeFacts facts;
      std::uint64_t nonce = 0;
      std::uint32_t ticks = 0;
    };
    std::optional<Pending> pending;
  };

  Entry* entry_of(LinkId link);
  bool is_local(const Entry& entry) const { return has_local_ && entry.member.node == self_; }
  std::string free_name(std::string_view wanted, const NodeId& owner) const;
  void accept(Entry& entry, LinkId link, NodeFacts facts, MembershipActions& actions);
  void lose(Entry& entry, MemberState state, std::string reason, MembershipActions& actions);
  void close(Entry& entry, std::string reason, MembershipActions& actions);
  void settle_pending(Entry& entry, std::string reason, MembershipActions& actions);
  void refuse_pending(Entry& entry, RefusalCode code, MembershipActions& actions);
  void tick_link(Entry& entry, bool late, MembershipActions& actions);
  void forget_ephemeral(MembershipActions& actions);
  MembershipActions change_facts(Entry& entry, NodeFacts facts);
  Result<Entry*> departing(const NodeId& node);
  void publish(MembershipActions& actions);

  std::map<NodeId, Entry> entries_;
  std::map<LinkId, NodeId> links_;  // current and pending ones
  std::set<NodeId> removed_;
  NodeId self_;
  bool has_local_ = false;
  std::uint64_t view_version_;
  std::optional<TimePoint> last_tick_;
};

}  // namespace salvage::cluster
