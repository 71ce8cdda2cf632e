// How long answers may be and how many there are at once, where nobody said.

#include <algorithm>

#include "planner/placement.h"

namespace salvage::planner {

AnswerSizes choose_sizes(const model::Manifest& manifest, PlacementRequest request) {
  std::uint32_t& context = request.need.context_per_sequence;
  std::uint32_t& sequences = request.need.sequence_count;
  const bool context_is_open = context == 0;
  const bool sequences_are_open = sequences == 0;
  if (context_is_open) {
    context = manifest.context_length != 0 ? std::min(manifest.context_length, kContextDefault)
                                           : kContextDefault;
  }
  if (sequences_are_open) sequences = kSequencesDefault;
  while (sequences_are_open && sequences > 1 && !place(manifest, request)) sequences /= 2;
  if (context_is_open && !place(manifest, request)) {
    const std::uint32_t fits = largest_context_that_fits(manifest, request);
    if (fits != 0) context = fits;
  }
  return {.context_per_sequence = context, .sequence_count = sequences};
}

}  // namespace salvage::planner
