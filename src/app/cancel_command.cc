// `salvage cancel`: ends a request that is under way.

#include <iostream>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "admin/admin_request.h"
#include "app/ask.h"
#include "app/command.h"
#include "app/words.h"

namespace salvage::app {
namespace {

struct CancelOptions {
  AskOptions ask;
  std::string id;
};

Result<void> cancel(const CancelOptions& options) {
  ASSIGN_OR_RETURN(const std::string answer,
                   client_of(options.ask).post("cancel", admin::encode_named("id", options.id)));
  return read_json(answer, [&](const Json& json) {
    if (options.ask.json) return print_json(json);
    std::cout << words("cancel.done", json.at("id").get<std::string>()) << '\n';
  });
}

}  // namespace

void add_cancel(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("cancel", words("cancel.about"));
  auto options = std::make_shared<CancelOptions>();
  command->add_option("REQUEST", options->id, words("cancel.id"))->required();
  add_ask_options(*command, options->ask);
  command->callback(
      [&context, options] { context.chosen = [options] { return cancel(*options); }; });
}

}  // namespace salvage::app
