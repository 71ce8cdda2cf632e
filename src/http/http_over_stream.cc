#include "http/http_over_stream.h"

#include <algorithm>
#include <cstring>

namespace salvage::http {

void HttpOverStream::begin_request() {
  const TimePoint now = clock_.now();
  read_bytes_ = end_ - begin_;
  read_until_ = deadline_after(now, limits_.request_time);
  write_until_ =
      limits_.answer_time == Duration{} ? kNoDeadline : deadline_after(now, limits_.answer_time);
}

bool HttpOverStream::wait_for_request(TimePoint until) {
  return begin_ < end_ || fill(until);
}

bool HttpOverStream::may_be_http() const {
  const char first = begin_ < end_ ? buffer_[begin_] : 'A';
  const bool letter = (first >= 'A' && first <= 'Z') || (first >= 'a' && first <= 'z');
  return letter || first == '\r' || first == '\n';
}

ssize_t HttpOverStream::read(char* ptr, size_t size) {
  if (begin_ == end_ && !fill(read_until_)) return -1;
  const std::size_t taken = std::min(size, end_ - begin_);
  std::memcpy(ptr, buffer_.data() + begin_, taken);
  begin_ += taken;
  return static_cast<ssize_t>(taken);
}

bool HttpOverStream::fill(TimePoint until) {
  if (read_bytes_ >= limits_.request_bytes_max) return false;
  const auto got = stream_.read(buffer_, until);
  if (!got || *got == 0) return false;
  read_bytes_ += *got;
  begin_ = 0;
  end_ = *got;
  return true;
}

ssize_t HttpOverStream::write(const char* ptr, size_t size) {
  const TimePoint stalled = deadline_after(clock_.now(), limits_.stall_time);
  if (!stream_.write({ptr, size}, std::min(stalled, write_until_))) return -1;
  return static_cast<ssize_t>(size);
}

}  // namespace salvage::http
