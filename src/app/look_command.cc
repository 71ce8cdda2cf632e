// `salvage status`, `nodes`, `ps`, `models`: looking at what runs.

#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/ask.h"
#include "app/cluster_tables.h"
#include "app/command.h"
#include "app/words.h"
#include "identity/fingerprint.h"

namespace salvage::app {
namespace {

void show_nodes(const Json& cluster) {
  std::cout << nodes_table(cluster);
  const std::string note = kernels_note(cluster);
  if (!note.empty()) std::cout << note << '\n';
}

void show_deployments(const Json& answer) {
  const Json deployments = answer.value("deployments", Json::array());
  bool any = false;
  for (const Json& deployment : deployments) {
    if (!deployment.value("wanted", false) && deployment.value("stages", Json::array()).empty()) {
      continue;
    }
    std::cout << (any ? "\n" : "") << deployment_text(deployment) << links_text(deployment);
    any = true;
  }
  if (!any) std::cout << words("up.nothing_loaded") << '\n';
}

void show_models(const Json& answer) {
  const Json models = answer.value("models", Json::array());
  if (models.empty()) {
    std::cout << words("models.none") << '\n';
    return;
  }
  std::cout << models_table(models);
}

void show_status(const Json& status) {
  const Json cluster = status.value("cluster", Json::object());
  std::cout << words("status.cluster", text_or(status, "cluster_name"),
                     identity::grouped_form(status.value("cluster_id", std::string())))
            << '\n';
  std::cout << words("status.this_machine", text_or(status, "name"),
                     words("role." + status.value("role", std::string("node"))),
                     status.value("pid", 0), status.value("port", 0),
                     text_or(status, "data_folder"))
            << '\n';
  if (!status.value("connected", false)) {
    std::cout << words("status.unlinked", text_or(status, "problem")) << '\n';
  }
  if (cluster.value("lost_after_ms", 0) != 0) {
    std::cout << words("status.lost_after", cluster.value("lost_after_ms", 0) / 1000) << '\n';
  }
  std::cout << '\n';
  if (cluster.contains("nodes")) show_nodes(cluster);
  if (status.contains("deployments")) {
    std::cout << '\n';
    show_deployments(status);
  }
}

// One object of three answers. A machine that only joined knows of no deployments.
Result<void> status(const AskOptions& options) {
  const admin::AdminClient client = client_of(options);
  ASSIGN_OR_RETURN(const std::string own, client.get("status"));
  ASSIGN_OR_RETURN(const std::string cluster, client.get("cluster"));
  const auto deployments = client.get("deployments");
  return read_json(own, [&](const Json& json) {
    Json whole = json;
    whole["cluster"] = Json::parse(cluster);
    if (deployments) whole.update(Json::parse(*deployments));
    if (options.json) return print_json(whole);
    show_status(whole);
  });
}

// A command that shows one answer.
void add_look(CLI::App& app, CommandContext& context, const std::string& name,
              const std::string& about, std::function<Result<void>(const AskOptions&)> look) {
  CLI::App* command = app.add_subcommand(name, about);
  auto options = std::make_shared<AskOptions>();
  add_ask_options(*command, *options);
  command->callback([&context, options, look = std::move(look)] {
    context.chosen = [options, look] { return look(*options); };
  });
}

}  // namespace

void add_status(CLI::App& app, CommandContext& context) {
  add_look(app, context, "status", words("status.about"), status);
}

void add_nodes(CLI::App& app, CommandContext& context) {
  add_look(app, context, "nodes", words("nodes.about"),
           [](const AskOptions& options) { return ask_and_show(options, "cluster", show_nodes); });
}

void add_ps(CLI::App& app, CommandContext& context) {
  add_look(app, context, "ps", words("ps.about"), [](const AskOptions& options) {
    return ask_and_show(options, "deployments", show_deployments);
  });
}

void add_models(CLI::App& app, CommandContext& context) {
  add_look(app, context, "models", words("models.about"),
           [](const AskOptions& options) { return ask_and_show(options, "models", show_models); });
}

}  // namespace salvage::app
