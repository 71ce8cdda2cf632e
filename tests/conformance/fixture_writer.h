#pragma once

// Makes one fixture's file: upstream's metadata with more layers, sane random weights, and either
// upstream's own way of saving a model or, where that doesn't know the architecture, ours.

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "fixture_catalogue.h"

namespace salvage::conformance {

// Calls libllama, which may abort the process: run it in a child.
Result<void> write_fixture(const Fixture& fixture, std::uint64_t seed,
                           const std::filesystem::path& path);

}  // namespace salvage::conformance
