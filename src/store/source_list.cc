// sources.json: which model files elsewhere on this machine hold a model's pieces.

#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "model/piece_catalogue.h"
#include "store/container.h"

namespace salvage::store {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kSourcesBytesMax = std::uint64_t{1} << 20;

tl::unexpected<Error> bad(const ModelFolder& folder) {
  return fail(ErrorCode::kCorrupt, folder.sources_path().native() + " is no list of model files");
}

Json to_json(const SourceFile& source) {
  Json stamps = Json::array();
  for (const FileStamp& stamp : source.stamps) stamps.push_back({stamp.bytes, stamp.changed});
  Json damaged = Json::array();
  for (const PieceDigest& digest : source.damaged) damaged.push_back(digest.value);
  return {{"path", source.path.native()},
          {"stamps", std::move(stamps)},
          {"damaged", std::move(damaged)}};
}

// Throws what nlohmann throws at members that are missing or of another type.
SourceFile from_json(const Json& json) {
  SourceFile source;
  source.path = json.at("path").get<std::string>();
  for (const Json& stamp : json.at("stamps")) {
    source.stamps.push_back({stamp.at(0).get<std::uint64_t>(), stamp.at(1).get<std::int64_t>()});
  }
  for (const Json& digest : json.at("damaged")) {
    source.damaged.push_back(PieceDigest{digest.get<std::string>()});
  }
  return source;
}

}  // namespace

Result<std::vector<SourceFile>> read_sources(const ModelFolder& folder) {
  const auto text = read_small_file(folder.sources_path(), kSourcesBytesMax);
  if (!text && text.error().code() == ErrorCode::kNotFound) return std::vector<SourceFile>();
  if (!text) return fail(text.error());
  try {
    std::vector<SourceFile> sources;
    for (const Json& item : Json::parse(*text)) sources.push_back(from_json(item));
    return sources;
  } catch (const std::exception&) {
    return bad(folder);
  }
}

Result<void> write_sources(const ModelFolder& folder, const std::vector<SourceFile>& sources) {
  Json list = Json::array();
  for (const SourceFile& source : sources) {
    if (!valid_utf8(source.path.native())) {
      return fail(ErrorCode::kInvalidArgument,
                  "the model file's name is not UTF-8; rename the file and load it again");
    }
    list.push_back(to_json(source));
  }
  return write_small_file(folder.sources_path(), list.dump());
}

}  // namespace salvage::store
