#pragma once

// What came out of one fixture, as a value that a child process hands to its parent and the report
// prints.

#include <cstdint>
#include <string>
#include <vector>

namespace salvage::conformance {

enum class Verdict {
  kExact,    // Every legal cut gives the whole model's bits.
  kRefused,  // The model's rules allow no cut; the reason is theirs.
  kWrong,    // A cut that the rules allow gives other bits, or something failed.
};

std::string verdict_name(Verdict verdict);

struct Outcome {
  std::string name;
  std::string architecture;
  bool upstream = false;
  std::uint32_t layer_count = 0;
  Verdict verdict = Verdict::kWrong;
  std::string reason;                     // of a refusal or a failure
  std::vector<std::uint32_t> legal_cuts;  // in two stages
  std::size_t split_count = 0;            // compared, of all stage counts
  std::string cache_type;                 // of the KV cache, "q8_0" where that is possible
  std::string next_turn;                  // how it starts: restore_check.h
  bool chunks_change_bits = false;        // of the whole model: its bits depend on the chunks
};

std::string to_json(const Outcome& outcome);

// Of to_json()'s text; anything else becomes an outcome of kWrong that quotes it.
Outcome outcome_from_json(const std::string& text);

}  // namespace salvage::conformance
