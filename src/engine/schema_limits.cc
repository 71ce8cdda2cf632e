#include "engine/schema_limits.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace salvage::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kSchemaNodesMax = 16384;
// Each property that may be absent costs a rule for what may follow it, and libllama builds them
// anew for each: the square of their number.
constexpr std::size_t kPropertiesMax = 256;
constexpr std::size_t kPropertyBytesMax = 512;
// Rules are named by their path, so the paths of all nodes together are what the names weigh.
constexpr std::size_t kPathBytesMax = std::size_t{8} << 20;
// A node below an object with several types is converted once for each.
constexpr std::size_t kVisitsMax = std::size_t{1} << 17;
// Each reference copies the whole schema.
constexpr std::size_t kReferencesMax = 256;
constexpr std::size_t kReferenceNodesMax = std::size_t{1} << 20;
constexpr int kReferenceChainMax = 64;

constexpr std::size_t kGrammarBytesMax = std::size_t{2} << 20;
constexpr std::size_t kGrammarDepthMax = 200;
// Elements of 8 bytes: 64 MiB.
constexpr std::uint64_t kGrammarElementsMax = std::uint64_t{8} << 20;
// libllama refuses more at least, and takes more at most for any number.
constexpr std::uint64_t kRepetitionMax = 2000;

Result<void> refuse(std::string why) {
  return fail(ErrorCode::kInvalidArgument, std::move(why));
}

struct SchemaCensus {
  std::size_t nodes = 0;
  std::size_t visits = 0;
  std::size_t path_bytes = 0;
  std::vector<std::string> references;
};

// How many of the types that a schema lists look at what is nested in it.
std::size_t nesting_types(const Json& schema) {
  const auto types = schema.find("type");
  if (types == schema.end() || !types->is_array()) return 1;
  std::size_t count = 0;
  for (const Json& type : *types) {
    if (type == "object" || type == "array" || (type == "string" && schema.contains("allOf"))) {
      ++count;
    }
  }
  return std::max<std::size_t>(count, 1);
}

struct SchemaPlace {
  std::size_t path_bytes = 0;
  std::size_t weight = 1;  // how often the converter gets here
};

// `json` is no deeper than kJsonDepthMax.
Result<void> count_nodes(const Json& json, SchemaPlace place, SchemaCensus& census) {
  ++census.nodes;
  census.visits += place.weight;
  census.path_bytes += place.path_bytes;
  if (census.nodes > kSchemaNodesMax || census.visits > kVisitsMax ||
      census.path_bytes > kPathBytesMax) {
    return refuse("the schema is too large; leave out what the answer can do without");
  }
  if (json.is_array()) {
    for (const Json& item : json) RETURN_IF_ERROR(count_nodes(item, place, census));
  }
  if (!json.is_object()) return {};
  if (json.size() > kPropertiesMax) {
    return refuse(fmt::format("an object with {} properties; at most {} can be described",
                              json.size(), kPropertiesMax));
  }
  const auto reference = json.find("$ref");
  if (reference != json.end() && reference->is_string()) census.references.push_back(*reference);
  place.weight = std::min(place.weight * nesting_types(json), kVisitsMax);
  for (auto item = json.begin(); item != json.end(); ++item) {
    if (item.key().size() > kPropertyBytesMax) {
      return refuse(fmt::format("a property's name of {} bytes; at most {} can be used",
                                item.key().size(), kPropertyBytesMax));
    }
    SchemaPlace below = place;
    below.path_bytes += item.key().size() + 1;
    RETURN_IF_ERROR(count_nodes(*item, below, census));
  }
  return {};
}

// What "#/a/0/b" points at; null if nothing.
const Json* pointed_at(const Json& schema, std::string_view reference) {
  if (!reference.starts_with("#/")) return nullptr;
  reference.remove_prefix(2);
  const Json* at = &schema;
  while (at != nullptr) {
    const std::size_t end = std::min(reference.find('/'), reference.size());
    const std::string step(reference.substr(0, end));
    if (at->is_object()) {
      const auto found = at->find(step);
      at = found == at->end() ? nullptr : &*found;
    } else if (at->is_array()) {
      std::size_t index = 0;
      const auto read = std::from_chars(step.data(), step.data() + step.size(), index);
      const bool fits = read.ec == std::errc() && index < at->size();
      at = fits ? &(*at)[index] : nullptr;
    } else {
      at = nullptr;
    }
    if (end == reference.size()) break;
    reference.remove_prefix(end + 1);
  }
  return at;
}

Result<void> check_references(const Json& schema, const SchemaCensus& census) {
  if (census.references.size() > kReferencesMax ||
      census.references.size() * census.nodes > kReferenceNodesMax) {
    return refuse(fmt::format("the schema has {} references; write some of them out",
                              census.references.size()));
  }
  for (const std::string& first : census.references) {
    std::string reference = first;
    int steps = 0;
    for (; steps < kReferenceChainMax; ++steps) {
      const Json* target = pointed_at(schema, reference);
      if (target == nullptr || !target->is_object()) break;
      const auto next = target->find("$ref");
      if (next == target->end() || !next->is_string()) break;
      reference = *next;
    }
    if (steps == kReferenceChainMax) {
      return refuse(fmt::format("the reference {} leads in a circle", first));
    }
  }
  return {};
}

// Walks over a grammar's text and adds up what it expands to.
class GrammarReader {
 public:
  explicit GrammarReader(std::string_view text) : text_(text) {}

  Result<void> read() {
    while (position_ < text_.size()) RETURN_IF_ERROR(read_one());
    return {};
  }

 private:
  Result<void> read_one() {
    switch (text_[position_]) {
      case '#':
        position_ = std::min(text_.find('\n', position_), text_.size());
        return {};
      case '"':
        last_elements_ = skip_quoted('"');
        break;
      case '[':
        last_elements_ = skip_quoted(']');
        break;
      case '{':
        return read_repetition();
      case '(':
        ++position_;
        if (++depth_ > kGrammarDepthMax) return refuse("its brackets are nested too deep");
        return {};
      case ')':
        ++position_;
        if (depth_ > 0) --depth_;
        last_elements_ = 1;
        return {};
      case ' ':
      case '\t':
        ++position_;
        return {};
      default:
        ++position_;
        last_elements_ = 1;
    }
    elements_ += last_elements_;
    return elements_ > kGrammarElementsMax ? refuse("it is too large") : Result<void>();
  }

  // Stands behind the closing character afterwards; how many characters there were.
  std::uint64_t skip_quoted(char close) {
    std::uint64_t count = 0;
    for (++position_; position_ < text_.size() && text_[position_] != close; ++position_, ++count) {
      if (text_[position_] == '\\') ++position_;
    }
    ++position_;
    return std::max<std::uint64_t>(count, 1);
  }

  std::uint64_t read_number() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t')) {
      ++position_;
    }
    std::uint64_t value = 0;
    const char* end = text_.data() + text_.size();
    const auto read = std::from_chars(text_.data() + position_, end, value);
    if (read.ec == std::errc::result_out_of_range) value = kRepetitionMax + 1;
    position_ = static_cast<std::size_t>(read.ptr - text_.data());
    return std::min(value, kRepetitionMax + 1);
  }

  // {m}, {m,} or {m,n}
  Result<void> read_repetition() {
    ++position_;
    const std::uint64_t least = read_number();
    if (least > kRepetitionMax) return refuse("a repetition has more than 2000 times at least");
    std::uint64_t most = least;
    const std::size_t close = std::min(text_.find('}', position_), text_.size());
    const std::size_t comma = text_.substr(position_, close - position_).find(',');
    if (comma != std::string_view::npos) {
      position_ += comma + 1;
      const bool bounded = text_.substr(position_, close - position_).find_first_not_of(" \t") !=
                           std::string_view::npos;
      most = bounded ? read_number() : least;
      if (most < least) return refuse("a repetition's bounds are the wrong way round");
    }
    position_ = std::min(close + 1, text_.size());
    elements_ += std::max<std::uint64_t>(most, 1) * (last_elements_ + 2);
    return elements_ > kGrammarElementsMax ? refuse("its repetitions are too many")
                                           : Result<void>();
  }

  std::string_view text_;
  std::size_t position_ = 0;
  std::size_t depth_ = 0;
  std::uint64_t last_elements_ = 1;  // of the item that a repetition would repeat
  std::uint64_t elements_ = 0;
};

}  // namespace

bool json_is_deep(const Json& json) {
  // Places in the containers that are open now; one more than the depth of nesting.
  std::vector<std::pair<Json::const_iterator, Json::const_iterator>> open;
  open.emplace_back(json.begin(), json.end());
  while (!open.empty()) {
    auto& [next, end] = open.back();
    if (next == end) {
      open.pop_back();
      continue;
    }
    const Json& item = *next;
    ++next;
    if (!item.is_structured()) continue;
    if (open.size() >= kJsonDepthMax) return true;
    open.emplace_back(item.begin(), item.end());
  }
  return false;
}

Result<std::size_t> check_schema(const Json& schema) {
  if (!schema.is_object()) return fail(ErrorCode::kInvalidArgument, "a schema is a JSON object");
  if (json_is_deep(schema)) {
    return fail(ErrorCode::kInvalidArgument, "the schema is nested too deep");
  }
  SchemaCensus census;
  RETURN_IF_ERROR(count_nodes(schema, {}, census));
  RETURN_IF_ERROR(check_references(schema, census));
  return census.nodes;
}

Result<void> check_grammar_text(std::string_view grammar) {
  if (grammar.size() > kGrammarBytesMax) {
    return refuse(
        fmt::format("it has {} bytes; at most {} can be used", grammar.size(), kGrammarBytesMax));
  }
  return GrammarReader(grammar).read();
}

}  // namespace salvage::engine
