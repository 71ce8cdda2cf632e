#pragma once

// The system's multicast sockets: for every interface that can do it, one for IPv4 (239.255.74.20)
// and one for IPv6 (ff02::7420), bound to the group itself, so that no datagram sent to this
// machine alone ever arrives. Interfaces come and go; refresh() follows them. Several programs of
// one machine may listen at once.
//
// Failure: an interface that refuses is left out; with none at all nothing is sent or heard until a
// later refresh(). Thread rule: one owner; wake() from any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/ip_address.h"
#include "base/result.h"

namespace salvage::discovery {

inline constexpr std::uint16_t kBeaconPort = 7420;
inline constexpr std::size_t kInterfacesMax = 32;  // more have their beacons from fewer

struct DatagramSource {
  IpAddress address;
  std::string interface;  // on which it came
};

struct MulticastOptions {
  std::uint16_t port = kBeaconPort;
  bool loopback_only = false;  // nothing leaves this machine: for tests
};

class MulticastSocket {
 public:
  static Result<std::unique_ptr<MulticastSocket>> open(const MulticastOptions& options);
  ~MulticastSocket();
  MulticastSocket(const MulticastSocket&) = delete;
  MulticastSocket& operator=(const MulticastSocket&) = delete;

  // Joins on interfaces that are new or have come up, forgets those that are gone.
  void refresh();

  // To both groups, on every interface. How many sockets took it.
  std::size_t send(std::string_view datagram);

  // Waits until something has come, wake() was called or the time is over; hands over what is
  // there, at most kReceivedAtOnce datagrams, none longer than beacon.h allows.
  using Receiver = std::function<void(std::span<const std::byte>, const DatagramSource&)>;
  void receive(TimePoint now, TimePoint deadline, const Receiver& receiver);

  void wake();

  std::size_t socket_count() const { return sockets_.size(); }

 private:
  struct Key {
    unsigned interface = 0;  // the system's index
    bool v6 = false;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Joined {
    int descriptor = -1;
    std::string name;
  };
  MulticastSocket(int wake_descriptor, const MulticastOptions& options);
  void receive_one(const Joined& socket, const Receiver& receiver) const;

  const int wake_;
  const MulticastOptions options_;
  std::map<Key, Joined> sockets_;
};

}  // namespace salvage::discovery
