#pragma once

// Judges one fixture: the whole model's logits against those of its stages, at every cut that the
// model's rules call legal, bit for bit; and every other cut must be refused by name and reason.

#include <cstdint>
#include <filesystem>
#include <string>

#include "model/architecture.h"
#include "outcome.h"

namespace salvage::conformance {

struct FixtureCheck {
  std::filesystem::path model;
  std::filesystem::path work_folder;  // for shards; made and removed
  model::Unproven unproven = model::Unproven::kRefuse;
  std::size_t three_stage_splits_max = 6;
  std::size_t four_stage_splits_max = 4;
  std::uint64_t seed = 7;
};

// Calls libllama, which may abort the process: run it in a child. Fills all of the outcome but the
// fixture's name and where it comes from.
Outcome check_fixture(const FixtureCheck& check);

}  // namespace salvage::conformance
