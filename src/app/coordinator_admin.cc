#include "app/coordinator_admin.h"

#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "app/command.h"
#include "app/load_work.h"
#include "app/node_process.h"
#include "app/store_work.h"
#include "app/version.h"
#include "app/wall_clock.h"
#include "gateway/command_answers.h"

namespace salvage::app {
namespace {

class CoordinatorAdmin final : public admin::AdminBackend {
 public:
  explicit CoordinatorAdmin(NodeProcess& process)
      : process_(process),
        commands_({.ready = [this](const std::string& model) { return coordinator().ready(model); },
                   .wall_ms = wall_clock_ms},
                  process.ledger(), process.clock()) {}

  admin::StatusInfo status() override {
    admin::StatusInfo info;
    info.role = "coordinator";
    info.version = kVersion;
    info.llama_pin = kLlamaPin;
    info.pid = static_cast<std::uint64_t>(::getpid());
    info.data_folder = process_.options().folder.string();
    info.port = process_.port();
    info.self = process_.enrolment().identity.id;
    info.name = process_.name();
    info.cluster_name = process_.enrolment().cluster_name;
    info.cluster_id = process_.enrolment().cluster_id;
    info.connected = true;
    info.coordinator_name = info.name;
    return info;
  }

  Result<coordinator::ClusterInfo> cluster() override { return coordinator().cluster(); }
  Result<std::vector<coordinator::ModelInfo>> models() override { return coordinator().models(); }
  Result<std::vector<coordinator::DeploymentInfo>> deployments() override {
    return coordinator().deployments();
  }
  Result<std::vector<cluster::Invite>> invites() override { return coordinator().invites(); }

  Result<metrics::ClusterGlance> glance() override {
    return metrics::ClusterGlance{.cluster = coordinator().cluster(),
                                  .deployments = coordinator().deployments(),
                                  .models = coordinator().models()};
  }
  Result<std::vector<metrics::RequestRecord>> requests() override {
    return process_.ledger().records(process_.clock().now());
  }

  Result<std::string> cancel(const std::string& id) override {
    ASSIGN_OR_RETURN(std::string whole, process_.ledger().find_live(id));
    if (process_.ledger().cancel(whole) > 0) return whole;
    return fail(ErrorCode::kNotFound, fmt::format("the request {} has just ended", whole));
  }

  Result<coordinator::OpenInvite> invite(const admin::InviteRequest& request) override {
    coordinator::InviteOptions options;
    options.uses = request.uses;
    options.ttl_ms = request.ttl_seconds * 1000;
    options.ephemeral = request.ephemeral;
    options.label = request.label;
    return process_.invite(std::move(options));
  }
  Result<void> revoke_invite(const std::string& id) override {
    return coordinator().revoke_invite(id);
  }
  Result<std::string> rename(const admin::RenameRequest& request) override {
    const std::string self = process_.enrolment().identity.id.value;
    return coordinator().rename(request.node.empty() ? self : request.node, request.name);
  }
  Result<void> remove(const std::string& node) override { return coordinator().remove(node); }
  Result<void> leave(const admin::LeaveRequest& /*request*/) override {
    return fail(ErrorCode::kInvalidArgument,
                "this machine is the coordinator: without it there is no cluster. Ctrl-C ends "
                "`salvage up`; removing its data folder ends the cluster for good");
  }

  Result<admin::LoadOutcome> load(const admin::LoadRequest& request, const admin::Report& report,
                                  const StopToken& stop) override {
    return load_model(process_, request, report, stop);
  }
  Result<void> unload(const std::string& model) override {
    ASSIGN_OR_RETURN(const ModelId id, resolve(model));
    return coordinator().unload(id);
  }
  Result<void> remove_model(const std::string& model) override {
    ASSIGN_OR_RETURN(const ModelId id, resolve(model));
    return coordinator().remove_model(id);
  }
  Result<admin::VerifyOutcome> verify(const std::string& model, const admin::Report& report,
                                      const StopToken& stop) override {
    ASSIGN_OR_RETURN(const ModelId id, resolve(model));
    return verify_model(process_, id, report, stop);
  }
  // What is loaded stays as it is: its layers here, and all its raw pieces, which may be spares.
  Result<admin::GcOutcome> gc(const admin::GcRequest& request) override {
    std::map<ModelId, store::KeptModel> keep;
    for (const coordinator::DeploymentInfo& info : coordinator().deployments()) {
      if (!info.status.wanted) continue;
      store::KeptModel& kept = keep[info.status.model];
      for (const cluster::StageStatus& stage : info.status.stages) {
        if (stage.placed.node == process_.enrolment().identity.id) {
          kept.layers.push_back(stage.placed.layers);
        }
      }
      const auto pieces = process_.store().inventory(info.status.model);
      kept.pieces.insert(pieces.begin(), pieces.end());
    }
    return collect_garbage(process_, request, std::move(keep));
  }

  Result<coordinator::RunOutcome> run(const coordinator::RunWish& wish,
                                      const std::function<bool(std::string_view)>& show,
                                      const StopToken& stop) override {
    return commands_.answer(wish, show, stop);
  }

 private:
  coordinator::Coordinator& coordinator() { return *process_.coordinator(); }
  Result<ModelId> resolve(const std::string& model) {
    return is_path(model) ? stored_model(process_.store(), model)
                          : coordinator().resolve_model(model);
  }
  NodeProcess& process_;
  const gateway::CommandAnswers commands_;
};

}  // namespace

std::unique_ptr<admin::AdminBackend> make_coordinator_admin(NodeProcess& process) {
  return std::make_unique<CoordinatorAdmin>(process);
}

}  // namespace salvage::app
