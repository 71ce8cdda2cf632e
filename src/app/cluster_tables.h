#pragma once

// The tables of `salvage nodes`, `ps` and `models`, from the program's JSON. Throw what nlohmann
// throws for another form; app/ask.h catches it.

#include <string>

#include "app/ask.h"

namespace salvage::app {

std::string nodes_table(const Json& cluster);
// Machines whose kernels differ from the coordinator's; empty if none do.
std::string kernels_note(const Json& cluster);
std::string models_table(const Json& models);
// One loaded model: a heading, its layer table, what is left out and why bits are not promised.
std::string deployment_text(const Json& deployment);
// Its links: from where to where, what went over them and how loaded they are. Empty before they
// are known.
std::string links_text(const Json& deployment);

}  // namespace salvage::app
