#pragma once

// What the administration channel can ask of the running program (admin_routes.h turns requests
// into these calls). Two programs answer: the coordinator's process, which can do everything, and
// a machine that only joined, which knows itself, its disk and what the coordinator told it; the
// rest it refuses with `unsupported` and the machine to go to.
//
// Threads: any number of calls at once, each on a thread of its own, which it may block. Work that
// takes long reports through `report`, which returns false once nobody listens any more; it ends
// soon after `stop`.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admin/admin_request.h"
#include "base/result.h"
#include "base/stop.h"
#include "coordinator/cluster_info.h"
#include "coordinator/coordinator.h"
#include "metrics/glance_json.h"
#include "metrics/request_ledger.h"

namespace salvage::admin {

struct StatusInfo {
  std::string role;  // "coordinator", "node"
  std::string version;
  std::string llama_pin;
  std::uint64_t pid = 0;
  std::string data_folder;
  std::uint16_t port = 0;
  NodeId self;
  std::string name;
  std::string cluster_name;
  std::string cluster_id;
  // A node's link to its coordinator; the coordinator is always connected.
  bool connected = false;
  std::string coordinator_name;
  std::string coordinator_address;
  std::string problem;  // why there is no link
};

// How far something long is: a text and a fraction, or a deployment on its way.
struct WorkProgress {
  std::string what;  // "hashing", "announcing", "loading", "verifying"
  std::string name;  // of the model or piece
  double fraction = 0;
  std::optional<coordinator::DeploymentInfo> deployment;
};
using Report = std::function<bool(const WorkProgress&)>;

struct LoadOutcome {
  ModelId model;
  std::string name;
  std::optional<coordinator::DeploymentInfo> deployment;  // unset: the caller did not wait
  // On a machine that only joined: the cluster knows the model now, and this is the machine that
  // loads it, with the command that does so there.
  std::string load_at;
  std::string command;
};

struct VerifyOutcome {
  ModelId model;
  std::string name;
  std::uint64_t bytes = 0;
  struct Damage {
    std::string piece;
    std::string file;
  };
  std::vector<Damage> damaged;
};

struct GcOutcome {
  std::uint64_t bytes_freed = 0;
  bool dry_run = false;
  std::vector<std::string> removed;
};

class AdminBackend {
 public:
  virtual ~AdminBackend() = default;

  virtual StatusInfo status() = 0;
  virtual Result<coordinator::ClusterInfo> cluster() = 0;
  virtual Result<std::vector<coordinator::ModelInfo>> models() = 0;
  virtual Result<std::vector<coordinator::DeploymentInfo>> deployments() = 0;
  virtual Result<std::vector<cluster::Invite>> invites() = 0;
  virtual Result<metrics::ClusterGlance> glance() = 0;
  virtual Result<std::vector<metrics::RequestRecord>>
  requests() = 0;  // live ones, then those that ended
  // Ends the request of this id, or the only one whose id begins so; gives its id.
  virtual Result<std::string> cancel(const std::string& id) = 0;

  virtual Result<coordinator::OpenInvite> invite(const InviteRequest& request) = 0;
  virtual Result<void> revoke_invite(const std::string& id) = 0;
  // The name that it became. An empty node is this machine.
  virtual Result<std::string> rename(const RenameRequest& request) = 0;
  virtual Result<void> remove(const std::string& node) = 0;
  virtual Result<void> leave(const LeaveRequest& request) = 0;

  virtual Result<LoadOutcome> load(const LoadRequest& request, const Report& report,
                                   const StopToken& stop) = 0;
  virtual Result<void> unload(const std::string& model) = 0;
  virtual Result<void> remove_model(const std::string& model) = 0;
  virtual Result<VerifyOutcome> verify(const std::string& model, const Report& report,
                                       const StopToken& stop) = 0;
  virtual Result<GcOutcome> gc(const GcRequest& request) = 0;

  // `show` gets whole characters; false ends the answer.
  virtual Result<coordinator::RunOutcome> run(const coordinator::RunWish& wish,
                                              const std::function<bool(std::string_view)>& show,
                                              const StopToken& stop) = 0;
};

}  // namespace salvage::admin
