#pragma once

// Making a model resident, from the wish to the ready pipeline, with a report on the way: what
// `salvage load`, `salvage run` and `salvage up MODEL` share on the coordinator's machine.

#include "app/load_view.h"
#include "base/result.h"
#include "base/stop.h"
#include "gateway/admin_backend.h"

namespace salvage::app {

class NodeProcess;

// Blocks; ends with `cancelled` soon after `stop` or when nobody listens to the report any more.
// The model goes on loading then. A path is hashed and becomes a model of the cluster first.
Result<gateway::LoadOutcome> load_model(NodeProcess& process, const gateway::LoadRequest& request,
                                        const gateway::Report& report, const StopToken& stop);

// For bars on the spot.
LoadView view_of(const gateway::WorkProgress& progress);

}  // namespace salvage::app
