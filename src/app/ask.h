#pragma once

// What the commands share that ask the running program: the options, reading its JSON, and showing
// it. A program of another version may know other keys: what is missing is shown as unknown.

#include <functional>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include "admin/admin_client.h"
#include "base/result.h"

namespace salvage::app {

using Json = nlohmann::ordered_json;

struct AskOptions {
  std::string data;
  bool json = false;
};

// --data and, where there is something to read, --json.
void add_ask_options(CLI::App& command, AskOptions& options, bool with_json = true);

admin::AdminClient client_of(const AskOptions& options);

// The answer as JSON; `use` may throw what nlohmann throws.
Result<void> read_json(const std::string& text, const std::function<void(const Json&)>& use);

// A GET whose answer is shown: as it is for --json, else by `show`.
Result<void> ask_and_show(const AskOptions& options, const std::string& name,
                          const std::function<void(const Json&)>& show);

// Pretty, to standard output.
void print_json(const Json& json);

// --- cells ---
std::string text_or(const Json& json, const char* key, const std::string& otherwise = "-");
std::string memory_cell(const Json& json, const char* key);  // "13.1 GiB" or "-"
std::string bytes_cell(const Json& json, const char* key);   // "98.4 MB" or "-"
std::string layers_cell(const Json& json, const char* key);  // "0-9" or "-"
std::string place_of(const std::string& endpoint);           // without "tls:" and node id

}  // namespace salvage::app
