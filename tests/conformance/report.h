#pragma once

// The suite's outcome for people: a line a fixture, the summary, and
// docs/reference/architectures.md.

#include <string>
#include <vector>

#include "outcome.h"

namespace salvage::conformance {

struct Totals {
  std::size_t exact = 0;
  std::size_t refused = 0;
  std::size_t wrong = 0;
  std::size_t upstream_exact = 0;  // of the files that upstream's generator writes
  std::size_t upstream = 0;
};

Totals count_outcomes(const std::vector<Outcome>& outcomes);

// "exact    llama-dense: 8 layers, cuts 1-7, 18 splits"
std::string report_line(const Outcome& outcome);

// The whole page, the same bytes for the same outcomes.
std::string architectures_page(const std::vector<Outcome>& outcomes);

}  // namespace salvage::conformance
