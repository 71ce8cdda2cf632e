#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/placement.h"

namespace salvage::planner {
namespace {

std::optional<std::uint32_t> number_of(std::string_view text) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return number;
}

// A user's words in a message: not longer than a line.
std::string_view quoted(std::string_view text) {
  return text.substr(0, 80);
}

}  // namespace

std::string split_text(const Placement& placement, std::span<const NodeRoom> nodes) {
  std::vector<std::uint32_t> counts;
  for (const NodeRoom& room : nodes) {
    std::uint32_t count = 0;
    for (const PlacedStage& stage : placement.stages) {
      if (stage.node == room.node) count = stage.layers.count();
    }
    counts.push_back(count);
  }
  return fmt::format("{}", fmt::join(counts, ","));
}

Result<std::vector<std::uint32_t>> parse_split(std::string_view text) {
  std::vector<std::uint32_t> split;
  std::string_view rest = text;
  for (;;) {
    const std::size_t comma = rest.find(',');
    const auto number = number_of(rest.substr(0, comma));
    if (!number || split.size() == kPlacementNodesMax) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("--split {} is not a list of up to {} numbers with commas between; "
                              "the coordinator's comes first: 6,6,4,2",
                              quoted(text), kPlacementNodesMax));
    }
    split.push_back(*number);
    if (comma == std::string_view::npos) return split;
    rest.remove_prefix(comma + 1);
  }
}

Result<NamedPin> parse_pin(std::string_view text) {
  const auto malformed = [&] {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--pin {} is neither node=count nor node=first:end, as in pi-3=6 or "
                            "pi-3=0:6",
                            quoted(text)));
  };
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0) return malformed();
  NamedPin named{.node = std::string(text.substr(0, equals))};
  const std::string_view layers = text.substr(equals + 1);
  const std::size_t colon = layers.find(':');
  if (colon == std::string_view::npos) {
    const auto count = number_of(layers);
    if (!count) return malformed();
    named.pin.layer_count = *count;
    return named;
  }
  const auto begin = number_of(layers.substr(0, colon));
  const auto end = number_of(layers.substr(colon + 1));
  if (!begin || !end || *begin >= *end) return malformed();
  named.pin.layers = LayerRange{*begin, *end};
  named.pin.layer_count = *end - *begin;
  return named;
}

}  // namespace salvage::planner
