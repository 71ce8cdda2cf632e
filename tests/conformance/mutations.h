#pragma once

// The suite's own test: it must be able to fail. Each mutation spoils one shard, or one hidden
// state on its way, as a mistake of ours would; the comparison must then report it. Beside each
// stands the same shard rewritten without a change, which must stay exact: else "caught" would mean
// nothing.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "fixture_store.h"

namespace salvage::conformance {

struct MutationTotals {
  std::size_t mutation_count = 0;
  std::size_t caught = 0;
  std::size_t control_count = 0;
  std::size_t controls_exact = 0;
  bool good() const { return caught == mutation_count && controls_exact == control_count; }
};

// Names of the fixtures that check_mutations() wants in the store.
std::vector<std::string> mutated_fixtures();

// Prints a line a mutation through `print`. `fixtures` contains at least mutated_fixtures().
MutationTotals check_mutations(const FixtureStore& store, const std::vector<Fixture>& fixtures,
                               const std::filesystem::path& work_folder,
                               const std::function<void(const std::string&)>& print);

}  // namespace salvage::conformance
