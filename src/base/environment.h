#pragma once

// Environment variables; an empty one counts as unset. Read at start, before threads change it.

#include <optional>
#include <string>

namespace salvage {

std::optional<std::string> environment(const char* name);

}  // namespace salvage
