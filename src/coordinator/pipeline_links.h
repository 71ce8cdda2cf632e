#pragma once

// The links of a pipeline as people and programs see them: from the coordinator to the first stage,
// from stage to stage, and from the last one back. Who sends on a link knows how busy it is, both
// ends count its bytes. Pure.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/cluster_info.h"
#include "coordinator/recent_rates.h"

namespace salvage::coordinator {

// What one end of two links has counted: the link that comes in, and the one that leads on.
struct Traffic {
  std::string node;  // its name
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::optional<RecentRates::Rates> recent;
};

// One more than there are stages; none without stages.
std::vector<LinkInfo> pipeline_links(const Traffic& coordinator, std::span<const Traffic> stages);

}  // namespace salvage::coordinator
