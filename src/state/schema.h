#pragma once

// The tables, and the way from each older version of them to the present one. Internal to state/.

#include <string>

#include "base/result.h"
#include "state/sqlite.h"

namespace salvage::state {

// Brings a new or older database to kSchemaVersion, in one transaction. `unsupported` for a newer
// one, naming both versions and the program that wrote it; `invalid_argument` for a database that
// isn't salvage's.
Result<void> migrate(Database& database, const std::string& program_version);

}  // namespace salvage::state
