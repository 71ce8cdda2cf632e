#pragma once

// What the program knows, as JSON for commands and clients. Keys are fixed and English; a figure
// that nobody knows is left out, never 0. Secrets never appear: an invite has no code and no hash.
// Pure functions, any thread.

#include <nlohmann/json_fwd.hpp>

#include "admin/admin_backend.h"
#include "base/result.h"
#include "coordinator/cluster_info.h"
#include "coordinator/coordinator.h"

namespace salvage::admin {

nlohmann::ordered_json to_json(const StatusInfo& status);
nlohmann::ordered_json to_json(const coordinator::ClusterInfo& cluster);
nlohmann::ordered_json to_json(const coordinator::ModelInfo& model);
nlohmann::ordered_json to_json(const coordinator::DeploymentInfo& deployment);
nlohmann::ordered_json to_json(const cluster::Invite& invite);
nlohmann::ordered_json to_json(const coordinator::OpenInvite& invite);  // with its code
nlohmann::ordered_json to_json(const coordinator::RunOutcome& outcome);
nlohmann::ordered_json to_json(const LoadOutcome& outcome);
nlohmann::ordered_json to_json(const VerifyOutcome& outcome);
nlohmann::ordered_json to_json(const GcOutcome& outcome);
nlohmann::ordered_json to_json(const WorkProgress& progress);
nlohmann::ordered_json to_json(const Error& error);  // {"code", "message"}

// The HTTP status for a code; clients read the code itself.
int http_status(ErrorCode code);

}  // namespace salvage::admin
