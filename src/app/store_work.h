#pragma once

// What every machine's administration can do with the weights on its own disk.

#include "admin/admin_backend.h"
#include "base/result.h"
#include "base/stop.h"
#include "store/piece_store.h"

namespace salvage::app {

class NodeProcess;

// How requests name a model: by its name, its id or the beginning of one, or by the absolute path
// of a file on this machine from which it was loaded.
bool is_path(const std::string& model);

// The model named so among those in this machine's store.
Result<ModelId> stored_model(const store::PieceStore& store, const std::string& name);

Result<admin::VerifyOutcome> verify_model(NodeProcess& process, const ModelId& model,
                                          const admin::Report& report, const StopToken& stop);

Result<admin::GcOutcome> collect_garbage(NodeProcess& process, const admin::GcRequest& request,
                                         std::map<ModelId, store::KeptModel> keep);

}  // namespace salvage::app
