#pragma once

// The fixtures as files in a folder: made when missing, named after all that they depend on, so
// that a changed catalogue or generator never meets an old file. Files of no fixture are deleted.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "fixture_catalogue.h"

namespace salvage::conformance {

struct FixtureStore {
  std::filesystem::path folder;
  std::uint64_t seed = 42;
  unsigned jobs = 2;

  // "llama-dense-1f3a88c2.gguf"
  std::filesystem::path path(const Fixture& fixture) const;

  // Makes what is missing of `fixtures`, each in a process of its own; the error names those that
  // could not be made. Returns how many were made.
  Result<std::size_t> make(const std::vector<Fixture>& fixtures) const;

  // Deletes fixtures of earlier catalogues, told by their names; other files stay.
  void prune(const std::vector<Fixture>& fixtures) const;
};

}  // namespace salvage::conformance
