#pragma once

// This machine as it tells others of itself: name, memory, cores, disk, addresses. Figures are read
// anew at each call; what cannot be read is 0 in messages, which means unknown there.
// Thread rule: any thread, once made.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "discovery/beacon.h"
#include "discovery/local_addresses.h"
#include "identity/join_code.h"
#include "wire/cluster.h"

namespace salvage::app {

struct MachineOptions {
  std::string version;
  std::string kernel_fingerprint;
  std::filesystem::path folder;  // whose disk counts
  std::uint16_t port = 0;        // of the door
};

class Machine {
 public:
  static Result<Machine> look(const MachineOptions& options);

  // Without name and view version, which others know.
  wire::NodeFacts facts() const;
  wire::NodeStatus status() const;

  // Where others reach this machine, best first; loopback only if there is nothing else.
  std::vector<discovery::LocalAddress> addresses() const;
  std::vector<identity::JoinAddress> join_addresses() const;
  std::vector<discovery::BeaconAddress> beacon_addresses() const;

  const std::string& instance() const { return instance_; }

 private:
  Machine(MachineOptions options, std::string instance)
      : options_(std::move(options)), instance_(std::move(instance)) {}
  MachineOptions options_;
  std::string instance_;  // random, one a process
};

// "tls:192.168.1.20:7420", "tls:[fd00::2]:7420"
std::string tls_endpoint(const IpAddress& address, std::uint16_t port);

}  // namespace salvage::app
