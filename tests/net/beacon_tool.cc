// Discovery by itself, for hosts of the test network (discovery_test.py):
//
//   beacon_tool make FOLDER            a cluster's authority, a coordinator's key and certificate
//   beacon_tool send FOLDER ADDRESS... says until SIGTERM that the coordinator is there
//   beacon_tool hear FOLDER [--ask]    prints what it sees, one line a sighting, until SIGTERM
//   beacon_tool addresses              this machine's, best first
//
// A line of `hear`: the addresses in their order, blanks between, then the interface.

#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/bounded_queue.h"
#include "base/interrupt.h"
#include "discovery/beacon_listener.h"
#include "discovery/beacon_sender.h"
#include "discovery/local_addresses.h"
#include "identity/authority.h"
#include "identity/node_identity.h"

namespace salvage {
namespace {

constexpr std::uint16_t kPort = 7420;

Result<std::string> read(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) return fail(ErrorCode::kNotFound, path);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

Result<void> make(const std::string& folder) {
  ASSIGN_OR_RETURN(const identity::Authority authority, identity::make_authority());
  ASSIGN_OR_RETURN(const identity::NodeKey key, identity::make_node_key());
  ASSIGN_OR_RETURN(
      const std::string certificate,
      identity::issue_certificate(authority, key.public_key_pem, identity::NodeRole::kCoordinator));
  std::ofstream(folder + "/authority") << authority.certificate_pem;
  std::ofstream(folder + "/key") << key.key_pem;
  std::ofstream(folder + "/certificate") << certificate;
  return {};
}

// Until the process is asked to end.
void wait_for_end(const StopToken& stop) {
  BoundedQueue<int> never(1);
  const std::stop_callback wake(stop, [&never] { never.close(); });
  (void)never.pop(kNoDeadline);
}

Result<void> send(const std::vector<std::string>& arguments, const StopToken& stop) {
  const SteadyClock clock;
  const std::string& folder = arguments.at(0);
  discovery::BeaconSenderOptions options;
  ASSIGN_OR_RETURN(const std::string authority, read(folder + "/authority"));
  ASSIGN_OR_RETURN(options.cluster_id, identity::cluster_id_of(authority));
  ASSIGN_OR_RETURN(options.key_pem, read(folder + "/key"));
  ASSIGN_OR_RETURN(options.certificate_pem, read(folder + "/certificate"));
  ASSIGN_OR_RETURN(const identity::NodeKey key, identity::read_node_key(options.key_pem));
  options.coordinator = key.id;
  std::vector<discovery::BeaconAddress> addresses;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const auto address = parse_ip_address(arguments[i]);
    if (!address) return fail(ErrorCode::kInvalidArgument, arguments[i]);
    addresses.push_back({*address, kPort});
  }
  options.addresses = [addresses] { return addresses; };
  ASSIGN_OR_RETURN(const auto sender, discovery::BeaconSender::start(std::move(options), clock));
  std::cout << "ready" << std::endl;
  wait_for_end(stop);
  return {};
}

Result<void> hear(const std::vector<std::string>& arguments, const StopToken& stop) {
  const SteadyClock clock;
  discovery::BeaconListenerOptions options;
  ASSIGN_OR_RETURN(options.authority_pem, read(arguments.at(0) + "/authority"));
  ASSIGN_OR_RETURN(options.cluster_id, identity::cluster_id_of(options.authority_pem));
  options.seen = [](const discovery::Sighting& seen) {
    for (const auto& one : seen.addresses) std::cout << to_string(one.address) << ' ';
    std::cout << seen.source_interface << std::endl;
  };
  ASSIGN_OR_RETURN(const auto listener,
                   discovery::BeaconListener::start(std::move(options), clock));
  std::cout << "ready" << std::endl;
  if (arguments.size() > 1 && arguments[1] == "--ask") listener->ask();
  wait_for_end(stop);
  return {};
}

Result<void> show_addresses() {
  for (const discovery::LocalAddress& one : discovery::local_addresses()) {
    std::cout << fmt::format("{} {} {} {}\n", to_string(one.address), one.interface,
                             discovery::link_type_name(one.link.type), one.link.speed_mbit);
  }
  return {};
}

Result<void> run(const std::vector<std::string>& arguments, const StopToken& stop) {
  const std::string verb = arguments.empty() ? "" : arguments.front();
  const std::vector<std::string> rest(arguments.begin() + !arguments.empty(), arguments.end());
  if (verb == "addresses") return show_addresses();
  if (verb == "make" && rest.size() == 1) return make(rest.front());
  if (verb == "send" && rest.size() >= 2) return send(rest, stop);
  if (verb == "hear" && !rest.empty()) return hear(rest, stop);
  return fail(ErrorCode::kInvalidArgument, "usage: beacon_tool make|send|hear|addresses ...");
}

}  // namespace
}  // namespace salvage

int main(int argc, char** argv) {
  const salvage::StopSource interrupt = salvage::install_interrupt();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto done = salvage::run(arguments, interrupt.get_token());
  if (done) return 0;
  std::cerr << "beacon_tool: " << done.error().message() << '\n';
  return 1;
}
