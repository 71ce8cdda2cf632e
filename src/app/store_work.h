#pragma once

// What every machine's administration can do with the weights on its own disk.

#include "base/result.h"
#include "base/stop.h"
#include "gateway/admin_backend.h"
#include "store/piece_store.h"

namespace salvage::app {

class NodeProcess;

// The model of that name, id or beginning of an id among those in this machine's store.
Result<ModelId> stored_model(const store::PieceStore& store, const std::string& name);

Result<gateway::VerifyOutcome> verify_model(NodeProcess& process, const ModelId& model,
                                            const gateway::Report& report, const StopToken& stop);

Result<gateway::GcOutcome> collect_garbage(NodeProcess& process, const gateway::GcRequest& request,
                                           std::map<ModelId, store::KeptModel> keep);

}  // namespace salvage::app
