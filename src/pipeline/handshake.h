#pragma once

// The first two frames of every connection: Hello from the side that connected, HelloReply from the
// one that listened. Nothing else is read from or sent to a peer before both agree.
// Thread rule: none shared; each call owns its connection.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/clock.h"
#include "base/result.h"
#include "base/stop.h"
#include "transport/transport.h"
#include "wire/control.h"

namespace salvage::pipeline {

struct DialedLink {
  std::unique_ptr<transport::Connection> connection;
  std::uint32_t credits = 0;  // micro-batches that may be sent at once
};

// Connects and introduces us. Fails with the listener's own reason if it refuses. `stop` ends the
// wait for its answer.
Result<DialedLink> dial(transport::Transport& transport, const transport::Endpoint& endpoint,
                        const wire::Hello& hello, TimePoint deadline, const StopToken& stop = {});

// The first of several addresses of the same machine that answers, each in its turn. Fails with
// what each said, or at once with `permission_denied` if we are not let in there.
Result<DialedLink> dial_any(transport::Transport& transport,
                            std::span<const transport::Endpoint> endpoints,
                            const wire::Hello& hello, TimePoint deadline,
                            const StopToken& stop = {});

// What a listener says to one Hello: who we are, and what a data link may send at once.
struct Terms {
  wire::LocalVersion local;
  std::uint32_t initial_credits = 0;
  Result<void> allowed = {};  // a failure is told to a peer that is otherwise in order
};

// Reads the Hello of an accepted connection, asks `terms` (which may wait until it knows), and
// answers. `deadline` is for the Hello. Fails if the peer was refused or wrong; the connection is
// then useless.
Result<wire::Hello> welcome(transport::Connection& connection,
                            const std::function<Terms(const wire::Hello&)>& terms,
                            TimePoint deadline);

}  // namespace salvage::pipeline
