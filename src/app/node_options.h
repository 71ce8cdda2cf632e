#pragma once

// The options that `up` and `join` share, and what both print of the machine.

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

#include "app/node_process.h"
#include "base/result.h"

namespace salvage::app {

struct NodeOptions {
  std::string data;
  std::uint16_t port = kNodePort;
  std::string name;  // empty: the host's
  std::string stage_ports = "7421-7436";
  std::string log_level = "warning";
  std::uint32_t wire_version = wire::kWireVersion;  // tests lower it
};

void add_node_options(CLI::App& command, NodeOptions& options);

// Sets the log as the options say. Before anything is started.
void open_log(const NodeOptions& options);

Result<NodeProcessOptions> to_process_options(const NodeOptions& options);
std::string node_name(const NodeOptions& options);

// The state, opened for this command; a folder that another process uses is refused by its name.
Result<std::unique_ptr<state::StateDb>> open_state(const NodeProcessOptions& options,
                                                   const std::string& command);

// Facts of this machine and where it is reached, some lines for people.
std::string machine_text(const NodeProcess& process);

// One line to standard output, at once.
void print_line(const std::string& line);

}  // namespace salvage::app
