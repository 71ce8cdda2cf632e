#include "discovery/beacon_listener.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/sha256.h"
#include "identity/fingerprint.h"

namespace salvage::discovery {
namespace {

constexpr Logger kLog("discovery");
// How often new interfaces are looked for while nothing happens.
constexpr Duration kRefreshInterval = kBeaconInterval;

}  // namespace

Result<std::unique_ptr<BeaconListener>> BeaconListener::start(BeaconListenerOptions options,
                                                              const Clock& clock) {
  if (!is_digest(options.cluster_id)) {
    return fail(ErrorCode::kInvalidArgument, "a cluster id has 64 hex digits");
  }
  ASSIGN_OR_RETURN(auto socket, MulticastSocket::open(options.multicast));
  std::unique_ptr<BeaconListener> listener(
      new BeaconListener(std::move(options), clock, std::move(socket)));
  listener->thread_ = std::thread([raw = listener.get()] { raw->run(); });
  return listener;
}

BeaconListener::BeaconListener(BeaconListenerOptions options, const Clock& clock,
                               std::unique_ptr<MulticastSocket> socket)
    : options_(std::move(options)),
      clock_(clock),
      socket_(std::move(socket)),
      next_query_(clock.now()) {}

BeaconListener::~BeaconListener() {
  stop_.request_stop();
  socket_->wake();
  thread_.join();
}

void BeaconListener::ask() {
  asked_ = true;
  socket_->wake();
}

void BeaconListener::run() {
  TimePoint next_refresh = clock_.now() + kRefreshInterval;
  while (!stop_.stop_requested()) {
    const TimePoint now = clock_.now();
    if (now >= next_refresh) {
      socket_->refresh();
      next_refresh = now + kRefreshInterval;
    }
    if (asked_ && now >= next_query_) send_query(now);
    socket_->receive(
        now, asked_ ? std::min(next_refresh, next_query_) : next_refresh,
        [this](auto datagram, const DatagramSource& source) { take(datagram, source); });
  }
}

void BeaconListener::send_query(TimePoint now) {
  asked_ = false;
  next_query_ = now + kQueryInterval;
  socket_->refresh();  // who asks has perhaps just been plugged in elsewhere
  (void)socket_->send(encode_query(options_.cluster_id));
}

void BeaconListener::take(std::span<const std::byte> datagram, const DatagramSource& source) {
  const auto beacon = parse_beacon(datagram);
  if (!beacon || beacon->cluster_id != options_.cluster_id) return;
  if (!filter_.affordable(clock_.now())) return;
  const bool checked = !options_.authority_pem.empty();
  if (checked) {
    const Result<void> true_one = check_beacon(*beacon, options_.authority_pem);
    if (!true_one) {
      kLog.debug("beacon_refused",
                 {{"from", to_string(source.address)}, {"error", true_one.error().message()}});
      return;
    }
    if (!filter_.is_new(beacon->boot, beacon->sequence)) return;
  }
  Sighting sighting{.coordinator = beacon->coordinator,
                    .addresses = beacon->addresses,
                    .source_interface = source.interface,
                    .checked = checked};
  if (!sighting.addresses.empty()) {
    sighting.addresses.push_back({source.address, sighting.addresses.front().port});
  }
  options_.seen(sighting);
}

}  // namespace salvage::discovery
