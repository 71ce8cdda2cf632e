#include "http/http_stream.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace salvage::http {

int HttpStream::left(TimePoint until) const {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(until - clock_.now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(milliseconds, 0, 1 << 30));
}

ssize_t HttpStream::read(char* ptr, size_t size) {
  if (begin_ == end_) {
    if (!wait_readable()) return -1;
    const std::int64_t count = read_socket(descriptor_, buffer_.data(), buffer_.size());
    if (count <= 0) return count;
    begin_ = 0;
    end_ = static_cast<std::size_t>(count);
  }
  const std::size_t taken = std::min(size, end_ - begin_);
  std::memcpy(ptr, buffer_.data() + begin_, taken);
  begin_ += taken;
  return static_cast<ssize_t>(taken);
}

ssize_t HttpStream::write(const char* ptr, size_t size) {
  if (!wait_writable()) return -1;
  return write_socket(descriptor_, ptr, size);
}

}  // namespace salvage::http
