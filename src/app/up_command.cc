// `salvage up`: the first machine of a cluster, its coordinator.

#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "app/command.h"
#include "app/format.h"
#include "app/load_progress.h"
#include "app/load_work.h"
#include "app/node_options.h"
#include "app/words.h"
#include "identity/fingerprint.h"

namespace salvage::app {
namespace {

struct UpOptions {
  NodeOptions node;
  std::string model;
  DownloadOptions download;
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

Result<void> load_first(NodeProcess& process, const std::string& model, const StopToken& stop) {
  gateway::LoadRequest request;
  request.path = std::filesystem::absolute(model).lexically_normal().string();
  LoadProgress progress(process.clock(), LoadProgress::Form::kAuto);
  const auto loaded = load_model(
      process, request,
      [&](const gateway::WorkProgress& work) {
        progress.update(view_of(work));
        return true;
      },
      stop);
  progress.finish();
  if (!loaded) return fail(loaded.error());
  return {};
}

Result<void> up(const UpOptions& options, const StopToken& stop) {
  ASSIGN_OR_RETURN(NodeProcessOptions process_options, to_process_options(options.node));
  process_options.download = options.download;
  ASSIGN_OR_RETURN(const auto state, open_state(process_options, "up"));
  ASSIGN_OR_RETURN(Enrolment enrolment, found_cluster(*state, node_name(options.node)));
  const bool founded = enrolment.founded;
  const std::string id = enrolment.cluster_id;
  const std::string cluster = enrolment.cluster_name;
  ASSIGN_OR_RETURN(const auto process,
                   NodeProcess::start(process_options, *state, std::move(enrolment)));
  print_line(machine_text(*process));
  print_line(words("up.cluster", cluster, identity::grouped_form(id)));
  print_line(loaded_text(*process));
  std::string join = words("up.how_to_invite");
  if (founded) {
    ASSIGN_OR_RETURN(join, invite_text(*process));
  }
  print_line(join);
  if (!options.model.empty()) RETURN_IF_ERROR(load_first(*process, options.model, stop));
  return process->wait(stop);
}

}  // namespace

void add_up(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("up", words("up.about"));
  auto options = std::make_shared<UpOptions>();
  command->add_option("MODEL", options->model, words("up.model"));
  add_node_options(*command, options->node);
  command->add_option("--portable", options->download.archive, words("up.portable"))
      ->check(CLI::ExistingFile);
  command->add_option("--download-port", options->download.port, words("up.download_port"))
      ->capture_default_str();
  command->callback([&context, options] {
    context.chosen = [&context, options] { return up(*options, context.stop); };
  });
}

}  // namespace salvage::app
