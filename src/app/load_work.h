#pragma once

// Making a model resident, from the wish to the ready pipeline, with a report on the way: what
// `salvage load`, `salvage run` and `salvage up MODEL` share on the coordinator's machine; and what
// a machine that only joined can do about it.

#include "admin/admin_backend.h"
#include "app/load_view.h"
#include "base/result.h"
#include "base/stop.h"

namespace salvage::app {

class NodeProcess;

// Blocks; ends with `cancelled` soon after `stop` or when nobody listens to the report any more.
// The model goes on loading then. A path is hashed and becomes a model of the cluster first.
Result<admin::LoadOutcome> load_model(NodeProcess& process, const admin::LoadRequest& request,
                                      const admin::Report& report, const StopToken& stop);

// On a machine that only joined: makes the file at `request.path` a model of the cluster, whose
// weights others fetch from here, and says how the coordinator is asked to load it; only its own
// user may. Waits until the coordinator knows the model, unless `request.wait` is false;
// `unavailable` if it doesn't within a minute. The model stays known here then, and is announced
// again with the next link.
Result<admin::LoadOutcome> offer_model(NodeProcess& process, const admin::LoadRequest& request,
                                       const admin::Report& report, const StopToken& stop);

// For bars on the spot.
LoadView view_of(const admin::WorkProgress& progress);

}  // namespace salvage::app
