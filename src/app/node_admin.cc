#include "app/node_admin.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "app/command.h"
#include "app/load_work.h"
#include "app/node_process.h"
#include "app/store_work.h"
#include "app/version.h"

namespace salvage::app {
namespace {

constexpr Duration kRequestTime = std::chrono::seconds(5);

class NodeAdmin final : public admin::AdminBackend {
 public:
  explicit NodeAdmin(NodeProcess& process) : process_(process) {}

  admin::StatusInfo status() override {
    admin::StatusInfo info;
    info.role = "node";
    info.version = kVersion;
    info.llama_pin = kLlamaPin;
    info.pid = static_cast<std::uint64_t>(::getpid());
    info.data_folder = process_.options().folder.string();
    info.port = process_.port();
    info.self = process_.enrolment().identity.id;
    info.name = process_.name();
    info.cluster_name = process_.view().view().cluster_name;
    info.cluster_id = process_.enrolment().cluster_id;
    info.connected = process_.connected();
    info.coordinator_name = process_.view().name_of(process_.enrolment().coordinator);
    const auto addresses = process_.view().coordinator_addresses();
    if (!addresses.empty()) info.coordinator_address = addresses.front();
    if (!info.connected) info.problem = process_.problem();
    return info;
  }

  Result<coordinator::ClusterInfo> cluster() override {
    return process_.view().info(process_.enrolment().cluster_id);
  }

  // What of which model this machine holds.
  Result<std::vector<coordinator::ModelInfo>> models() override {
    std::vector<coordinator::ModelInfo> models;
    const store::StoreUsage usage = process_.store().usage();
    for (const model::CatalogueEntry& entry : process_.store().models()) {
      coordinator::ModelInfo info;
      info.model = entry.id();
      info.name = entry.name;
      info.bytes = entry.bytes();
      for (const store::ModelUsage& used : usage.models) {
        if (used.model == info.model) info.held.emplace_back(process_.name(), used.bytes());
      }
      models.push_back(std::move(info));
    }
    return models;
  }

  Result<std::vector<coordinator::DeploymentInfo>> deployments() override { return elsewhere(); }
  Result<std::vector<cluster::Invite>> invites() override { return elsewhere(); }
  Result<metrics::ClusterGlance> glance() override { return elsewhere(); }
  Result<std::vector<metrics::RequestRecord>> requests() override { return elsewhere(); }
  Result<std::string> cancel(const std::string& /*id*/) override { return elsewhere(); }
  Result<coordinator::OpenInvite> invite(const admin::InviteRequest& /*request*/) override {
    return elsewhere();
  }
  Result<void> revoke_invite(const std::string& /*id*/) override { return elsewhere(); }

  Result<std::string> rename(const admin::RenameRequest& request) override {
    const std::string& node = request.node;
    const std::string self = process_.enrolment().identity.id.value;
    const bool own = node.empty() || node == process_.name() || self.starts_with(node);
    if (!own) return elsewhere();
    RETURN_IF_ERROR(ask({.kind = "rename", .value = request.name}));
    return request.name;
  }
  Result<void> remove(const std::string& /*node*/) override { return elsewhere(); }

  // The coordinator is told if it can be; this machine forgets it in any case.
  Result<void> leave(const admin::LeaveRequest& request) override {
    const Result<void> told = ask({.kind = "leave", .value = ""});
    RETURN_IF_ERROR(process_.forget_membership(request.forget));
    if (told) return {};
    return fail(told.error().code(),
                fmt::format("this machine has left, but the coordinator could not be told ({}); "
                            "`salvage remove {}` there takes it off the list",
                            told.error().message(), process_.name()));
  }

  Result<admin::LoadOutcome> load(const admin::LoadRequest& request, const admin::Report& report,
                                  const StopToken& stop) override {
    if (request.path.empty()) return elsewhere();
    return offer_model(process_, request, report, stop);
  }
  Result<void> unload(const std::string& /*model*/) override { return elsewhere(); }
  Result<void> remove_model(const std::string& /*model*/) override { return elsewhere(); }
  Result<admin::VerifyOutcome> verify(const std::string& model, const admin::Report& report,
                                      const StopToken& stop) override {
    ASSIGN_OR_RETURN(const ModelId id, stored_model(process_.store(), model));
    return verify_model(process_, id, report, stop);
  }
  // Only the coordinator knows which layers and spares are in use here.
  Result<admin::GcOutcome> gc(const admin::GcRequest& /*request*/) override { return elsewhere(); }
  Result<coordinator::RunOutcome> run(const coordinator::RunWish& /*wish*/,
                                      const std::function<bool(std::string_view)>& /*show*/,
                                      const StopToken& /*stop*/) override {
    return elsewhere();
  }

 private:
  Result<void> ask(const wire::MemberRequest& request) {
    return process_.agent().request(request, deadline_after(process_.clock().now(), kRequestTime));
  }

  tl::unexpected<Error> elsewhere() const {
    const std::string where = process_.coordinator_text();
    return fail(ErrorCode::kUnsupported,
                fmt::format("this machine only joined; run the command on the coordinator{}{}",
                            where.empty() ? "" : ", ", where));
  }

  NodeProcess& process_;
};

}  // namespace

std::unique_ptr<admin::AdminBackend> make_node_admin(NodeProcess& process) {
  return std::make_unique<NodeAdmin>(process);
}

}  // namespace salvage::app
