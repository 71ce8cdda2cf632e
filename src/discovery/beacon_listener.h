#pragma once

// A member's side of discovery, and a joiner's: hears the beacons of its cluster and can ask for
// one. What it hears are addresses to try, never a proof of anything: who is there shows in the
// handshake.
//
// Threads: one of its own, which calls `seen`; ask() from any thread.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/stop.h"
#include "discovery/beacon.h"
#include "discovery/rhythm.h"
#include "discovery/socket/multicast_socket.h"

namespace salvage::discovery {

struct Sighting {
  NodeId coordinator;
  // Best first, as the coordinator says. The last is where the datagram itself came from: that
  // one nobody has signed, and an IPv6 one is link-local and needs `source_interface`.
  std::vector<BeaconAddress> addresses;
  std::string source_interface;
  bool checked = false;  // signed by the coordinator; false only for who knows no authority yet
};

struct BeaconListenerOptions {
  std::string cluster_id;     // beacons of others are ignored
  std::string authority_pem;  // empty: not a member yet, nothing can be checked
  std::function<void(const Sighting&)> seen;
  MulticastOptions multicast;
};

class BeaconListener {
 public:
  static Result<std::unique_ptr<BeaconListener>> start(BeaconListenerOptions options,
                                                       const Clock& clock);
  ~BeaconListener();
  BeaconListener(const BeaconListener&) = delete;
  BeaconListener& operator=(const BeaconListener&) = delete;

  // Asks the LAN where the coordinator is; at most once a second, whoever calls.
  void ask();

 private:
  BeaconListener(BeaconListenerOptions options, const Clock& clock,
                 std::unique_ptr<MulticastSocket> socket);
  void run();
  void send_query(TimePoint now);
  void take(std::span<const std::byte> datagram, const DatagramSource& source);

  const BeaconListenerOptions options_;
  const Clock& clock_;
  const std::unique_ptr<MulticastSocket> socket_;
  BeaconFilter filter_;   // of the thread
  TimePoint next_query_;  // of the thread
  std::atomic<bool> asked_ = false;
  StopSource stop_;
  std::thread thread_;
};

}  // namespace salvage::discovery
