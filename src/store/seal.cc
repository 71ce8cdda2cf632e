#include "store/seal.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "base/file.h"

namespace salvage::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSealBytesMax = 256;

struct Seal {
  std::string digest;
  std::uint64_t bytes = 0;
  std::int64_t changed = 0;  // ticks of the file clock
};

fs::path seal_path(const fs::path& file) {
  return file.string() + ".seal";
}

Result<std::string> hash_file(const fs::path& path, const model::ByteProgress& progress = {}) {
  ASSIGN_OR_RETURN(const ReadOnlyFile file, ReadOnlyFile::open(path));
  ASSIGN_OR_RETURN(PieceDigest digest, model::hash_content(file, progress));
  return std::move(digest.value);
}

// Size and time of change; the digest stays empty.
Result<Seal> look_at(const fs::path& path) {
  std::error_code error;
  Seal seal;
  seal.bytes = fs::file_size(path, error);
  if (!error) seal.changed = fs::last_write_time(path, error).time_since_epoch().count();
  if (error) return fail(ErrorCode::kNotFound, path.string() + ": " + error.message());
  return seal;
}

Result<Seal> read_seal(const fs::path& file) {
  ASSIGN_OR_RETURN(const ReadOnlyFile source, ReadOnlyFile::open(seal_path(file)));
  std::string text(static_cast<std::size_t>(std::min<std::uint64_t>(source.size(), kSealBytesMax)),
                   '\0');
  RETURN_IF_ERROR(source.read_at(0, std::as_writable_bytes(std::span(text))));
  std::istringstream fields(text);
  Seal seal;
  if (fields >> seal.digest >> seal.bytes >> seal.changed) return seal;
  return fail(ErrorCode::kCorrupt, seal_path(file).string() + " is no seal");
}

Result<void> write_seal(const fs::path& file, const Seal& seal) {
  const std::string text = fmt::format("{} {} {}\n", seal.digest, seal.bytes, seal.changed);
  ASSIGN_OR_RETURN(AtomicFile out, AtomicFile::create(seal_path(file), text.size()));
  RETURN_IF_ERROR(out.write(std::as_bytes(std::span(text))));
  return out.commit();
}

}  // namespace

Result<void> put_seal(const fs::path& file) {
  // Looked at first: a change while the content is hashed makes the seal stale, not wrong.
  ASSIGN_OR_RETURN(Seal seal, look_at(file));
  ASSIGN_OR_RETURN(seal.digest, hash_file(file));
  return write_seal(file, seal);
}

bool seal_intact(const fs::path& file) {
  const auto now = look_at(file);
  const auto sealed = read_seal(file);
  if (!now || !sealed || now->bytes != sealed->bytes) return false;
  if (now->changed == sealed->changed) return true;
  const auto digest = hash_file(file);
  if (!digest || *digest != sealed->digest) return false;
  // Only touched. If the seal cannot be renewed it is hashed again next time.
  (void)write_seal(file, {*digest, now->bytes, now->changed});
  return true;
}

Result<bool> content_is_sealed(const fs::path& file, const model::ByteProgress& progress) {
  const auto sealed = read_seal(file);
  if (!sealed) return false;
  auto digest = hash_file(file, progress);
  if (!digest && digest.error().code() == ErrorCode::kCancelled) return fail(digest.error());
  return digest && *digest == sealed->digest;
}

}  // namespace salvage::store
