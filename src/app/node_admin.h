#pragma once

// The administration of a machine that only joined: it knows itself, its disk, and the cluster as
// the coordinator last told it. The rest it refuses, naming the machine to go to. The process
// outlives it.

#include <memory>

#include "admin/admin_backend.h"

namespace salvage::app {

class NodeProcess;

std::unique_ptr<admin::AdminBackend> make_node_admin(NodeProcess& process);

}  // namespace salvage::app
