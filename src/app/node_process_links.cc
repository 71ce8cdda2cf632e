// The running program's links: who comes in at the door, and the agent's way to its coordinator.

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "app/command.h"
#include "app/node_process.h"
#include "app/words.h"
#include "base/log.h"

namespace salvage::app {
namespace {

constexpr Logger kLog("node");

bool for_coordinator(wire::LinkRole role) {
  return role == wire::LinkRole::kNode || role == wire::LinkRole::kJoin ||
         role == wire::LinkRole::kData;
}

std::string with_node(const std::string& endpoint, const NodeId& node) {
  return fmt::format("{}/{}", endpoint, node.value);
}

}  // namespace

// --- the door ------------------------------------------------------------------------------------

void NodeProcess::start_door(std::unique_ptr<transport::Listener> listener) {
  std::vector<std::unique_ptr<transport::Listener>> listeners;
  listeners.push_back(std::move(listener));
  door_ = std::make_unique<pipeline::Door>(
      std::move(listeners), pipeline::DoorOptions{.hello_time = std::chrono::seconds(5)},
      [this](const wire::Hello& hello, const transport::Connection& connection) {
        return terms(hello, connection);
      },
      [this](std::unique_ptr<transport::Connection> connection, const wire::Hello& hello) {
        admit(std::move(connection), hello);
      },
      clock_);
}

pipeline::Terms NodeProcess::terms(const wire::Hello& hello,
                                   const transport::Connection& connection) {
  pipeline::Terms terms;
  terms.local = {.llama_pin = kLlamaPin,
                 .auth_token = {},
                 .epoch = PlanEpoch{hello.epoch},
                 .wire_version = options_.wire_version,
                 .certificate_suffices = true};
  if (for_coordinator(hello.role)) {
    const auto pass = callers_.enter();
    if (!pass) {
      terms.allowed = fail(ErrorCode::kUnavailable, "salvage is ending here");
      return terms;
    }
    if (coordinator_) return coordinator_->terms(hello, connection);
    terms.allowed = fail(ErrorCode::kInvalidArgument, "this machine is not the coordinator");
    return terms;
  }
  const transport::PeerIdentity* peer = connection.identity();
  if (hello.role != wire::LinkRole::kWeights) {
    terms.allowed =
        fail(ErrorCode::kInvalidArgument,
             fmt::format("a link of role {} is not taken here", wire::link_role_name(hello.role)));
  } else if (peer == nullptr || !peer->member) {
    terms.allowed = fail(ErrorCode::kPermissionDenied, "only members are given weights");
  }
  return terms;
}

void NodeProcess::admit(std::unique_ptr<transport::Connection> connection,
                        const wire::Hello& hello) {
  if (!for_coordinator(hello.role)) return agent_->serve_weights(std::move(connection));
  const auto pass = callers_.enter();
  const transport::PeerIdentity* peer = connection->identity();
  if (!pass || peer == nullptr || !coordinator_) return;
  const NodeId node = peer->node;
  {
    MutexLock lock(mutex_);
    if (ending_) return;
    served_.insert(node);
  }
  coordinator_->admit(std::move(connection), hello);
  MutexLock lock(mutex_);
  served_.erase(served_.find(node));
}

bool NodeProcess::is_admitted(const NodeId& node) const {
  if (enrolment_.authority) return coordinator_->admits(node);
  return view_.admits(node);
}

std::string NodeProcess::coordinator_text() const {
  const std::string name = view_.name_of(enrolment_.coordinator);
  const auto addresses = view_.coordinator_addresses();
  if (addresses.empty()) return name;
  return name.empty() ? addresses.front() : fmt::format("{} ({})", name, addresses.front());
}

// --- the agent's link ----------------------------------------------------------------------------

agent::NodeAgentEvents NodeProcess::agent_events() {
  agent::NodeAgentEvents events;
  events.coordinator_addresses = [this] { return coordinator_endpoints(); };
  events.facts = [this] { return facts(); };
  events.status = [this] { return machine_->status(); };
  events.view = [this](const wire::ClusterView& view) { on_view(view); };
  events.link_up = [this] {
    {
      MutexLock lock(mutex_);
      problem_.clear();
    }
    if (!coordinator_) say(words("event.linked"));
  };
  events.link_down = [this](const Error& error, Duration /*retry_in*/) { on_link_down(error); };
  events.refused = [this](const Error& error) { on_refused(error); };
  return events;
}

// Where it answered or says that it is, then where it was heard on the LAN.
std::vector<transport::Endpoint> NodeProcess::coordinator_endpoints() const {
  std::vector<std::string> texts;
  if (enrolment_.authority) {
    texts.push_back(fmt::format("tls:127.0.0.1:{}", port_));
  } else {
    MutexLock lock(mutex_);
    texts = sighted_addresses_;
    texts.insert(texts.end(), known_addresses_.begin(), known_addresses_.end());
  }
  std::vector<transport::Endpoint> endpoints;
  for (const std::string& text : texts) {
    const auto endpoint = transport::parse_endpoint(with_node(text, enrolment_.coordinator));
    const bool news =
        endpoint && std::find(endpoints.begin(), endpoints.end(), *endpoint) == endpoints.end();
    if (news) endpoints.push_back(*endpoint);
  }
  return endpoints;
}

wire::NodeFacts NodeProcess::facts() const {
  wire::NodeFacts facts = machine_->facts();
  facts.name = name();
  facts.view_version = view_.view().version;
  return facts;
}

void NodeProcess::on_view(const wire::ClusterView& view) {
  const std::vector<NodeId> out = view_.update(view);
  for (const NodeId& node : out) tls_->close_peer(node);
  const std::string name = view_.name_of(enrolment_.identity.id);
  {
    MutexLock lock(mutex_);
    if (!name.empty()) name_ = name;
    sighted_addresses_.clear();  // the link stands: what the coordinator says counts
  }
  if (!enrolment_.authority) remember_coordinator();
}

// For the next start, too.
void NodeProcess::remember_coordinator() {
  const std::vector<std::string> addresses = view_.coordinator_addresses();
  std::string name;
  {
    MutexLock lock(mutex_);
    if (addresses.empty() || (addresses == known_addresses_ && name_ == known_name_)) return;
    known_addresses_ = addresses;
    name = known_name_ = name_;
  }
  MutexLock lock(row_mutex_);
  if (forgotten_) return;
  auto row = state_.identity();
  if (!row || !*row) return;
  (*row)->coordinator_addresses = addresses;
  (*row)->name = name;
  const Result<void> kept = state_.put_identity(**row);
  if (!kept) kLog.warn("addresses_not_kept", {{"why", kept.error().message()}});
}

void NodeProcess::on_link_down(const Error& error) {
  if (error.code() == ErrorCode::kPermissionDenied) return on_refused(error);
  {
    MutexLock lock(mutex_);
    if (problem_ == error.message()) return;  // said already
    problem_ = error.message();
  }
  if (!coordinator_) say(words("event.unlinked", error.message()));
}

void NodeProcess::on_refused(const Error& error) {
  if (coordinator_) return;
  finish(fail(error.code(), words("join.refused", error.message())));
}

void NodeProcess::on_sighting(const discovery::Sighting& sighting) {
  if (!sighting.checked || sighting.coordinator != enrolment_.coordinator) return;
  {
    MutexLock lock(mutex_);
    sighted_addresses_.clear();
    for (const discovery::BeaconAddress& address : sighting.addresses) {
      sighted_addresses_.push_back(tls_endpoint(address.address, address.port));
    }
  }
  if (started_ && !agent_->connected()) agent_->retry_now();
}

}  // namespace salvage::app
