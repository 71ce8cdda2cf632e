#include "app/machine.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "base/random.h"
#include "base/system_info.h"

namespace salvage::app {
namespace {

// More addresses than these help nobody find a machine.
constexpr std::size_t kAddressesMax = 16;

std::uint64_t disk_free_bytes(const std::filesystem::path& folder) {
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  return error ? 0 : space.available;
}

}  // namespace

std::string tls_endpoint(const IpAddress& address, std::uint16_t port) {
  return address.v6 ? fmt::format("tls:[{}]:{}", to_string(address), port)
                    : fmt::format("tls:{}:{}", to_string(address), port);
}

Result<Machine> Machine::look(const MachineOptions& options) {
  ASSIGN_OR_RETURN(std::string instance, random_hex(16));
  return Machine(options, std::move(instance));
}

std::vector<discovery::LocalAddress> Machine::addresses() const {
  std::vector<discovery::LocalAddress> all = discovery::local_addresses();
  // An IPv6 address of one link means nothing without the interface, which the other machine calls
  // by a name of its own.
  std::erase_if(all, [](const auto& a) { return a.link_local && a.address.v6; });
  const auto loopback = [](const discovery::LocalAddress& address) {
    return address.link.type == discovery::LinkType::kLoopback;
  };
  if (!std::all_of(all.begin(), all.end(), loopback)) std::erase_if(all, loopback);
  if (all.size() > kAddressesMax) all.resize(kAddressesMax);
  return all;
}

wire::NodeFacts Machine::facts() const {
  wire::NodeFacts facts;
  facts.version = options_.version;
  facts.instance = instance_;
  facts.kernel_fingerprint = options_.kernel_fingerprint;
  facts.cpu = processor_name().value_or("");
  facts.system = system_name();
  facts.cores = static_cast<std::uint32_t>(usable_cores().size());
  facts.memory_total_bytes = memory_total_bytes().value_or(0);
  facts.memory_available_bytes = memory_available_bytes().value_or(0);
  facts.disk_free_bytes = disk_free_bytes(options_.folder);
  for (const discovery::LocalAddress& address : addresses()) {
    facts.addresses.push_back({.endpoint = tls_endpoint(address.address, options_.port),
                               .interface = address.interface,
                               .link = std::string(link_type_name(address.link.type)),
                               .speed_mbit = address.link.speed_mbit});
  }
  return facts;
}

wire::NodeStatus Machine::status() const {
  return {.memory_available_bytes = memory_available_bytes().value_or(0),
          .disk_free_bytes = disk_free_bytes(options_.folder),
          .load = load_average().value_or(0)};
}

std::vector<identity::JoinAddress> Machine::join_addresses() const {
  std::vector<identity::JoinAddress> list;
  for (const discovery::LocalAddress& address : addresses()) {
    if (list.size() < identity::kJoinAddressesMax) {
      list.push_back({to_string(address.address), options_.port});
    }
  }
  return list;
}

std::vector<discovery::BeaconAddress> Machine::beacon_addresses() const {
  std::vector<discovery::BeaconAddress> list;
  for (const discovery::LocalAddress& address : addresses()) {
    list.push_back({address.address, options_.port});
  }
  return list;
}

}  // namespace salvage::app
