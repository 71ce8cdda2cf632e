#pragma once

// Who this machine is in its cluster: founding one, joining one, and finding on the disk what was
// decided before. The node's key is made once and stays; membership comes and goes.
// Thread rule: one thread. Failures say what to do, by the name of the command.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/stop.h"
#include "identity/authority.h"
#include "identity/join_code.h"
#include "identity/node_identity.h"
#include "state/state_db.h"
#include "wire/frame.h"

namespace salvage::app {

struct Enrolment {
  identity::NodeIdentity identity;
  std::string cluster_id;
  std::string cluster_name;  // empty on a node that has not heard it in this run
  NodeId coordinator;
  std::vector<std::string> coordinator_addresses;  // "tls:192.168.1.20:7420"
  std::string name;                                // of this machine
  bool ephemeral = false;
  bool founded = false;                          // a new cluster, just now
  std::optional<identity::Authority> authority;  // on the coordinator's machine alone
};

// The cluster whose coordinator this machine is; a new one if there is none. Refused on a machine
// that has joined another.
Result<Enrolment> found_cluster(state::StateDb& state, const std::string& name);

// What this machine joined; nothing if it has not.
Result<std::optional<Enrolment>> open_membership(state::StateDb& state);

struct JoinOptions {
  identity::JoinCode code;
  std::vector<std::string> addresses;  // "tls:...": tried before those of the code
  std::string name;
  std::string kernel_fingerprint;
  std::uint32_t wire_version = wire::kWireVersion;
  // What is tried, one line each, for people.
  std::function<void(const std::string&)> say;
};

// The coordinator's fingerprint is compared with the code's before the secret is sent. If none of
// the code's addresses has it, its beacon is listened for.
Result<Enrolment> join_cluster(state::StateDb& state, const JoinOptions& options,
                               const Clock& clock, const StopToken& stop);

}  // namespace salvage::app
