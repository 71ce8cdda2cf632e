#pragma once

// The random models that the conformance suite is made of: which architecture, how many layers,
// and what its metadata must say beyond what upstream's own generator writes. Plain data.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace salvage::conformance {

// One metadata value to set; the key is written without the architecture's prefix.
struct MetadataEdit {
  std::string key;
  std::variant<std::uint32_t, float, bool, std::string, std::vector<std::uint32_t>,
               std::vector<float>, std::vector<bool>>
      value;
};

struct Fixture {
  std::string name;                // Also the file's name, without ".gguf".
  std::string architecture;        // general.architecture
  bool experts = false;            // The mixture-of-experts variant of upstream's generator.
  bool upstream = false;           // One of the files that upstream's generator writes.
  bool saved_by_upstream = false;  // Else written from our metadata and the tensors that load.
  std::uint32_t layer_count = 8;
  std::vector<MetadataEdit> edits;
  std::vector<std::string> removed_keys;
  std::vector<std::string> removed_tensors;  // Optional ones that the case is about not having.
};

// What upstream's generator knows, in its order.
struct UpstreamCase {
  std::string architecture;
  bool experts = false;
  bool saver_supports = false;
};

// All fixtures: one a case that upstream's generator writes, then our own.
std::vector<Fixture> fixture_catalogue(const std::vector<UpstreamCase>& upstream_cases);

}  // namespace salvage::conformance
