#pragma once

// The administration of the coordinator's machine: everything can be asked there. The process
// outlives it.

#include <memory>

#include "admin/admin_backend.h"

namespace salvage::app {

class NodeProcess;

std::unique_ptr<admin::AdminBackend> make_coordinator_admin(NodeProcess& process);

}  // namespace salvage::app
