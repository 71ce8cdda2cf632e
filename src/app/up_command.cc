// `salvage up`: the first machine of a cluster, its coordinator.

#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "app/command.h"
#include "app/format.h"
#include "app/host_address.h"
#include "app/load_command.h"
#include "app/load_progress.h"
#include "app/load_work.h"
#include "app/node_options.h"
#include "app/words.h"
#include "identity/fingerprint.h"

namespace salvage::app {
namespace {

struct UpOptions {
  NodeOptions node;
  admin::LoadRequest load;
  std::string model;
  DownloadOptions download;
  std::string listen = "127.0.0.1";
  ApiOptions api;
  bool no_api = false;
};

std::string loaded_text(NodeProcess& process) {
  std::string names;
  for (const coordinator::DeploymentInfo& info : process.coordinator()->deployments()) {
    if (info.status.wanted) names += (names.empty() ? "" : ", ") + info.model_name;
  }
  return names.empty() ? words("up.nothing_loaded") : words("up.loaded", names);
}

Result<std::string> invite_text(NodeProcess& process) {
  ASSIGN_OR_RETURN(const coordinator::OpenInvite invite, process.invite({}));
  return words("up.join_line", invite.code) + '\n' +
         download_text(invite.download_line, invite.no_download);
}

// A model that is loaded already stays as it is, unless told where its layers are to go.
Result<void> load_first(NodeProcess& process, admin::LoadRequest request, const std::string& model,
                        const StopToken& stop) {
  request.if_needed = !request.places();
  set_model(request, model);
  LoadProgress progress(process.clock(), LoadProgress::Form::kAuto);
  const auto loaded = load_model(
      process, request,
      [&](const admin::WorkProgress& work) {
        progress.update(view_of(work));
        return true;
      },
      stop);
  progress.finish();
  if (!loaded) return fail(loaded.error());
  return {};
}

Result<ApiOptions> api_options(const UpOptions& options) {
  ApiOptions api = options.api;
  api.served = !options.no_api;
  ASSIGN_OR_RETURN(const HostPort place, parse_host_port(options.listen, kApiPort));
  api.address = place.host;
  api.port = place.port;
  return api;
}

Result<void> up(const UpOptions& options, const StopToken& stop) {
  open_log(options.node);
  ASSIGN_OR_RETURN(NodeProcessOptions process_options, to_process_options(options.node));
  process_options.download = options.download;
  ASSIGN_OR_RETURN(process_options.api, api_options(options));
  ASSIGN_OR_RETURN(const auto state, open_state(process_options, "up"));
  ASSIGN_OR_RETURN(Enrolment enrolment, found_cluster(*state, node_name(options.node)));
  const bool founded = enrolment.founded;
  const std::string id = enrolment.cluster_id;
  const std::string cluster = enrolment.cluster_name;
  ASSIGN_OR_RETURN(const auto process,
                   NodeProcess::start(process_options, *state, std::move(enrolment)));
  print_line(machine_text(*process));
  print_line(words("up.cluster", cluster, identity::grouped_form(id)));
  if (process->api() != nullptr) print_line(api_text(*process->api()));
  print_line(loaded_text(*process));
  std::string join = words("up.how_to_invite");
  if (founded) {
    ASSIGN_OR_RETURN(join, invite_text(*process));
  }
  print_line(join);
  if (!options.model.empty())
    RETURN_IF_ERROR(load_first(*process, options.load, options.model, stop));
  return process->wait(stop);
}

}  // namespace

void add_up(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("up", words("up.about"));
  auto options = std::make_shared<UpOptions>();
  command->add_option("MODEL", options->model, words("up.model"));
  add_placement_options(*command, options->load);
  add_node_options(*command, options->node);
  command->add_option("--portable", options->download.archive, words("up.portable"))
      ->check(CLI::ExistingFile);
  command->add_option("--download-port", options->download.port, words("up.download_port"))
      ->capture_default_str();
  command->add_option("--listen", options->listen, words("up.listen"))->capture_default_str();
  command->add_option("--api-key", options->api.keys, words("up.key"))->envname("SALVAGE_API_KEY");
  command->add_flag("--insecure", options->api.insecure, words("up.insecure"));
  command->add_flag("--no-api", options->no_api, words("up.no_api"));
  command->callback([&context, options] {
    context.chosen = [&context, options] { return up(*options, context.stop); };
  });
}

}  // namespace salvage::app
