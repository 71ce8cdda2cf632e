#include "app/node_options.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <utility>

#include <fmt/format.h>

#include "app/data_folder.h"
#include "app/format.h"
#include "app/port_range.h"
#include "app/version.h"
#include "app/words.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/system_info.h"

namespace salvage::app {
namespace {

std::string address_text(const wire::NodeAddress& address) {
  const std::string place = address.endpoint.substr(address.endpoint.find(':') + 1);
  const std::string link = words("link." + address.link);
  return address.speed_mbit == 0
             ? fmt::format("{} ({})", place, link)
             : fmt::format("{} ({}, {} Mbit/s)", place, link, address.speed_mbit);
}

// The words for people; in the lines stand the log's own.
constexpr std::array kLogLevels{
    std::pair("error", LogLevel::kError), std::pair("warning", LogLevel::kWarn),
    std::pair("info", LogLevel::kInfo), std::pair("debug", LogLevel::kDebug)};

std::vector<std::string> log_levels() {
  std::vector<std::string> names;
  names.reserve(kLogLevels.size());
  for (const auto& [name, level] : kLogLevels) names.emplace_back(name);
  return names;
}

// As CLI::IsMember, whose complaint would not name the variable that the value may come from.
CLI::Validator level_check() {
  const std::string levels = fmt::format("{{{}}}", fmt::join(log_levels(), ","));
  const auto check = [levels](const std::string& value) {
    const auto known_level = [&](const auto& level) { return value == level.first; };
    if (std::any_of(kLogLevels.begin(), kLogLevels.end(), known_level)) return std::string();
    return fmt::format("{} not in {} (SALVAGE_LOG sets it, too)", value, levels);
  };
  return CLI::Validator(check, levels);
}

std::string known(std::uint64_t bytes) {
  return bytes == 0 ? words("unknown") : format_memory(bytes);
}

}  // namespace

void add_node_options(CLI::App& command, NodeOptions& options) {
  add_data_option(command, options.data);
  command.add_option("--port", options.port, words("option.port"))->capture_default_str();
  command.add_option("--name", options.name, words("option.name"));
  command.add_option("--stage-ports", options.stage_ports, words("option.stage_ports"))
      ->capture_default_str();
  command.add_option("--log-level", options.log_level, words("option.log_level"))
      ->envname("SALVAGE_LOG")
      ->check(level_check())
      ->capture_default_str();
  command.add_option("--wire-version", options.wire_version)
      ->check(CLI::Range(wire::kWireVersionMin, wire::kWireVersion))
      ->group("");
}

void open_log(const NodeOptions& options) {
  for (const auto& [name, level] : kLogLevels) {
    if (options.log_level == name)
      set_log({.level = level, .format = LogFormat::kText, .sink = {}});
  }
}

Result<NodeProcessOptions> to_process_options(const NodeOptions& options) {
  NodeProcessOptions process;
  process.folder = choose_data_folder(options.data);
  process.port = options.port;
  ASSIGN_OR_RETURN(const PortRange ports, parse_port_range(options.stage_ports));
  process.stage_port_first = ports.first;
  process.stage_port_count = static_cast<std::uint16_t>(ports.last - ports.first + 1);
  process.wire_version = options.wire_version;
  process.say = print_line;
  return process;
}

std::string node_name(const NodeOptions& options) {
  if (!options.name.empty()) return options.name;
  const std::string host = host_name();
  return host.empty() ? "node" : host;
}

Result<std::unique_ptr<state::StateDb>> open_state(const NodeProcessOptions& options,
                                                   const std::string& command) {
  return state::StateDb::open(options.folder, {.command = command, .program_version = kVersion});
}

std::string machine_text(const NodeProcess& process) {
  const wire::NodeFacts facts = process.machine().facts();
  std::string text = words("machine.facts", process.name(), facts.cores,
                           facts.cpu.empty() ? words("unknown") : facts.cpu,
                           known(facts.memory_total_bytes), known(facts.memory_available_bytes));
  text += '\n' + words("machine.disk", process.options().folder.string(),
                       format_bytes(facts.disk_free_bytes));
  std::vector<std::string> addresses;
  for (const wire::NodeAddress& address : facts.addresses) {
    addresses.push_back(address_text(address));
  }
  text += '\n' + words("machine.addresses", fmt::format("{}", fmt::join(addresses, ", ")));
  text += '\n' + words("machine.kernels", facts.kernel_fingerprint);
  return text;
}

void print_line(const std::string& line) {
  static Mutex mutex;
  MutexLock lock(mutex);
  std::cout << line << std::endl;
}

}  // namespace salvage::app
