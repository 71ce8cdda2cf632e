// A machine of another wire version, for hosts of the test network (cluster_test.py). It speaks our
// TLS and our hello, and says that it knows the wire versions FIRST to LAST:
//
//   version_peer join CODE FIRST LAST                     knocks as a machine that wants to join
//   version_peer member FOLDER ROLE ENDPOINT FIRST LAST   as the member whose data folder this is
//   version_peer coordinator ADDRESS PORT FIRST LAST      prints a join code, refuses who comes
//
// The first two print what they are told: "accepted" or "refused: ...". A member's process must not
// run meanwhile.

#include <charconv>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "identity/authority.h"
#include "identity/join_code.h"
#include "pipeline/control_link.h"
#include "state/state_db.h"
#include "transport/tls/tls_transport.h"

namespace salvage {
namespace {

constexpr auto kTalkTime = std::chrono::seconds(10);

struct Versions {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

TimePoint soon() {
  return deadline_after(SteadyClock().now(), kTalkTime);
}

// The last two arguments.
Result<Versions> versions_of(const std::vector<std::string>& arguments) {
  Versions versions;
  std::uint16_t* into[] = {&versions.first, &versions.last};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string& text = arguments.at(arguments.size() - 2 + i);
    const auto read = std::from_chars(text.data(), text.data() + text.size(), *into[i]);
    if (read.ec != std::errc{}) return fail(ErrorCode::kInvalidArgument, text);
  }
  return versions;
}

Result<void> knock(transport::Connection& connection, wire::LinkRole role, Versions versions) {
  wire::Hello hello{.wire_version = versions.last, .wire_version_min = versions.first};
  hello.llama_pin = "v0.0.0";
  hello.role = role;
  connection.set_wire_version(versions.first);
  pipeline::ControlLink link(connection);
  RETURN_IF_ERROR(link.send(hello, soon()));
  ASSIGN_OR_RETURN(const auto reply, link.expect<wire::HelloReply>(soon()));
  std::cout << (reply.accepted ? "accepted" : "refused: " + reply.error) << std::endl;
  return {};
}

Result<void> knock_to_join(const std::string& text, Versions versions) {
  ASSIGN_OR_RETURN(const identity::JoinCode code, identity::parse_join_code(text));
  ASSIGN_OR_RETURN(const identity::NodeKey key, identity::make_node_key());
  transport::TlsOptions tls;
  tls.identity = {key.key_pem, "", "", key.id};
  ASSIGN_OR_RETURN(const auto transport, transport::make_tls_transport(tls));
  const identity::JoinAddress& address = code.addresses.at(0);
  const bool six = address.address.find(':') != std::string::npos;
  const transport::Endpoint endpoint{
      .kind = six ? transport::EndpointKind::kTls6 : transport::EndpointKind::kTls4,
      .address = address.address,
      .port = address.port};
  ASSIGN_OR_RETURN(const auto joined,
                   transport->connect_for_join(endpoint, code.cluster_id, soon()));
  return knock(*joined.connection, wire::LinkRole::kJoin, versions);
}

Result<wire::LinkRole> role_of(const std::string& name) {
  for (const auto role : {wire::LinkRole::kNode, wire::LinkRole::kWeights}) {
    if (wire::link_role_name(role) == name) return role;
  }
  return fail(ErrorCode::kInvalidArgument, name);
}

Result<void> knock_as_member(const std::vector<std::string>& arguments, Versions versions) {
  ASSIGN_OR_RETURN(const auto state, state::StateDb::open(arguments.at(0), {}));
  ASSIGN_OR_RETURN(const auto row, state->identity());
  if (!row) return fail(ErrorCode::kNotFound, "no identity in " + arguments.at(0));
  ASSIGN_OR_RETURN(const identity::NodeKey key, identity::read_node_key(row->key_pem));
  transport::TlsOptions tls;
  tls.identity = {row->key_pem, row->certificate_pem, row->authority_pem, key.id};
  ASSIGN_OR_RETURN(const auto transport, transport::make_tls_transport(tls));
  ASSIGN_OR_RETURN(const wire::LinkRole role, role_of(arguments.at(1)));
  ASSIGN_OR_RETURN(const auto endpoint, transport::parse_endpoint(arguments.at(2)));
  ASSIGN_OR_RETURN(const auto connection, transport->connect(endpoint, soon()));
  return knock(*connection, role, versions);
}

// --- the other side ------------------------------------------------------------------------------

// Tells one visitor that the versions don't meet, in words of its own.
Result<void> refuse(transport::Connection& connection, Versions versions) {
  pipeline::ControlLink link(connection);
  ASSIGN_OR_RETURN(const auto hello, link.expect<wire::Hello>(soon()));
  wire::HelloReply reply{.accepted = false, .wire_version = versions.last};
  reply.error_code = error_code_name(ErrorCode::kUnsupported);
  reply.error = fmt::format("you speak wire versions {} to {}, we {} to {}", hello.wire_version_min,
                            hello.wire_version, versions.first, versions.last);
  connection.set_wire_version(versions.first);
  RETURN_IF_ERROR(link.send(reply, soon()));
  (void)link.receive(soon());  // until it has gone
  return {};
}

Result<std::string> code_for(const identity::Authority& authority,
                             const identity::JoinAddress& address) {
  ASSIGN_OR_RETURN(const identity::InviteSecret invite, identity::make_invite_secret());
  return identity::encode_join_code(
      {authority.cluster_id, invite.invite_id, invite.secret, {address}});
}

Result<void> be_coordinator(const std::string& address, const std::string& port, Versions versions,
                            const StopToken& stop) {
  ASSIGN_OR_RETURN(const identity::Authority authority, identity::make_authority());
  ASSIGN_OR_RETURN(const identity::NodeKey key, identity::make_node_key());
  ASSIGN_OR_RETURN(
      const std::string certificate,
      identity::issue_certificate(authority, key.public_key_pem, identity::NodeRole::kCoordinator));
  transport::TlsOptions tls;
  tls.identity = {key.key_pem, certificate, authority.certificate_pem, key.id};
  ASSIGN_OR_RETURN(const auto transport, transport::make_tls_transport(tls));
  ASSIGN_OR_RETURN(const auto endpoint,
                   transport::parse_endpoint(fmt::format("tls:{}:{}", address, port)));
  ASSIGN_OR_RETURN(const auto listener, transport->listen_for_joiners(endpoint));
  ASSIGN_OR_RETURN(const std::string code, code_for(authority, {address, endpoint.port}));
  std::cout << code << std::endl;
  const std::stop_callback wake(stop, [&listener] { listener->shutdown(); });
  while (!stop.stop_requested()) {
    ASSIGN_OR_RETURN(const auto connection, listener->accept());
    const auto refused = refuse(*connection, versions);
    if (!refused) std::cerr << refused.error().message() << std::endl;
  }
  return {};
}

Result<void> run(const std::vector<std::string>& arguments, const StopToken& stop) {
  const std::string verb = arguments.empty() ? "" : arguments.front();
  const std::vector<std::string> rest(arguments.begin() + !arguments.empty(), arguments.end());
  if (rest.size() < 3) {
    return fail(ErrorCode::kInvalidArgument,
                "usage: version_peer join|member|coordinator ... FIRST LAST");
  }
  ASSIGN_OR_RETURN(const Versions versions, versions_of(rest));
  if (verb == "join" && rest.size() == 3) return knock_to_join(rest[0], versions);
  if (verb == "member" && rest.size() == 5) return knock_as_member(rest, versions);
  if (verb == "coordinator" && rest.size() == 4) {
    return be_coordinator(rest[0], rest[1], versions, stop);
  }
  return fail(ErrorCode::kInvalidArgument, "see the head of version_peer.cc");
}

}  // namespace
}  // namespace salvage

int main(int argc, char** argv) {
  const salvage::StopSource interrupt = salvage::install_interrupt();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto done = salvage::run(arguments, interrupt.get_token());
  if (done) return 0;
  std::cerr << "version_peer: " << done.error().message() << '\n';
  return 1;
}
