// Who belongs to the cluster: joining, the view that everybody gets, leaving and removal.

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/sha256.h"
#include "coordinator/service.h"
#include "identity/fingerprint.h"

namespace salvage::coordinator {
namespace {

using std::chrono::seconds;

constexpr auto kJoinTime = seconds(5);
// Versions of the view that one run of the coordinator may use up.
constexpr std::uint64_t kViewVersions = std::uint64_t{1} << 32;

state::InviteRow to_row(const cluster::Invite& invite) {
  return {.id = invite.id,
          .secret_hash = invite.secret_hash,
          .label = invite.label,
          .ephemeral = invite.ephemeral,
          .uses_left = invite.uses_left,
          .wrong_tries = invite.wrong_tries,
          .created_ms = invite.created_ms,
          .expires_ms = invite.expires_ms};
}

cluster::Invite from_row(const state::InviteRow& row) {
  return {.id = row.id,
          .secret_hash = row.secret_hash,
          .label = row.label,
          .ephemeral = row.ephemeral,
          .uses_left = row.uses_left,
          .wrong_tries = row.wrong_tries,
          .created_ms = row.created_ms,
          .expires_ms = row.expires_ms};
}

state::MemberRow to_row(const cluster::Member& member) {
  return {.node = member.node,
          .name = member.name,
          .ephemeral = member.ephemeral,
          .left = member.state == cluster::MemberState::kLeft,
          .facts = "{}"};
}

Error refused_code(cluster::RedeemOutcome outcome) {
  switch (outcome) {
    case cluster::RedeemOutcome::kExpired:
      return {ErrorCode::kPermissionDenied,
              "this join code has expired; make a new one with `salvage invite`"};
    case cluster::RedeemOutcome::kUsedUp:
      return {ErrorCode::kPermissionDenied,
              "this join code was used before; make a new one with `salvage invite`"};
    default:
      return {ErrorCode::kPermissionDenied,
              "this join code is not known here; make a new one with `salvage invite`"};
  }
}

ErrorCode error_code_of(cluster::RefusalCode code) {
  const bool unknown = code == cluster::RefusalCode::kUnknown;
  return unknown ? ErrorCode::kUnauthenticated : ErrorCode::kPermissionDenied;
}

}  // namespace

Result<void> Service::restore_members() {
  cluster::MembershipStart start;
  start.self = options_.self;
  ASSIGN_OR_RETURN(start.view_version,
                   parts_.state.reserve(state::Counter::kViewVersion, kViewVersions));
  ASSIGN_OR_RETURN(auto rows, parts_.state.members());
  const bool knows_itself = std::any_of(
      rows.begin(), rows.end(), [this](const auto& row) { return row.node == options_.self; });
  if (!knows_itself) {
    // Our own agent comes over a link as everybody's does.
    rows.push_back({.node = options_.self, .name = options_.name, .facts = "{}"});
    RETURN_IF_ERROR(parts_.state.put_member(rows.back()));
  }
  for (const state::MemberRow& row : rows) {
    cluster::Member member;
    member.node = row.node;
    member.name = row.name;
    member.ephemeral = row.ephemeral;
    member.state = row.left ? cluster::MemberState::kLeft : cluster::MemberState::kOffline;
    start.members.push_back(std::move(member));
  }
  ASSIGN_OR_RETURN(start.removed, parts_.state.removed());
  ASSIGN_OR_RETURN(const auto invites, parts_.state.invites());
  std::vector<cluster::Invite> open;
  for (const state::InviteRow& row : invites) open.push_back(from_row(row));
  invites_ = cluster::Invites(std::move(open));
  membership_.emplace(std::move(start));
  MutexLock lock(mutex_);
  for (const state::MemberRow& row : rows) {
    if (!row.left) admitted_.insert(row.node);
  }
  admitted_.insert(options_.self);
  return {};
}

// --- joining -------------------------------------------------------------------------------------

void Service::serve_join(transport::Connection& connection) {
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    joining_.insert(&connection);
  }
  pipeline::ControlLink link(connection);
  const TimePoint deadline = deadline_after(parts_.clock.now(), kJoinTime);
  const auto request = link.expect<wire::JoinRequest>(deadline);
  if (request) {
    const wire::JoinReply reply =
        loop_.call([&] { return join(*request, *connection.identity()); }, wire::JoinReply{});
    (void)link.send(reply, deadline_after(parts_.clock.now(), kJoinTime));
  }
  MutexLock lock(mutex_);
  joining_.erase(&connection);
}

wire::JoinReply Service::join(const wire::JoinRequest& request,
                              const transport::PeerIdentity& peer) {
  auto reply = redeem(request, peer);
  if (reply) return std::move(*reply);
  wire::JoinReply refusal;
  refusal.error_code = error_code_name(reply.error().code());
  refusal.error = reply.error().message();
  return refusal;
}

Result<wire::JoinReply> Service::redeem(const wire::JoinRequest& request,
                                        const transport::PeerIdentity& peer) {
  const cluster::Redeemed redeemed = invites_.redeem(
      request.invite, identity::secret_hash(request.secret), options_.wall_clock_ms());
  if (redeemed.outcome != cluster::RedeemOutcome::kOk) {
    if (redeemed.changed) RETURN_IF_ERROR(parts_.state.put_invite(to_row(*redeemed.changed)));
    return fail(refused_code(redeemed.outcome));
  }
  auto joined = membership_->join_accepted(
      {.node = peer.node, .name = request.name, .ephemeral = redeemed.ephemeral, .facts = {}});
  auto certificate =
      identity::issue_certificate(options_.authority, peer.public_key, identity::NodeRole::kNode);
  if (!joined || !certificate) {
    (void)invites_.give_back(request.invite);
    return fail(joined ? certificate.error() : joined.error());
  }
  const cluster::Member* member = membership_->find(peer.node);
  RETURN_IF_ERROR(parts_.state.put_joined(to_row(*member), to_row(*redeemed.changed)));
  wire::JoinReply reply{.accepted = true,
                        .error_code = {},
                        .error = {},
                        .certificate = std::move(*certificate),
                        .authority = options_.authority.certificate_pem,
                        .coordinator = options_.self.value,
                        .cluster_name = options_.cluster_name,
                        .name = joined->name,
                        .ephemeral = redeemed.ephemeral};
  act(joined->actions);
  tell({.code = "node_joined", .node = reply.name, .model = {}, .state = {}, .detail = {}});
  return reply;
}

Result<OpenInvite> Service::invite(const InviteOptions& options) {
  ASSIGN_OR_RETURN(const identity::InviteSecret secret, identity::make_invite_secret());
  const auto open = [&]() -> Result<OpenInvite> {
    ASSIGN_OR_RETURN(cluster::Invite made,
                     invites_.create({.id = secret.invite_id,
                                      .secret_hash = identity::secret_hash(secret.secret),
                                      .label = options.label,
                                      .uses = options.uses,
                                      .ttl_ms = options.ttl_ms,
                                      .ephemeral = options.ephemeral},
                                     options_.wall_clock_ms()));
    RETURN_IF_ERROR(parts_.state.put_invite(to_row(made)));
    ASSIGN_OR_RETURN(std::string code,
                     identity::encode_join_code({.cluster_id = options_.authority.cluster_id,
                                                 .invite_id = secret.invite_id,
                                                 .secret = secret.secret,
                                                 .addresses = options.addresses}));
    return OpenInvite{std::move(code), std::move(made)};
  };
  return loop_.call(open, Result<OpenInvite>(fail(ErrorCode::kUnavailable, "shutting down")));
}

bool Service::any_invite_open() {
  return loop_.call([this] { return invites_.any_open(options_.wall_clock_ms()); }, false);
}

std::vector<cluster::Invite> Service::invites() {
  return loop_.call(
      [this] {
        for (const std::string& id : invites_.sweep(options_.wall_clock_ms())) {
          (void)parts_.state.forget_invite(id);
        }
        return invites_.list();
      },
      std::vector<cluster::Invite>{});
}

Result<void> Service::revoke_invite(const std::string& id) {
  const auto revoke = [&]() -> Result<void> {
    if (!invites_.revoke(id)) {
      return fail(ErrorCode::kNotFound, fmt::format("there is no invite {}", id));
    }
    return parts_.state.forget_invite(id);
  };
  return loop_.call(revoke, Result<void>(fail(ErrorCode::kUnavailable, "shutting down")));
}

bool Service::may_download(std::string_view invite_id, std::string_view token) {
  return loop_.call(
      [&] {
        const std::int64_t now = options_.wall_clock_ms();
        for (const cluster::Invite& invite : invites_.list()) {
          if (invite.id == invite_id && cluster::is_open(invite, now)) {
            const std::string right = identity::download_token(invite.secret_hash);
            return identity::secret_matches(token, identity::secret_hash(right));
          }
        }
        return false;
      },
      false);
}

// --- the view ------------------------------------------------------------------------------------

wire::ClusterView Service::wire_view(const cluster::ClusterView& view) const {
  wire::ClusterView wire;
  wire.version = view.version;
  wire.cluster_name = options_.cluster_name;
  wire.lost_after_ms = static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(cluster::kTickPeriod).count() *
      (cluster::kUnansweredMax + 1));
  for (const cluster::Member& member : view.members) {
    wire::MemberRecord record{.node = member.node.value,
                              .name = member.name,
                              .state = std::string(cluster::member_state_name(member.state)),
                              .coordinator = member.node == options_.self,
                              .addresses = {}};
    for (const cluster::NodeAddress& address : member.facts.addresses) {
      record.addresses.push_back(
          {address.endpoint, address.interface, address.link_type, address.speed_mbit});
    }
    wire.members.push_back(std::move(record));
  }
  for (const NodeId& node : view.removed) {
    wire.members.push_back({.node = node.value, .name = {}, .state = "removed", .addresses = {}});
  }
  return wire;
}

void Service::act(const cluster::MembershipActions& actions) {
  for (const auto& action : actions) {
    std::visit([this](const auto& one) { act_on(one); }, action);
  }
}

void Service::act_on(const cluster::AcceptLink& action) {
  const auto session = sessions_.find(action.link);
  if (session != sessions_.end()) (void)session->second->send(wire_view(membership_->view()));
}

void Service::act_on(const cluster::RefuseLink& action) {
  const auto session = sessions_.find(action.link);
  if (session == sessions_.end()) return;
  (void)session->second->send(
      wire::MemberReply{.kind = "link",
                        .error_code = std::string(error_code_name(error_code_of(action.code))),
                        .error = action.message});
  session->second->close();
}

void Service::act_on(const cluster::CloseLink& action) {
  const auto session = sessions_.find(action.link);
  if (session != sessions_.end()) session->second->close();
}

void Service::act_on(const cluster::SendPing& action) {
  const auto session = sessions_.find(action.link);
  if (session != sessions_.end()) (void)session->second->send(wire::Ping{.nonce = action.nonce});
}

void Service::act_on(const cluster::PublishView& action) {
  for (const cluster::Member& member : action.view.members) names_[member.node] = member.name;
  std::vector<NodeId> shut_out;
  {
    MutexLock lock(mutex_);
    std::set<NodeId> now{options_.self};
    for (const cluster::Member& member : action.view.members) {
      if (member.state != cluster::MemberState::kLeft) now.insert(member.node);
    }
    std::set_difference(admitted_.begin(), admitted_.end(), now.begin(), now.end(),
                        std::back_inserter(shut_out));
    admitted_ = std::move(now);
  }
  const wire::ClusterView view = wire_view(action.view);
  for (const NodeId& node : membership_->online()) (void)send_to(node, view);
  for (const NodeId& node : shut_out) {
    if (options_.shut_out) options_.shut_out(node);
  }
}

void Service::act_on(const cluster::PersistMember& action) {
  (void)parts_.state.put_member(to_row(action.member));
}

void Service::act_on(const cluster::ForgetMember& action) {
  inventories_.erase(action.node);
  for (auto& [model, entry] : entries_) {
    act(*entry, entry->deployment.node_lost(action.node, "it was removed", true));
  }
  if (action.removed) {
    (void)parts_.state.remove_member(action.node);
  } else {
    (void)parts_.state.forget_member(action.node);
  }
}

void Service::act_on(const cluster::NodeOnline& action) {
  const cluster::Member* member = membership_->find(action.node);
  tell({.code = "node_online",
        .node = member == nullptr ? identity::short_form(action.node) : member->name,
        .model = {},
        .state = {},
        .detail = {}});
  for (auto& [model, entry] : entries_) act(*entry, entry->deployment.node_online(action.node));
}

void Service::act_on(const cluster::NodeLost& action) {
  if (action.state != cluster::MemberState::kRemoved) {  // that is told by who ordered it
    tell({.code = fmt::format("node_{}", cluster::member_state_name(action.state)),
          .node = name_of(action.node),
          .model = {},
          .state = {},
          .detail = action.reason});
  }
  inventories_.erase(action.node);
  if (action.node == options_.self) catalogues_ordered_.clear();  // with the link of our own agent
  for (auto& [model, entry] : entries_) {
    act(*entry, entry->deployment.node_lost(action.node, action.reason, action.for_good()));
  }
}

// --- what members and owners ask for -------------------------------------------------------------

// What is to be done for a request of a member, not done yet.
Result<cluster::MembershipActions> Service::grant(const SessionPtr& session,
                                                  const wire::MemberRequest& request) {
  const NodeId& node = session->node();
  // A link that waits for its probe may be a clone's: it has no say about the member.
  if (membership_->link_of(node) != session->id()) {
    return fail(ErrorCode::kUnavailable, "another link of this machine is in use");
  }
  if (request.kind == "leave") return membership_->leave(node);
  if (request.kind == "rename") return membership_->rename(node, request.value);
  if (request.kind == "goodbye") return membership_->goodbye(session->id());
  if (request.kind == "knows") {
    RETURN_IF_ERROR(parts_.store.entry(ModelId{request.value}));
    return cluster::MembershipActions{};
  }
  return fail(ErrorCode::kUnsupported, fmt::format("unknown request '{}'", request.kind));
}

Result<void> Service::take_member_request(const SessionPtr& session,
                                          std::span<const std::byte> body) {
  ASSIGN_OR_RETURN(const auto request, wire::decode_control<wire::MemberRequest>(body));
  const Result<cluster::MembershipActions> actions = grant(session, request);
  wire::MemberReply reply{.kind = request.kind, .error_code = {}, .error = {}};
  if (!actions) {
    reply.error_code = error_code_name(actions.error().code());
    reply.error = actions.error().message();
  }
  (void)session->send(reply);
  if (actions) act(*actions);
  return {};
}

Result<void> Service::take_status(const SessionPtr& session, std::span<const std::byte> body) {
  ASSIGN_OR_RETURN(const auto status, wire::decode_control<wire::NodeStatus>(body));
  const cluster::Member* member = membership_->find(session->node());
  if (member == nullptr) return {};
  cluster::NodeFacts facts = member->facts;
  if (status.memory_available_bytes != 0) facts.memory_free_bytes = status.memory_available_bytes;
  if (status.disk_free_bytes != 0) facts.disk_free_bytes = status.disk_free_bytes;
  act(membership_->facts_changed(session->id(), std::move(facts)));
  return {};
}

// Also of a node that has just gone.
std::string Service::name_of(const NodeId& node) const {
  const auto known = names_.find(node);
  return known == names_.end() ? identity::short_form(node) : known->second;
}

ClusterInfo Service::cluster() {
  return loop_.call(
      [this] {
        ClusterInfo info;
        info.name = options_.cluster_name;
        info.cluster_id = options_.authority.cluster_id;
        info.version = options_.version;
        info.coordinator = options_.self;
        info.lost_after_ms = wire_view({}).lost_after_ms;
        for (const cluster::Member& member : membership_->view().members) {
          NodeInfo node;
          node.member = member;
          node.coordinator = member.node == options_.self;
          if (const SessionPtr session = session_of(member.node)) node.address = session->peer();
          if (!member.facts.addresses.empty()) {
            node.link_type = member.facts.addresses.front().link_type;
          }
          info.nodes.push_back(std::move(node));
        }
        return info;
      },
      ClusterInfo{});
}

Result<std::string> Service::rename(const std::string& node, const std::string& name) {
  const auto rename = [&]() -> Result<std::string> {
    ASSIGN_OR_RETURN(const NodeId id, membership_->resolve(node));
    ASSIGN_OR_RETURN(auto actions, membership_->rename(id, name));
    act(actions);
    return membership_->find(id)->name;
  };
  return loop_.call(rename, Result<std::string>(fail(ErrorCode::kUnavailable, "shutting down")));
}

Result<void> Service::remove(const std::string& node) {
  const auto remove = [&]() -> Result<void> {
    ASSIGN_OR_RETURN(const NodeId id, membership_->resolve(node));
    if (id == options_.self) {
      return fail(ErrorCode::kInvalidArgument,
                  "this is the coordinator's own machine; it can't be removed");
    }
    ASSIGN_OR_RETURN(auto actions, membership_->remove(id));
    act(actions);
    tell({.code = "node_removed", .node = node, .model = {}, .state = {}, .detail = {}});
    return {};
  };
  return loop_.call(remove, Result<void>(fail(ErrorCode::kUnavailable, "shutting down")));
}

}  // namespace salvage::coordinator
