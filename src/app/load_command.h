#pragma once

// Loading a model into the running cluster, as `load` and `run` do it.

#include <string>

#include <CLI/CLI.hpp>

#include "admin/admin_client.h"
#include "admin/admin_request.h"
#include "app/load_progress.h"
#include "base/result.h"
#include "base/stop.h"

namespace salvage::app {

// What a person typed: a file that is there, else a model's name or id.
void set_model(admin::LoadRequest& request, const std::string& typed);

// Where the layers go, and how many answers of which length there are at once.
void add_placement_options(CLI::App& command, admin::LoadRequest& request);

// The JSON of "done". Ctrl-C ends the command; the cluster goes on loading.
Result<std::string> follow_load(const admin::AdminClient& client, const admin::LoadRequest& request,
                                LoadProgress::Form form, const StopToken& stop);

}  // namespace salvage::app
