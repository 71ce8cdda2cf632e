#pragma once

// The texts that a tokenizer turns into control tokens ("<|im_start|>", "</s>", "[INST]"), and
// where they stand in a text. Pure; const calls from any thread.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace salvage::engine {

struct Marker {
  std::string text;
  bool strips_left = false;   // White space before it belongs to it,
  bool strips_right = false;  // or behind it.
  // The tokenizer finds it even where it is told not to look for control tokens.
  bool always = false;
};

class Markers {
 public:
  // A marker without any of | ｜ < [ > ] { is left out: it would be a word of people's texts, and
  // no known vocabulary has one.
  explicit Markers(std::vector<Marker> markers);

  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
    const Marker* marker = nullptr;  // in this object
  };
  // The first at or behind `from`, of several that begin there the longest.
  std::optional<Match> find(std::string_view text, std::size_t from = 0) const;

  // Characters (UTF-8) of which every marker has at least one: text without them, or with something
  // else in their places, cannot become a marker.
  const std::vector<std::string>& guards() const { return guards_; }
  bool has(std::string_view text) const { return index_of_.contains(text); }

 private:
  std::vector<Marker> markers_;
  std::unordered_map<std::string_view, std::size_t> index_of_;    // views into markers_
  std::array<std::vector<std::size_t>, 256> lengths_by_first_{};  // bytes, the longest first
  std::vector<std::string> guards_;
};

}  // namespace salvage::engine
