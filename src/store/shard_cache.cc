#include "store/shard_cache.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/environment.h"
#include "model/digest.h"
#include "model/shard.h"
#include "store/seal.h"

namespace salvage::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kCacheNameDigits = 32;  // 128 bits of the digest

std::string shard_name(LayerRange layers) {
  return fmt::format("layers-{}-{}.gguf", layers.begin, layers.end);
}

// A shard with its content as it was made, which is what would be made under its name today.
bool holds(const fs::path& path, const model::Gguf& model, LayerRange layers) {
  if (!seal_intact(path)) return false;
  const auto file = model::Gguf::open(path);
  return file && model::is_shard_of(*file, model, layers);
}

bool opens(const fs::path& path) {
  return seal_intact(path) && model::Gguf::open(path).has_value();
}

struct Folder {
  fs::path path;
  fs::file_time_type used;
  std::uint64_t bytes = 0;
};

std::vector<Folder> folders_under(const fs::path& root) {
  std::vector<Folder> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    if (!entry.is_directory(error)) continue;
    Folder folder{entry.path(), entry.last_write_time(error), 0};
    for (const auto& file : fs::directory_iterator(entry.path(), error)) {
      const auto bytes = file.file_size(error);
      if (!error) folder.bytes += bytes;
    }
    folders.push_back(std::move(folder));
  }
  return folders;
}

std::uint64_t size_of(const fs::path& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  return error ? 0 : bytes;
}

}  // namespace

fs::path ShardCache::default_root() {
  const auto named = environment("SALVAGE_CACHE");
  if (named) return fs::path(*named) / "shards";
  if (const auto xdg = environment("XDG_CACHE_HOME")) return fs::path(*xdg) / "salvage" / "shards";
  if (const auto home = environment("HOME"))
    return fs::path(*home) / ".cache" / "salvage" / "shards";
  return "/var/cache/salvage/shards";
}

Result<fs::path> ShardCache::folder_of(const model::Gguf& model) {
  ASSIGN_OR_RETURN(const std::string digest, model::model_digest(model));
  const fs::path folder = root_ / digest.substr(0, kCacheNameDigits);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return fail(ErrorCode::kPermissionDenied,
                fmt::format("cannot create the folder {}: {}; set SALVAGE_CACHE to a folder that "
                            "can be written",
                            folder.string(), error.message()));
  }
  // Its time of change is its time of use, by which evict() chooses.
  fs::last_write_time(folder, fs::file_time_type::clock::now(), error);
  return folder;
}

Result<void> ShardCache::make_shard(const model::Gguf& model, LayerRange layers,
                                    const fs::path& path, const CacheProgress& progress) {
  model::ShardOptions options;
  const std::string name = shard_name(layers);
  if (progress) options.progress = [&](double fraction) { return progress(name, fraction); };
  RETURN_IF_ERROR(model::write_shard(model, layers, path, options));
  return put_seal(path);
}

Result<ModelFiles> ShardCache::prepare(const model::Gguf& model,
                                       const std::vector<LayerRange>& stages,
                                       const CacheProgress& progress) {
  ASSIGN_OR_RETURN(const fs::path folder, folder_of(model));
  evict(folder);
  ModelFiles files;
  ASSIGN_OR_RETURN(files.vocabulary, vocabulary_in(folder, model));
  for (const LayerRange layers : stages) {
    const fs::path path = folder / shard_name(layers);
    if (!holds(path, model, layers)) {
      RETURN_IF_ERROR(make_shard(model, layers, path, progress));
      files.made_bytes += size_of(path);
    }
    files.shards.push_back(path);
  }
  ASSIGN_OR_RETURN(const model::Gguf first, model::Gguf::open(files.shards.front()));
  ASSIGN_OR_RETURN(const auto facts, model::read_shard_facts(first));
  if (!facts || facts->input == model::ShardInput::kTokens) return files;
  files.embedding_table = folder / "embeddings.gguf";
  if (opens(files.embedding_table)) return files;
  RETURN_IF_ERROR(model::write_embedding_table(model, files.embedding_table));
  RETURN_IF_ERROR(put_seal(files.embedding_table));
  files.made_bytes += size_of(files.embedding_table);
  return files;
}

Result<fs::path> ShardCache::prepare_vocabulary(const model::Gguf& model) {
  ASSIGN_OR_RETURN(const fs::path folder, folder_of(model));
  return vocabulary_in(folder, model);
}

Result<fs::path> ShardCache::vocabulary_in(const fs::path& folder, const model::Gguf& model) {
  const fs::path path = folder / "vocabulary.gguf";
  if (opens(path)) return path;
  RETURN_IF_ERROR(model::write_vocabulary(model, path));
  RETURN_IF_ERROR(put_seal(path));
  return path;
}

// Other models' folders, longest unused first, until the rest fits.
void ShardCache::evict(const fs::path& keep) {
  std::vector<Folder> folders = folders_under(root_);
  std::uint64_t bytes = 0;
  for (const Folder& folder : folders) bytes += folder.bytes;
  std::sort(folders.begin(), folders.end(),
            [](const Folder& a, const Folder& b) { return a.used < b.used; });
  for (const Folder& folder : folders) {
    if (bytes <= bytes_max_) return;
    if (folder.path == keep) continue;
    std::error_code ignored;
    fs::remove_all(folder.path, ignored);
    bytes -= folder.bytes;
  }
}

}  // namespace salvage::store
