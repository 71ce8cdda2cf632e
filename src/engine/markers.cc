#include "engine/markers.h"

#include <algorithm>
#include <utility>

namespace salvage::engine {
namespace {

// What frames the names of control tokens, the rarest in people's texts first: of these a marker's
// guard is the first that it has. The second is U+FF5C, in DeepSeek's tokens.
constexpr std::array<std::string_view, 7> kFrames = {"|", "\xef\xbd\x9c", "<", "[", ">", "]", "{"};

std::string_view guard_of(std::string_view marker) {
  for (const std::string_view frame : kFrames) {
    if (marker.find(frame) != std::string_view::npos) return frame;
  }
  return {};
}

std::size_t first_byte(std::string_view text) {
  return static_cast<unsigned char>(text.front());
}

}  // namespace

Markers::Markers(std::vector<Marker> markers) : markers_(std::move(markers)) {
  std::erase_if(markers_, [](const Marker& marker) { return guard_of(marker.text).empty(); });
  for (std::size_t i = 0; i < markers_.size(); ++i) {
    const std::string_view text = markers_[i].text;
    index_of_.emplace(text, i);
    auto& lengths = lengths_by_first_[first_byte(text)];
    if (std::find(lengths.begin(), lengths.end(), text.size()) == lengths.end()) {
      lengths.push_back(text.size());
    }
    const std::string guard(guard_of(text));
    if (std::find(guards_.begin(), guards_.end(), guard) == guards_.end()) {
      guards_.push_back(guard);
    }
  }
  for (auto& lengths : lengths_by_first_) std::sort(lengths.rbegin(), lengths.rend());
}

std::optional<Markers::Match> Markers::find(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    for (const std::size_t length : lengths_by_first_[first_byte(text.substr(begin))]) {
      if (length > text.size() - begin) continue;
      const auto found = index_of_.find(text.substr(begin, length));
      if (found == index_of_.end()) continue;
      return Match{begin, begin + length, &markers_[found->second]};
    }
  }
  return std::nullopt;
}

}  // namespace salvage::engine
