#include "base/environment.h"

#include <cstdlib>

namespace salvage {

std::optional<std::string> environment(const char* name) {
  // Nothing changes the environment once there are threads.
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

}  // namespace salvage
