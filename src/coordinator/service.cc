#include "coordinator/service.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace salvage::coordinator {
namespace {

using std::chrono::seconds;

constexpr Logger kLog("coordinator");
constexpr auto kFirstFrameTime = seconds(5);

Result<void> only_members(const transport::Connection& connection) {
  const transport::PeerIdentity* peer = connection.identity();
  if (peer != nullptr && peer->member) return {};
  return fail(ErrorCode::kPermissionDenied, "this machine is no member; it has to join first");
}

cluster::NodeFacts to_facts(const wire::NodeFacts& said, const wire::Hello& hello) {
  const auto known = [](std::uint64_t bytes) {
    return bytes == 0 ? std::nullopt : std::optional<std::uint64_t>(bytes);
  };
  cluster::NodeFacts facts;
  facts.instance = said.instance;
  facts.version = said.version;
  facts.llama_pin = hello.llama_pin;
  facts.kernel_fingerprint = said.kernel_fingerprint;
  facts.wire_version_min = hello.wire_version_min;
  facts.wire_version = hello.wire_version;
  facts.processor = said.cpu;
  facts.core_count = said.cores;
  facts.memory_total_bytes = known(said.memory_total_bytes);
  facts.memory_free_bytes = known(said.memory_available_bytes);
  facts.disk_free_bytes = known(said.disk_free_bytes);
  for (const wire::NodeAddress& address : said.addresses) {
    facts.addresses.push_back(
        {address.endpoint, address.link, address.interface, address.speed_mbit});
  }
  return facts;
}

}  // namespace

Result<std::unique_ptr<Coordinator>> Coordinator::start(CoordinatorOptions options,
                                                        const Parts& parts) {
  auto service = std::make_unique<Service>(std::move(options), parts);
  RETURN_IF_ERROR(service->restore());
  return service;
}

Service::Service(CoordinatorOptions options, const Parts& parts)
    : options_(std::move(options)),
      parts_(parts),
      loop_(parts.clock, std::chrono::milliseconds(250), [this] { tick(); }) {}

Result<void> Service::restore() {
  RETURN_IF_ERROR(restore_members());
  RETURN_IF_ERROR(restore_deployments());
  loop_.start();
  return {};
}

Service::~Service() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    for (transport::Connection* connection : joining_) connection->shutdown();
    for (auto& [epoch, door] : results_) door.arrived->close();
  }
  (void)loop_.call(
      [this] {
        ended_ = true;
        for (auto& [id, session] : sessions_) session->close();
        for (auto& [model, entry] : entries_) {
          if (entry->pipeline) {
            entry->pipeline->fail_all(
                Error(ErrorCode::kCancelled, "the coordinator is shutting down"));
          }
        }
        return true;
      },
      false);
  connecting_.close();
  loop_.stop();
}

void Service::tell(ClusterEvent event) const {
  kLog.info(event.code, {{"node", event.node},
                         {"model", event.model},
                         {"state", event.state},
                         {"detail", event.detail}});
  if (options_.event) options_.event(event);
}

void Service::tick() {
  const TimePoint now = parts_.clock.now();
  if (now >= next_membership_tick_) {
    // From when it was due, so that the loop's own rhythm doesn't stretch the periods.
    next_membership_tick_ = std::max(next_membership_tick_, now - cluster::kTickPeriod);
    next_membership_tick_ += cluster::kTickPeriod;
    act(membership_->tick(now));
  }
  for (auto& [model, entry] : entries_) {
    if (entry->pipeline) {
      entry->sent.add(now, {.busy_us = entry->pipeline->client().working_us(),
                            .bytes_out = entry->pipeline->bytes_out(),
                            .out_busy_us = entry->pipeline->out_busy_us()});
    }
    act(*entry, entry->deployment.tick(now));
  }
}

bool Service::admits(const NodeId& node) const {
  MutexLock lock(mutex_);
  return admitted_.contains(node);
}

// --- the door ------------------------------------------------------------------------------------

pipeline::Terms Service::terms(const wire::Hello& hello, const transport::Connection& connection) {
  if (hello.role == wire::LinkRole::kData) return terms_of_data(hello, connection);
  pipeline::Terms terms;
  terms.local = {options_.llama_pin, "", PlanEpoch{0}, options_.wire_version, true};
  if (hello.role == wire::LinkRole::kNode) terms.allowed = only_members(connection);
  if (hello.role == wire::LinkRole::kJoin) {
    // A machine that joins may run another llama.cpp: it is told so by its first node link.
    terms.local.llama_pin = hello.llama_pin;
    if (connection.identity() == nullptr) {
      terms.allowed = fail(ErrorCode::kUnauthenticated, "joining needs a TLS link");
    }
  }
  return terms;
}

pipeline::Terms Service::terms_of_data(const wire::Hello& hello,
                                       const transport::Connection& connection) const {
  pipeline::Terms terms;
  terms.local = {options_.llama_pin, "", PlanEpoch{hello.epoch}, options_.wire_version, false};
  MutexLock lock(mutex_);
  const auto door = results_.find(PlanEpoch{hello.epoch});
  if (door == results_.end()) {
    terms.allowed = fail(ErrorCode::kStalePlan, "no results of this plan are expected");
    terms.local.certificate_suffices = true;
    return terms;
  }
  terms.local.auth_token = door->second.token;
  const transport::PeerIdentity* peer = connection.identity();
  if (peer == nullptr || peer->node != door->second.last_node) {
    terms.allowed = fail(ErrorCode::kPermissionDenied, "this is not the node of the last stage");
  }
  return terms;
}

void Service::admit(std::unique_ptr<transport::Connection> connection, const wire::Hello& hello) {
  const auto pass = connecting_.enter();
  if (!pass) return;
  switch (hello.role) {
    case wire::LinkRole::kNode:
      return serve_node(std::move(connection), hello);
    case wire::LinkRole::kJoin:
      return serve_join(*connection);
    case wire::LinkRole::kData: {
      MutexLock lock(mutex_);
      const auto door = results_.find(PlanEpoch{hello.epoch});
      if (door != results_.end()) (void)door->second.arrived->try_push(connection);
      return;
    }
    default:
      return;
  }
}

// --- node links ----------------------------------------------------------------------------------

void Service::serve_node(std::unique_ptr<transport::Connection> connection,
                         const wire::Hello& hello) {
  const NodeId node = connection->identity()->node;
  const auto session = std::make_shared<NodeSession>(cluster::LinkId{next_link_++}, node,
                                                     std::move(connection), parts_.clock);
  const auto facts = session->control().expect<wire::NodeFacts>(
      deadline_after(parts_.clock.now(), kFirstFrameTime));
  if (!facts) return;
  const bool posted = loop_.post([this, session, hello, facts = *facts] {
    if (ended_) return session->close();
    sessions_[session->id()] = session;
    act(membership_->link_up(session->id(), {.node = session->node(),
                                             .name = facts.name,
                                             .ephemeral = false,
                                             .facts = to_facts(facts, hello)}));
  });
  if (!posted) return;
  const Result<void> ended = read_node(session);
  (void)loop_.post([this, session, why = ended.error().message()] {
    act(membership_->link_down(session->id(), why));
    sessions_.erase(session->id());
  });
}

// Until the link ends. Pings are answered here, so that a busy loop doesn't look like a dead one.
Result<void> Service::read_node(const SessionPtr& session) {
  for (;;) {
    ASSIGN_OR_RETURN(const transport::IncomingFrame* frame, session->control().receive());
    if (frame->header.type == wire::FrameType::kPing) {
      ASSIGN_OR_RETURN(const auto ping, wire::decode_control<wire::Ping>(frame->body));
      RETURN_IF_ERROR(session->send(wire::Pong{.nonce = ping.nonce}));
    }
    const bool posted = loop_.post([this, session, header = frame->header, body = frame->body] {
      take_frame(session, header, body);
    });
    if (!posted) return fail(ErrorCode::kCancelled, "the coordinator is shutting down");
  }
}

void Service::take_frame(const SessionPtr& session, wire::FrameHeader header,
                         std::vector<std::byte> body) {
  if (!sessions_.contains(session->id())) return;
  membership_->heard(session->id());
  const Result<void> taken = take_node_frame(session, header, body);
  if (taken) return;
  kLog.warn("bad_frame", {{"node", session->node().value}, {"why", taken.error().message()}});
  session->close();
}

Result<void> Service::take_node_frame(const SessionPtr& session, const wire::FrameHeader& header,
                                      std::span<const std::byte> body) {
  switch (header.type) {
    case wire::FrameType::kPing:
      return {};
    case wire::FrameType::kPong: {
      ASSIGN_OR_RETURN(const auto pong, wire::decode_control<wire::Pong>(body));
      act(membership_->pong(session->id(), pong.nonce));
      return {};
    }
    case wire::FrameType::kNodeFacts: {
      ASSIGN_OR_RETURN(const auto said, wire::decode_control<wire::NodeFacts>(body));
      const cluster::Member* member = membership_->find(session->node());
      if (member == nullptr) return {};
      wire::Hello hello;
      hello.llama_pin = member->facts.llama_pin;
      hello.wire_version = member->facts.wire_version;
      hello.wire_version_min = member->facts.wire_version_min;
      act(membership_->facts_changed(session->id(), to_facts(said, hello)));
      return {};
    }
    case wire::FrameType::kNodeStatus:
      return take_status(session, body);
    case wire::FrameType::kMemberRequest:
      return take_member_request(session, body);
    default:
      // A link that waits for its probe, or was refused, has no say yet.
      if (membership_->link_of(session->node()) != session->id()) return {};
      return take_stage_frame(session, header, body);
  }
}

SessionPtr Service::session_of(const NodeId& node) const {
  const auto link = membership_->link_of(node);
  if (!link) return nullptr;
  const auto session = sessions_.find(*link);
  return session == sessions_.end() ? nullptr : session->second;
}

}  // namespace salvage::coordinator
