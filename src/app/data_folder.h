#pragma once

// Where this machine keeps what salvage has to remember (docs/cluster.md), and the option for it.

#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>

namespace salvage::app {

// `given`, else $SALVAGE_HOME, $XDG_DATA_HOME/salvage, ~/.local/share/salvage, and for services
// without a home /var/lib/salvage. Absolute; needn't exist.
std::filesystem::path choose_data_folder(const std::string& given);

// --data
void add_data_option(CLI::App& command, std::string& folder);

}  // namespace salvage::app
