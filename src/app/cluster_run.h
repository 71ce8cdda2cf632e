#pragma once

// `salvage run` on the cluster whose coordinator runs on this machine.

#include <string>

#include "admin/admin_client.h"
#include "app/session.h"
#include "base/result.h"
#include "base/stop.h"
#include "coordinator/coordinator.h"

namespace salvage::app {

struct ClusterRunOptions {
  SessionOptions session;     // the model, and how it is loaded if it is not
  coordinator::RunWish wish;  // without its model
  bool json = false;
};

// Does a coordinator with this data folder run here, and is nothing asked for that only one machine
// can do (--stages, --cores)?
bool cluster_answers(const admin::AdminClient& client, const SessionOptions& session);

// Loads the model if it is not, keeps it loaded, and shows the answer as `run` always does.
Result<void> run_on_cluster(const admin::AdminClient& client, const ClusterRunOptions& options,
                            const StopToken& stop);

}  // namespace salvage::app
