#pragma once

// The coordinator's side of discovery: says every five seconds, and at once when a member asks, at
// which addresses the coordinator is. Lives as long as the coordinator does; a LAN that refuses
// multicast only means that nobody is helped.
//
// Threads: one of its own, which also calls `addresses`. Everything else from any thread.

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

struct BeaconSenderOptions {
  std::string cluster_id;
  std::string key_pem;          // of the coordinator's node identity
  std::string certificate_pem;  // with the role of a coordinator
  NodeId coordinator;
  // Asked before each beacon; best first, those over kAddressesMax are left out.
  std::function<std::vector<BeaconAddress>()> addresses;
  MulticastOptions multicast;
};

class BeaconSender {
 public:
  static Result<std::unique_ptr<BeaconSender>> start(BeaconSenderOptions options,
                                                     const Clock& clock);
  ~BeaconSender();
  BeaconSender(const BeaconSender&) = delete;
  BeaconSender& operator=(const BeaconSender&) = delete;

 private:
  BeaconSender(BeaconSenderOptions options, Beacon blank, const Clock& clock,
               std::unique_ptr<MulticastSocket> socket);
  void run();
  void send_beacon();
  void take(std::span<const std::byte> datagram);

  const BeaconSenderOptions options_;
  const Clock& clock_;
  const std::unique_ptr<MulticastSocket> socket_;
  Beacon beacon_;        // of the thread
  BeaconRhythm rhythm_;  // of the thread
  StopSource stop_;
  std::thread thread_;
};

}  // namespace salvage::discovery
