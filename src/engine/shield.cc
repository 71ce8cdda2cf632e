#include "engine/shield.h"

#include <algorithm>
#include <array>
#include <utility>

namespace salvage::engine {
namespace {

using Json = nlohmann::ordered_json;

// Supplementary Private Use Area-A, U+F0000 to U+FFFFF, in blocks of 256.
constexpr char32_t kPrivateBegin = 0xF0000;
constexpr std::size_t kBlockCount = 256;
constexpr char32_t kBlockSize = 256;
constexpr std::size_t kPrivateBytes = 4;  // of one such character in UTF-8
constexpr std::size_t kNone = std::string_view::npos;

bool is_white(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

// The character of the private area at `position`, or 0.
char32_t private_at(std::string_view text, std::size_t position) {
  if (text.size() - position < kPrivateBytes) return 0;
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[position + i]));
  };
  if (byte(0) != 0xF3 || byte(1) < 0xB0 || byte(1) > 0xBF) return 0;
  return ((byte(0) & 0x07) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) |
         (byte(3) & 0x3F);
}

using BlocksUsed = std::array<bool, kBlockCount>;

void note_blocks(std::string_view text, BlocksUsed& used) {
  for (std::size_t i = text.find('\xF3'); i != kNone; i = text.find('\xF3', i + 1)) {
    const char32_t character = private_at(text, i);
    if (character != 0) used[(character - kPrivateBegin) / kBlockSize] = true;
  }
}

void note_all_blocks(const Json& json, BlocksUsed& used) {
  if (json.is_string()) note_blocks(json.get_ref<const std::string&>(), used);
  if (!json.is_structured()) return;
  for (auto item = json.begin(); item != json.end(); ++item) {
    if (json.is_object()) note_blocks(item.key(), used);
    note_all_blocks(*item, used);
  }
}

// The UTF-8 of the character that "\uXXXX" at `position` means; empty for anything else.
std::string escaped_character(std::string_view text, std::size_t position) {
  if (text.size() - position < 6 || text[position + 1] != 'u') return {};
  char32_t value = 0;
  for (const char digit : text.substr(position + 2, 4)) {
    const bool decimal = digit >= '0' && digit <= '9';
    const int letter = (digit | 0x20) - 'a';
    if (!decimal && (letter < 0 || letter > 5)) return {};
    value = value * 16 + static_cast<char32_t>(decimal ? digit - '0' : letter + 10);
  }
  if (value < 0x80) return std::string(1, static_cast<char>(value));
  if (value < 0x800) return {};
  return {static_cast<char>(0xE0 | (value >> 12)), static_cast<char>(0x80 | ((value >> 6) & 0x3F)),
          static_cast<char>(0x80 | (value & 0x3F))};
}

std::string_view trimmed(std::string_view text, bool left, bool right) {
  while (left && !text.empty() && is_white(text.front())) text.remove_prefix(1);
  while (right && !text.empty() && is_white(text.back())) text.remove_suffix(1);
  return text;
}

// Plain text in which the tokenizer would still find a marker is cut within that marker.
void add_plain(const Markers& markers, std::string_view text, std::vector<PromptPart>& parts) {
  std::size_t begin = 0;
  // One may stand within another that is not always found.
  for (auto match = markers.find(text); match; match = markers.find(text, match->begin + 1)) {
    if (!match->marker->always) continue;
    std::size_t cut = match->begin + 1;
    while (cut < match->end && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) ++cut;
    parts.push_back({std::string(text.substr(begin, cut - begin)), true});
    begin = cut;
  }
  if (begin < text.size()) parts.push_back({std::string(text.substr(begin)), true});
}

void add_trusted(std::string_view text, std::vector<PromptPart>& parts) {
  if (text.empty()) return;
  if (parts.empty() || parts.back().plain) parts.push_back({});
  parts.back().text += text;
}

}  // namespace

std::vector<std::string> tags_of(std::string_view template_source, const Markers& markers) {
  std::vector<std::string> tags;
  for (std::size_t begin = template_source.find('<'); begin != kNone;
       begin = template_source.find('<', begin + 1)) {
    std::size_t end = begin + 1;
    if (end < template_source.size() && template_source[end] == '/') ++end;
    const std::size_t name = end;
    while (end < template_source.size() && is_name(template_source[end])) ++end;
    if (end == name || end == template_source.size() || template_source[end] != '>') continue;
    const std::string_view tag = template_source.substr(begin, end + 1 - begin);
    const bool known = std::find(tags.begin(), tags.end(), tag) != tags.end();
    if (!known && !markers.has(tag)) tags.emplace_back(tag);
  }
  return tags;
}

Result<void> Shield::prepare(std::initializer_list<const Json*> conversation) {
  BlocksUsed used{};
  for (const Json* json : conversation) note_all_blocks(*json, used);
  const auto* free = std::find(used.begin(), used.end(), false);
  if (free == used.end()) {
    return fail(ErrorCode::kInvalidArgument,
                "messages: the text uses all of Unicode's private use area; leave some of it out");
  }
  block_ = kPrivateBegin + static_cast<char32_t>(free - used.begin()) * kBlockSize;
  return {};
}

std::string Shield::stand_in(std::size_t index) const {
  const char32_t value = block_ + static_cast<char32_t>(index);
  return {static_cast<char>(0xF0 | (value >> 18)), static_cast<char>(0x80 | ((value >> 12) & 0x3F)),
          static_cast<char>(0x80 | ((value >> 6) & 0x3F)),
          static_cast<char>(0x80 | (value & 0x3F))};
}

std::size_t Shield::tag_at(std::string_view text, std::size_t position) const {
  if (text[position] != '<') return 0;
  const std::string_view rest = text.substr(position);
  for (const std::string& tag : tags_) {
    if (rest.starts_with(tag)) return tag.size();
  }
  return 0;
}

std::size_t Shield::guard_at(std::string_view text, std::size_t position) const {
  const std::string_view rest = text.substr(position);
  const auto& guards = markers_.guards();
  for (std::size_t i = 0; i < guards.size(); ++i) {
    if (rest.starts_with(guards[i])) return i;
  }
  return kNone;
}

void Shield::append_shielded(std::string_view text, std::string& out) const {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t guard = guard_at(text, i);
    const std::size_t tag = guard == kNone ? 0 : tag_at(text, i);
    if (guard == kNone || tag != 0) {
      const std::size_t count = std::max<std::size_t>(tag, 1);
      out.append(text, i, count);
      i += count;
    } else {
      out += stand_in(guard);
      i += markers_.guards()[guard].size();
    }
  }
}

std::string Shield::shielded(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  append_shielded(text, out);
  return out;
}

std::string Shield::shielded_json(std::string_view text) const {
  if (!Json::accept(text)) return shielded(text);
  std::string out;
  out.reserve(text.size());
  bool inside = false;
  std::size_t run = 0;  // of characters within a string, which may make up a tag
  const auto end_run = [&](std::size_t end) {
    if (inside) append_shielded(text.substr(run, end - run), out);
    run = end;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!inside) {
      out += text[i];
      inside = text[i] == '"';
      run = i + 1;
    } else if (text[i] == '"') {
      end_run(i);
      out += '"';
      inside = false;
    } else if (text[i] == '\\') {
      end_run(i);
      const std::string character = escaped_character(text, i);
      const std::size_t guard = character.empty() ? kNone : guard_at(character, 0);
      out += guard == kNone ? std::string(text.substr(i, 2)) : stand_in(guard);
      i += guard == kNone ? 1 : 5;
      run = i + 1;
    }
  }
  return out;
}

bool Shield::apply(Json& json) const {
  bool changed = false;
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    std::string exchanged = shielded(text);
    changed = exchanged != text;
    if (changed) json = std::move(exchanged);
  } else if (json.is_array()) {
    for (Json& item : json) changed = apply(item) || changed;
  } else if (json.is_object()) {
    Json exchanged = Json::object();
    for (auto item = json.begin(); item != json.end(); ++item) {
      const std::string key = shielded(item.key());
      Json& value = exchanged[key] = std::move(item.value());
      changed = changed || key != item.key();
      if (item.key() == "arguments" && value.is_string()) {
        const std::string before = value.get<std::string>();
        value = shielded_json(before);
        changed = changed || value != before;
      } else {
        changed = apply(value) || changed;
      }
    }
    json = std::move(exchanged);
  }
  return changed;
}

std::string Shield::restored(std::string_view shielded) const {
  std::string out;
  out.reserve(shielded.size());
  for (std::size_t i = 0; i < shielded.size();) {
    const char32_t character = shielded[i] == '\xF3' ? private_at(shielded, i) : 0;
    const std::size_t index = character - block_;
    if (character < block_ || index >= markers_.guards().size()) {
      out += shielded[i++];
    } else {
      out += markers_.guards()[index];
      i += kPrivateBytes;
    }
  }
  return out;
}

std::vector<PromptPart> Shield::prompt(std::string_view rendered) const {
  std::vector<PromptPart> parts;
  const Marker* before = nullptr;
  for (std::size_t begin = 0; begin <= rendered.size();) {
    const auto match = markers_.find(rendered, begin);
    const std::size_t end = match ? match->begin : rendered.size();
    const std::string text = restored(rendered.substr(begin, end - begin));
    if (markers_.find(text)) {
      add_plain(markers_,
                trimmed(text, before != nullptr && before->strips_right,
                        match && match->marker->strips_left),
                parts);
    } else {
      add_trusted(text, parts);
    }
    if (!match) break;
    add_trusted(match->marker->text, parts);
    before = match->marker;
    begin = match->end;
  }
  return parts;
}

}  // namespace salvage::engine
