#include "pipeline/handshake.h"

#include "pipeline/control_link.h"

namespace salvage::pipeline {

Result<DialedLink> dial(transport::Transport& transport, const transport::Endpoint& endpoint,
                        const wire::Hello& hello, TimePoint deadline) {
  ASSIGN_OR_RETURN(auto connection, transport.connect(endpoint, deadline));
  ControlLink link(*connection);
  RETURN_IF_ERROR(link.send(hello, deadline));
  ASSIGN_OR_RETURN(const wire::HelloReply reply, link.expect<wire::HelloReply>(deadline));
  RETURN_IF_ERROR(wire::check_hello_reply(reply));
  return DialedLink{std::move(connection), reply.initial_credits};
}

Result<wire::Hello> welcome(transport::Connection& connection,
                            const std::function<Terms(const wire::Hello&)>& terms,
                            TimePoint deadline) {
  ControlLink link(connection);
  ASSIGN_OR_RETURN(wire::Hello hello, link.expect<wire::Hello>(deadline));
  const Terms ours = terms(hello);
  const wire::HelloReply reply = wire::answer_hello(hello, ours.local, ours.initial_credits);
  // `terms` may have used up the time for the Hello; a reply of some bytes never waits for its
  // peer.
  RETURN_IF_ERROR(link.send(reply));
  RETURN_IF_ERROR(wire::check_hello_reply(reply));
  return hello;
}

}  // namespace salvage::pipeline
