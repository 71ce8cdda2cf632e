#include "app/ask.h"

#include <exception>
#include <iostream>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/data_folder.h"
#include "app/format.h"
#include "app/words.h"

namespace salvage::app {

void add_ask_options(CLI::App& command, AskOptions& options, bool with_json) {
  add_data_option(command, options.data);
  if (with_json) command.add_flag("--json", options.json, words("option.json"));
}

admin::AdminClient client_of(const AskOptions& options) {
  return admin::AdminClient(choose_data_folder(options.data));
}

Result<void> read_json(const std::string& text, const std::function<void(const Json&)>& use) {
  try {
    use(Json::parse(text));
    return {};
  } catch (const std::exception& error) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the running salvage answers in a form that this command doesn't know; "
                            "are both of one version? ({})",
                            error.what()));
  }
}

Result<void> ask_and_show(const AskOptions& options, const std::string& name,
                          const std::function<void(const Json&)>& show) {
  ASSIGN_OR_RETURN(const std::string answer, client_of(options).get(name));
  return read_json(answer, options.json ? print_json : show);
}

void print_json(const Json& json) {
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
}

std::string text_or(const Json& json, const char* key, const std::string& otherwise) {
  const std::string text = json.value(key, std::string());
  return text.empty() ? otherwise : text;
}

std::string memory_cell(const Json& json, const char* key) {
  return json.contains(key) ? format_memory(json.at(key).get<std::uint64_t>()) : "-";
}

std::string bytes_cell(const Json& json, const char* key) {
  return json.contains(key) ? format_bytes(json.at(key).get<std::uint64_t>()) : "-";
}

std::string layers_cell(const Json& json, const char* key) {
  const auto layers = json.value(key, std::vector<std::uint32_t>{});
  return layers.size() == 2 ? format_layers({layers[0], layers[1]}) : "-";
}

std::string place_of(const std::string& endpoint) {
  const std::size_t begin = endpoint.starts_with("tls:") ? 4 : 0;
  return endpoint.substr(begin, endpoint.find('/') - begin);
}

}  // namespace salvage::app
