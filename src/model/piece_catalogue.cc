#include "model/piece_catalogue.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "base/utf8.h"
#include "model/digest.h"
#include "model/piece.h"
#include "model/skeleton.h"

namespace salvage::model {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kEntryVersion = 1;

tl::unexpected<Error> bad_catalogue(std::string_view what) {
  return fail(ErrorCode::kCorrupt,
              fmt::format("the catalogue entry's {} is missing or wrong", what));
}

const Json* member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::optional<std::string> text_of(const Json& object, const char* key) {
  const Json* const value = member(object, key);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->get_ref<const std::string&>();
}

std::optional<std::uint64_t> number_of(const Json& object, const char* key) {
  const Json* const value = member(object, key);
  if (value == nullptr || !value->is_number_unsigned()) return std::nullopt;
  return value->get<std::uint64_t>();
}

std::optional<PieceDigest> digest_of(const Json& object, const char* key) {
  auto text = text_of(object, key);
  if (!text || !is_digest(*text)) return std::nullopt;
  return PieceDigest{std::move(*text)};
}

bool is_model_name(const std::string& name) {
  if (name.empty() || name.size() > kModelNameBytesMax || !valid_utf8(name)) return false;
  return std::none_of(name.begin(), name.end(), [](char byte) {
    return static_cast<unsigned char>(byte) < ' ' || byte == '\x7f';
  });
}

// Names are looked at more closely when the skeleton is there (check_entry).
bool is_piece_name(const std::string& name) {
  if (name == "embedding" || name == "output" || name == "shared") return true;
  constexpr std::string_view kLayer = "layer ";
  if (!name.starts_with(kLayer)) return false;
  const std::string_view number = std::string_view(name).substr(kLayer.size());
  const bool digits = !number.empty() && number.size() <= 3 &&
                      number.find_first_not_of("0123456789") == std::string_view::npos;
  return digits && (number == "0" || number.front() != '0');
}

Result<PieceEntry> parse_piece(const Json& json) {
  if (!json.is_object()) return bad_catalogue("list of pieces");
  const auto name = text_of(json, "name");
  const auto digest = digest_of(json, "digest");
  const auto bytes = number_of(json, "bytes");
  if (!name || !is_piece_name(*name)) return bad_catalogue("name of a piece");
  if (!digest) return bad_catalogue("digest of a piece");
  if (!bytes || *bytes == 0 || *bytes > kPieceBytesMax) return bad_catalogue("size of a piece");
  return PieceEntry{*name, *digest, *bytes};
}

Result<std::vector<PieceEntry>> parse_pieces(const Json& json) {
  const Json* const list = member(json, "pieces");
  if (list == nullptr || !list->is_array() || list->empty() || list->size() > kPieceCountMax) {
    return bad_catalogue("list of pieces");
  }
  std::vector<PieceEntry> pieces;
  std::set<std::string> names;
  std::map<PieceDigest, std::uint64_t> sizes;
  for (const Json& item : *list) {
    ASSIGN_OR_RETURN(PieceEntry piece, parse_piece(item));
    if (!names.insert(piece.name).second) return bad_catalogue("list of pieces");
    // Equal layers have one digest, but one digest has one size.
    if (sizes.emplace(piece.digest, piece.bytes).first->second != piece.bytes) {
      return bad_catalogue("list of pieces");
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

Result<CatalogueEntry> parse_object(const Json& json) {
  if (!json.is_object()) return bad_catalogue("text");
  if (number_of(json, "version") != kEntryVersion) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the catalogue entry is not of version {}, which this program reads",
                            kEntryVersion));
  }
  CatalogueEntry entry;
  const auto name = text_of(json, "name");
  const auto model_digest = digest_of(json, "model_digest");
  const auto skeleton = digest_of(json, "skeleton");
  const auto skeleton_bytes = number_of(json, "skeleton_bytes");
  if (!name || !is_model_name(*name)) return bad_catalogue("name");
  if (!model_digest) return bad_catalogue("model_digest");
  if (!skeleton) return bad_catalogue("skeleton");
  if (!skeleton_bytes || *skeleton_bytes == 0 || *skeleton_bytes > kSkeletonBytesMax) {
    return bad_catalogue("skeleton_bytes");
  }
  entry.name = *name;
  entry.model_digest = model_digest->value;
  entry.skeleton = *skeleton;
  entry.skeleton_bytes = *skeleton_bytes;
  ASSIGN_OR_RETURN(entry.pieces, parse_pieces(json));
  return entry;
}

// A name that parse_entry() takes, whatever a file is called.
std::string as_model_name(std::string_view wished) {
  std::string name;
  for (const char byte : wished.substr(0, kModelNameBytesMax)) {
    const bool control = static_cast<unsigned char>(byte) < ' ' || byte == '\x7f';
    name += control ? '_' : byte;
  }
  name.resize(utf8_valid_prefix(name));
  return name.empty() ? "model" : name;
}

std::string digest_text(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

}  // namespace

ModelId CatalogueEntry::id() const {
  Sha256 hash;
  hash.update(skeleton.value + "\n");
  for (const PieceEntry& piece : pieces) hash.update(piece.digest.value + "\n");
  return ModelId{hash.hex()};
}

std::uint64_t CatalogueEntry::bytes() const {
  std::uint64_t sum = 0;
  for (const PieceEntry& piece : pieces) sum += piece.bytes;
  return sum;
}

std::string encode_entry(const CatalogueEntry& entry) {
  Json pieces = Json::array();
  for (const PieceEntry& piece : entry.pieces) {
    pieces.push_back(
        {{"name", piece.name}, {"digest", piece.digest.value}, {"bytes", piece.bytes}});
  }
  const Json json = {{"version", kEntryVersion},
                     {"name", entry.name},
                     {"model_digest", entry.model_digest},
                     {"skeleton", entry.skeleton.value},
                     {"skeleton_bytes", entry.skeleton_bytes},
                     {"pieces", std::move(pieces)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<CatalogueEntry> parse_entry(std::string_view text) {
  if (text.size() > kEntryBytesMax) {
    return fail(ErrorCode::kCorrupt, fmt::format("a catalogue entry of {} bytes; {} is the most",
                                                 text.size(), kEntryBytesMax));
  }
  try {
    // Without exceptions for what it is given; those of allocation remain.
    return parse_object(Json::parse(text.begin(), text.end(), nullptr, false));
  } catch (const std::exception& error) {
    return fail(ErrorCode::kCorrupt, fmt::format("the catalogue entry: {}", error.what()));
  }
}

Result<void> check_entry(const CatalogueEntry& entry, const Gguf& skeleton) {
  ASSIGN_OR_RETURN(const std::vector<Piece> pieces, list_pieces(skeleton));
  const bool same = std::equal(pieces.begin(), pieces.end(), entry.pieces.begin(),
                               entry.pieces.end(), [](const Piece& piece, const PieceEntry& said) {
                                 return piece.name() == said.name && piece.bytes == said.bytes;
                               });
  if (!same) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("the pieces of the catalogue entry {} are not those of its skeleton",
                            entry.name));
  }
  return {};
}

Result<CataloguedModel> catalogue_model(const Gguf& model, const std::string& name,
                                        const Progress& progress) {
  CataloguedModel result;
  ASSIGN_OR_RETURN(result.skeleton, make_skeleton(model));
  ASSIGN_OR_RETURN(const std::vector<Piece> pieces, list_pieces(model));
  if (pieces.empty()) return fail(ErrorCode::kUnsupported, "the model has no tensors");
  CatalogueEntry& entry = result.entry;
  entry.name = as_model_name(name);
  ASSIGN_OR_RETURN(entry.model_digest, model_digest(model));
  entry.skeleton = PieceDigest{digest_text(result.skeleton)};
  entry.skeleton_bytes = result.skeleton.size();
  std::uint64_t total = 0;
  for (const Piece& piece : pieces) total += piece.bytes;
  std::uint64_t done = 0;
  const ByteProgress step = [&](std::uint64_t more) {
    done += more;
    return !progress || progress(static_cast<double>(done) / static_cast<double>(total));
  };
  // The caller's model outlives the contents: nobody owns it here.
  const std::shared_ptr<const Gguf> file(std::shared_ptr<const Gguf>(), &model);
  for (const Piece& piece : pieces) {
    const PieceContent content(piece, file, piece.tensors);
    auto digest = hash_content(content, step);
    if (!digest) return fail(std::move(digest).error().within(piece.name()));
    entry.pieces.push_back({piece.name(), std::move(*digest), piece.bytes});
  }
  return result;
}

}  // namespace salvage::model
