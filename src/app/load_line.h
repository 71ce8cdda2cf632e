#pragma once

// The command that asks for the same load, for people to run on another machine. Pure.

#include <string>

#include "admin/admin_request.h"

namespace salvage::app {

// "salvage load tiny --split 6,6": the request's options as far as they are not the defaults, for a
// model that is known by this name there. Ready for a shell.
std::string load_line(const admin::LoadRequest& request, const std::string& model);

}  // namespace salvage::app
