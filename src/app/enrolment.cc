#include "app/enrolment.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "app/command.h"
#include "app/machine.h"
#include "app/pause.h"
#include "app/words.h"
#include "base/ip_address.h"
#include "base/mutex.h"
#include "discovery/beacon_listener.h"
#include "identity/fingerprint.h"
#include "pipeline/control_link.h"
#include "transport/tls/tls_transport.h"
#include "wire/cluster.h"

namespace salvage::app {
namespace {

constexpr Duration kTryTime = std::chrono::seconds(4);     // one address
constexpr Duration kAskTime = std::chrono::seconds(5);     // an answer once the secret is sent
constexpr Duration kBeaconTime = std::chrono::seconds(6);  // beacons come every five seconds
constexpr Duration kLookTime = std::chrono::milliseconds(100);

Enrolment from_row(const state::NodeIdentity& row, NodeId id) {
  Enrolment enrolment;
  enrolment.identity = {row.key_pem, row.certificate_pem, row.authority_pem, std::move(id)};
  enrolment.cluster_id = row.cluster_id;
  enrolment.coordinator = row.coordinator;
  enrolment.coordinator_addresses = row.coordinator_addresses;
  enrolment.name = row.name;
  enrolment.ephemeral = row.ephemeral;
  return enrolment;
}

state::NodeIdentity to_row(const Enrolment& enrolment) {
  return {.key_pem = enrolment.identity.key_pem,
          .certificate_pem = enrolment.identity.certificate_pem,
          .authority_pem = enrolment.identity.authority_pem,
          .cluster_id = enrolment.cluster_id,
          .coordinator = enrolment.coordinator,
          .coordinator_addresses = enrolment.coordinator_addresses,
          .name = enrolment.name,
          .ephemeral = enrolment.ephemeral};
}

// This machine's key, made if it has none; without membership.
Result<identity::NodeKey> own_key(state::StateDb& state) {
  ASSIGN_OR_RETURN(const auto row, state.identity());
  if (row && !row->key_pem.empty()) return identity::read_node_key(row->key_pem);
  ASSIGN_OR_RETURN(identity::NodeKey key, identity::make_node_key());
  RETURN_IF_ERROR(state.put_identity({.key_pem = key.key_pem}));
  return key;
}

Result<identity::Authority> own_authority(state::StateDb& state, const std::string& name) {
  ASSIGN_OR_RETURN(const auto row, state.authority());
  if (row) {
    return identity::read_authority({.key = row->key_pem, .certificate = row->certificate_pem});
  }
  ASSIGN_OR_RETURN(identity::Authority made, identity::make_authority());
  RETURN_IF_ERROR(state.put_authority(
      {.key_pem = made.key_pem, .certificate_pem = made.certificate_pem, .cluster_name = name}));
  return made;
}

// --- joining -------------------------------------------------------------------------------------

// One conversation with one address: proves the other side, asks, and hears the answer.
class JoinTalk {
 public:
  JoinTalk(const JoinOptions& options, const Clock& clock) : options_(options), clock_(clock) {}

  Result<wire::JoinReply> at(transport::SecureTransport& transport, const std::string& address) {
    ASSIGN_OR_RETURN(const transport::Endpoint endpoint, transport::parse_endpoint(address));
    ASSIGN_OR_RETURN(const transport::JoinLink joined,
                     transport.connect_for_join(endpoint, options_.code.cluster_id,
                                                deadline_after(clock_.now(), kTryTime)));
    proved_ = true;
    const TimePoint deadline = deadline_after(clock_.now(), kAskTime);
    pipeline::ControlLink link(*joined.connection);
    RETURN_IF_ERROR(introduce(link, *joined.connection, deadline));
    RETURN_IF_ERROR(link.send(wire::JoinRequest{.invite = options_.code.invite_id,
                                                .secret = options_.code.secret,
                                                .name = options_.name},
                              deadline));
    ASSIGN_OR_RETURN(wire::JoinReply reply, link.expect<wire::JoinReply>(deadline));
    if (!reply.accepted) return fail(wire::parse_error_code(reply.error_code), reply.error);
    return reply;
  }

  // The coordinator itself was there, so what it said is the answer and no other address helps.
  bool proved() const { return proved_; }

 private:
  Result<void> introduce(pipeline::ControlLink& link, transport::Connection& connection,
                         TimePoint deadline) {
    wire::Hello hello;
    hello.wire_version = options_.wire_version;
    hello.llama_pin = kLlamaPin;
    hello.kernel_fingerprint = options_.kernel_fingerprint;
    hello.role = wire::LinkRole::kJoin;
    RETURN_IF_ERROR(link.send(hello, deadline));
    ASSIGN_OR_RETURN(const auto reply, link.expect<wire::HelloReply>(deadline));
    RETURN_IF_ERROR(wire::check_hello_reply(reply));
    connection.set_wire_version(static_cast<std::uint16_t>(reply.wire_version));
    return {};
  }

  const JoinOptions& options_;
  const Clock& clock_;
  bool proved_ = false;
};

struct Answered {
  wire::JoinReply reply;
  std::string address;
};

// Every address in its turn. `unavailable` with what each said, unless the coordinator spoke.
Result<Answered> ask(transport::SecureTransport& transport, const JoinOptions& options,
                     const std::vector<std::string>& addresses, const Clock& clock,
                     const StopToken& stop) {
  std::string reasons;
  for (const std::string& address : addresses) {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "interrupted");
    options.say(words("join.trying", address));
    JoinTalk talk(options, clock);
    auto reply = talk.at(transport, address);
    if (reply) return Answered{std::move(*reply), address};
    if (talk.proved()) return fail(std::move(reply).error());
    reasons += (reasons.empty() ? "" : "; ") + reply.error().message();
  }
  return fail(ErrorCode::kUnavailable, reasons);
}

// Where the cluster's coordinator says on the LAN that it is.
std::vector<std::string> listen_for_beacon(const JoinOptions& options, const Clock& clock,
                                           const StopToken& stop) {
  Mutex mutex;
  std::vector<std::string> found;
  discovery::BeaconListenerOptions wish;
  wish.cluster_id = options.code.cluster_id;
  wish.seen = [&](const discovery::Sighting& sighting) {
    MutexLock lock(mutex);
    if (!found.empty()) return;
    for (const discovery::BeaconAddress& address : sighting.addresses) {
      found.push_back(tls_endpoint(address.address, address.port));
    }
  };
  const auto listener = discovery::BeaconListener::start(std::move(wish), clock);
  if (!listener) return {};
  const TimePoint until = deadline_after(clock.now(), kBeaconTime);
  while (clock.now() < until && pause_for(kLookTime, stop)) {
    (*listener)->ask();
    MutexLock lock(mutex);
    if (!found.empty()) return found;
  }
  return {};
}

Result<Answered> find_and_ask(transport::SecureTransport& transport, const JoinOptions& options,
                              const Clock& clock, const StopToken& stop) {
  std::vector<std::string> addresses = options.addresses;
  for (const identity::JoinAddress& address : options.code.addresses) {
    const auto numeric = parse_ip_address(address.address);
    if (numeric) addresses.push_back(tls_endpoint(*numeric, address.port));
  }
  auto answered = ask(transport, options, addresses, clock, stop);
  if (answered || answered.error().code() != ErrorCode::kUnavailable) return answered;
  options.say(words("join.listening"));
  const std::vector<std::string> sighted = listen_for_beacon(options, clock, stop);
  if (sighted.empty()) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("the coordinator was not found: {}; is `salvage up` running there, and "
                            "can this machine reach it?",
                            answered.error().message()));
  }
  return ask(transport, options, sighted, clock, stop);
}

Result<Enrolment> enrol(const identity::NodeKey& key, const JoinOptions& options,
                        const Answered& answered) {
  const wire::JoinReply& reply = answered.reply;
  ASSIGN_OR_RETURN(const std::string cluster_id, identity::cluster_id_of(reply.authority));
  if (cluster_id != options.code.cluster_id) {
    return fail(ErrorCode::kUnauthenticated, "the coordinator sent another cluster's authority");
  }
  ASSIGN_OR_RETURN(const auto facts,
                   identity::check_certificate(reply.certificate, reply.authority));
  if (facts.node != key.id) {
    return fail(ErrorCode::kUnauthenticated, "the coordinator signed another machine's key");
  }
  Enrolment enrolment;
  enrolment.identity = {key.key_pem, reply.certificate, reply.authority, key.id};
  enrolment.cluster_id = cluster_id;
  enrolment.cluster_name = reply.cluster_name;
  ASSIGN_OR_RETURN(enrolment.coordinator, identity::parse_node_id(reply.coordinator));
  enrolment.coordinator_addresses = {answered.address};
  enrolment.name = reply.name;
  enrolment.ephemeral = reply.ephemeral;
  return enrolment;
}

}  // namespace

Result<Enrolment> found_cluster(state::StateDb& state, const std::string& name) {
  ASSIGN_OR_RETURN(const identity::NodeKey key, own_key(state));
  ASSIGN_OR_RETURN(const auto row, state.identity());
  ASSIGN_OR_RETURN(const auto stored, state.authority());
  if (row && !row->certificate_pem.empty() && !stored) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("this machine has joined the cluster {}; start it with `salvage join`, "
                            "or leave with `salvage leave` before it becomes a coordinator",
                            identity::short_form(row->cluster_id)));
  }
  ASSIGN_OR_RETURN(identity::Authority authority, own_authority(state, name));
  Enrolment enrolment;
  if (row && !row->certificate_pem.empty()) {
    enrolment = from_row(*row, key.id);
    RETURN_IF_ERROR(identity::check_identity(enrolment.identity));
  } else {
    ASSIGN_OR_RETURN(std::string certificate,
                     identity::issue_certificate(authority, key.public_key_pem,
                                                 identity::NodeRole::kCoordinator));
    enrolment.identity = {key.key_pem, std::move(certificate), authority.certificate_pem, key.id};
    enrolment.cluster_id = authority.cluster_id;
    enrolment.coordinator = key.id;
    enrolment.name = name;
    RETURN_IF_ERROR(state.put_identity(to_row(enrolment)));
  }
  enrolment.founded = !stored;
  enrolment.cluster_name = stored ? stored->cluster_name : name;
  enrolment.authority = std::move(authority);
  return enrolment;
}

Result<std::optional<Enrolment>> open_membership(state::StateDb& state) {
  ASSIGN_OR_RETURN(const auto authority, state.authority());
  if (authority) {
    return fail(ErrorCode::kInvalidArgument,
                "this machine is a cluster's coordinator; start it with `salvage up`");
  }
  ASSIGN_OR_RETURN(const auto row, state.identity());
  if (!row || row->certificate_pem.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(const identity::NodeKey key, identity::read_node_key(row->key_pem));
  Enrolment enrolment = from_row(*row, key.id);
  RETURN_IF_ERROR(identity::check_identity(enrolment.identity));
  return enrolment;
}

Result<Enrolment> join_cluster(state::StateDb& state, const JoinOptions& options,
                               const Clock& clock, const StopToken& stop) {
  ASSIGN_OR_RETURN(const identity::NodeKey key, own_key(state));
  transport::TlsOptions tls;
  tls.identity = {key.key_pem, "", "", key.id};
  ASSIGN_OR_RETURN(const auto transport, transport::make_tls_transport(tls));
  ASSIGN_OR_RETURN(const Answered answered, find_and_ask(*transport, options, clock, stop));
  ASSIGN_OR_RETURN(Enrolment enrolment, enrol(key, options, answered));
  RETURN_IF_ERROR(state.put_identity(to_row(enrolment)));
  return enrolment;
}

}  // namespace salvage::app
