#include "pipeline/handshake.h"

#include "pipeline/control_link.h"

namespace salvage::pipeline {

Result<DialedLink> dial(transport::Transport& transport, const transport::Endpoint& endpoint,
                        const wire::Hello& hello, TimePoint deadline, const StopToken& stop) {
  ASSIGN_OR_RETURN(auto connection, transport.connect(endpoint, deadline));
  const std::stop_callback wake(stop, [raw = connection.get()] { raw->shutdown(); });
  ControlLink link(*connection);
  RETURN_IF_ERROR(link.send(hello, deadline));
  ASSIGN_OR_RETURN(const wire::HelloReply reply, link.expect<wire::HelloReply>(deadline));
  RETURN_IF_ERROR(wire::check_hello_reply(reply));
  connection->set_wire_version(static_cast<std::uint16_t>(reply.wire_version));
  return DialedLink{std::move(connection), reply.initial_credits};
}

Result<DialedLink> dial_any(transport::Transport& transport,
                            std::span<const transport::Endpoint> endpoints,
                            const wire::Hello& hello, TimePoint deadline, const StopToken& stop) {
  std::string reasons;
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    // What is left is shared by those that are left: one dead address must not use up all of it.
    const TimePoint now = SteadyClock().now();
    const TimePoint turn = deadline == kNoDeadline
                               ? deadline
                               : now + (deadline - now) / static_cast<int>(endpoints.size() - i);
    auto link = dial(transport, endpoints[i], hello, turn, stop);
    if (link || endpoints.size() == 1 || stop.stop_requested()) return link;
    // Who we looked for was there and lets us in nowhere.
    if (link.error().code() == ErrorCode::kPermissionDenied) return link;
    reasons += (i == 0 ? "" : "; ") + link.error().message();
  }
  return fail(ErrorCode::kUnavailable, reasons.empty() ? "no address is known" : reasons);
}

Result<wire::Hello> welcome(transport::Connection& connection,
                            const std::function<Terms(const wire::Hello&)>& terms,
                            TimePoint deadline) {
  ControlLink link(connection);
  ASSIGN_OR_RETURN(wire::Hello hello, link.expect<wire::Hello>(deadline));
  const Terms ours = terms(hello);
  wire::HelloReply reply = wire::answer_hello(hello, ours.local, ours.initial_credits);
  if (reply.accepted && !ours.allowed) {
    reply.accepted = false;
    reply.error_code = error_code_name(ours.allowed.error().code());
    reply.error = ours.allowed.error().message();
  }
  // `terms` may have used up the time for the Hello; a reply of some bytes never waits for its
  // peer.
  RETURN_IF_ERROR(link.send(reply));
  RETURN_IF_ERROR(wire::check_hello_reply(reply));
  connection.set_wire_version(static_cast<std::uint16_t>(reply.wire_version));
  return hello;
}

}  // namespace salvage::pipeline
