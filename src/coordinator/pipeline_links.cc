#include "coordinator/pipeline_links.h"

namespace salvage::coordinator {

std::vector<LinkInfo> pipeline_links(const Traffic& coordinator, std::span<const Traffic> stages) {
  std::vector<LinkInfo> links;
  if (stages.empty()) return links;
  for (std::size_t i = 0; i <= stages.size(); ++i) {
    const Traffic& from = i == 0 ? coordinator : stages[i - 1];
    const Traffic& to = i == stages.size() ? coordinator : stages[i];
    LinkInfo link{.from = from.node,
                  .to = to.node,
                  .from_stage = {},
                  .to_stage = {},
                  .bytes_sent = from.bytes_out,
                  .bytes_arrived = to.bytes_in,
                  .bytes_per_second = {},
                  .load = {}};
    if (i > 0) link.from_stage = StageIndex{static_cast<std::uint32_t>(i - 1)};
    if (i < stages.size()) link.to_stage = StageIndex{static_cast<std::uint32_t>(i)};
    if (from.recent) {
      link.bytes_per_second = from.recent->bytes_out_per_second;
      link.load = from.recent->out_busy;
    }
    links.push_back(std::move(link));
  }
  return links;
}

}  // namespace salvage::coordinator
