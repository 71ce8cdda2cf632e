#include "store/piece_writer.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace salvage::store {

namespace fs = std::filesystem;

Result<std::unique_ptr<PieceWriter>> PieceWriter::open(WriterTarget target, Released released) {
  std::error_code error;
  const auto size = fs::file_size(target.part, error);
  // Longer than the piece: of something else, or damaged.
  if (!error && size > target.bytes) fs::remove(target.part, error);
  auto file = AppendFile::open(target.part, target.bytes);
  if (!file) return fail(std::move(file).error().within(target.name));
  std::unique_ptr<PieceWriter> writer(new PieceWriter(std::move(target), std::move(released)));
  if (file->size() == 0) writer->running_.emplace();
  writer->file_.emplace(std::move(*file));
  return writer;
}

PieceWriter::PieceWriter(WriterTarget target, Released released)
    : target_(std::move(target)), released_(std::move(released)) {}

PieceWriter::~PieceWriter() {
  released_(finished_);
}

Result<void> PieceWriter::write(std::uint64_t at, std::span<const std::byte> data) {
  if (at > bytes() || data.size() > bytes() - at) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: bytes {} to {} are past its end, at {}", target_.name, at,
                            at + data.size(), bytes()));
  }
  if (at <= offset()) {
    const std::uint64_t known = std::min<std::uint64_t>(offset() - at, data.size());
    RETURN_IF_ERROR(append(data.subspan(known)));
    return append_waiting();
  }
  const auto here = waiting_.find(at);
  if (here != waiting_.end() && here->second.size() >= data.size()) return {};
  if (data.size() > kAheadBytesMax - waiting_bytes_) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("{}: more than {} bytes wait for byte {}", target_.name, kAheadBytesMax,
                            offset()));
  }
  if (here != waiting_.end()) waiting_bytes_ -= here->second.size();
  waiting_bytes_ += data.size();
  waiting_[at].assign(reinterpret_cast<const char*>(data.data()), data.size());
  return {};
}

Result<void> PieceWriter::append_waiting() {
  while (!waiting_.empty() && waiting_.begin()->first <= offset()) {
    const auto node = waiting_.extract(waiting_.begin());
    waiting_bytes_ -= node.mapped().size();
    const std::uint64_t known =
        std::min<std::uint64_t>(offset() - node.key(), node.mapped().size());
    RETURN_IF_ERROR(append(std::as_bytes(std::span(node.mapped())).subspan(known)));
  }
  return {};
}

Result<void> PieceWriter::append(std::span<const std::byte> data) {
  if (data.empty()) return {};
  const std::uint64_t before = offset();
  auto written = file_->write(data);
  if (!written) {
    running_.reset();  // part of `data` may be in the file
    return fail(std::move(written).error().within(target_.name));
  }
  CHECK(offset() == before + data.size());
  if (running_) running_->update(data);
  return {};
}

Result<PieceDigest> PieceWriter::hash(const model::ByteProgress& progress) {
  if (running_) return PieceDigest{std::exchange(running_, std::nullopt)->hex()};
  ASSIGN_OR_RETURN(const ReadOnlyFile file, ReadOnlyFile::open(target_.part));
  return model::hash_content(file, progress);
}

Result<void> PieceWriter::finish(const model::ByteProgress& progress) {
  if (!complete()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} bytes of {} are here", target_.name, offset(), bytes()));
  }
  ASSIGN_OR_RETURN(const PieceDigest found, hash(progress));
  if (found != target_.digest) {
    std::error_code ignored;
    fs::remove(target_.part, ignored);
    ASSIGN_OR_RETURN(AppendFile again, AppendFile::open(target_.part, bytes()));
    file_.reset();
    file_.emplace(std::move(again));
    running_.emplace();
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} came damaged: its digest is {}, not {}; it is fetched again",
                            target_.name, found.value, target_.digest.value));
  }
  RETURN_IF_ERROR(file_->publish(target_.final_path));
  finished_ = true;
  return {};
}

}  // namespace salvage::store
