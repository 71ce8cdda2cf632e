#pragma once

// One node link as the coordinator holds it: who is at its other end and how to write to it. The
// thread that reads it belongs to the door. Thread rule: send() and close() from any thread.

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/ids.h"
#include "cluster/membership.h"
#include "pipeline/control_link.h"
#include "transport/transport.h"
#include "wire/cluster.h"

namespace salvage::coordinator {

class NodeSession {
 public:
  // A node whose socket takes nothing for so long counts as gone; the loop waits no longer.
  static constexpr auto kSendTime = std::chrono::seconds(1);

  NodeSession(cluster::LinkId id, NodeId node, std::unique_ptr<transport::Connection> connection,
              const Clock& clock)
      : id_(id),
        node_(std::move(node)),
        connection_(std::move(connection)),
        control_(*connection_),
        clock_(clock) {}

  cluster::LinkId id() const { return id_; }
  const NodeId& node() const { return node_; }
  std::string peer() const { return connection_->peer(); }
  pipeline::ControlLink& control() { return control_; }

  template <typename Message>
  Result<void> send(const Message& message, PlanEpoch epoch = {}) {
    auto sent = control_.send(message, deadline_after(clock_.now(), kSendTime), epoch);
    if (!sent) close();
    return sent;
  }
  void close() { connection_->shutdown(); }

 private:
  const cluster::LinkId id_;
  const NodeId node_;
  const std::unique_ptr<transport::Connection> connection_;
  pipeline::ControlLink control_;
  const Clock& clock_;
};

}  // namespace salvage::coordinator
