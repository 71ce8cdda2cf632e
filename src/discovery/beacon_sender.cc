#include "discovery/beacon_sender.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "identity/authority.h"

namespace salvage::discovery {
namespace {

constexpr Logger kLog("discovery");

// By chance, so that a restarted coordinator's first beacon is not taken for an old one.
Result<std::uint64_t> boot_number() {
  ASSIGN_OR_RETURN(const std::string digits, random_hex(8));
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return number;
}

}  // namespace

Result<std::unique_ptr<BeaconSender>> BeaconSender::start(BeaconSenderOptions options,
                                                          const Clock& clock) {
  Beacon blank;
  blank.cluster_id = options.cluster_id;
  blank.coordinator = options.coordinator;
  ASSIGN_OR_RETURN(blank.certificate, identity::certificate_to_der(options.certificate_pem));
  ASSIGN_OR_RETURN(blank.boot, boot_number());
  RETURN_IF_ERROR(sign_beacon(blank, options.key_pem));  // what cannot be signed is found now
  ASSIGN_OR_RETURN(auto socket, MulticastSocket::open(options.multicast));
  std::unique_ptr<BeaconSender> sender(
      new BeaconSender(std::move(options), std::move(blank), clock, std::move(socket)));
  sender->thread_ = std::thread([raw = sender.get()] { raw->run(); });
  return sender;
}

BeaconSender::BeaconSender(BeaconSenderOptions options, Beacon blank, const Clock& clock,
                           std::unique_ptr<MulticastSocket> socket)
    : options_(std::move(options)),
      clock_(clock),
      socket_(std::move(socket)),
      beacon_(std::move(blank)) {}

BeaconSender::~BeaconSender() {
  stop_.request_stop();
  socket_->wake();
  thread_.join();
}

void BeaconSender::run() {
  while (!stop_.stop_requested()) {
    if (rhythm_.due(clock_.now())) {
      socket_->refresh();
      send_beacon();
    }
    socket_->receive(clock_.now(), rhythm_.next(),
                     [this](auto datagram, const DatagramSource&) { take(datagram); });
  }
}

void BeaconSender::send_beacon() {
  beacon_.addresses = options_.addresses();
  if (beacon_.addresses.size() > kAddressesMax) beacon_.addresses.resize(kAddressesMax);
  ++beacon_.sequence;
  const Result<void> is_signed = sign_beacon(beacon_, options_.key_pem);
  const auto datagram = is_signed ? encode_beacon(beacon_) : fail(is_signed.error());
  if (!datagram) {
    kLog.warn("beacon_not_sent", {{"error", datagram.error().message()}});
    return;
  }
  const std::size_t taken = socket_->send(*datagram);
  kLog.trace("beacon_sent", {{"sequence", beacon_.sequence}, {"links", taken}});
}

void BeaconSender::take(std::span<const std::byte> datagram) {
  const auto cluster = parse_query(datagram);
  if (cluster && *cluster == options_.cluster_id) rhythm_.on_query();
}

}  // namespace salvage::discovery
