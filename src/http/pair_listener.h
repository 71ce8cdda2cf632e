#pragma once

// For tests: a listener whose connections are socket pairs, and what a client does with its end.
// Every wait is one of the system.

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/byte_stream.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/unix_socket.h"

namespace salvage::http {

inline constexpr int kAnswerMs = 8000;

inline int milliseconds_left(TimePoint deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyClock().now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

class PairStream final : public ByteStream {
 public:
  explicit PairStream(int descriptor) : descriptor_(descriptor) {}
  ~PairStream() override { close_socket(descriptor_); }
  Result<std::size_t> read(std::span<char> into, TimePoint deadline) override {
    if (!wait_for_socket(descriptor_, SocketWait::kReadable, milliseconds_left(deadline))) {
      return fail(ErrorCode::kDeadlineExceeded, "late");
    }
    const std::int64_t count = read_socket(descriptor_, into.data(), into.size());
    if (count < 0) return fail(ErrorCode::kUnavailable, "gone");
    return static_cast<std::size_t>(count);
  }
  Result<void> write(std::span<const char> bytes, TimePoint deadline) override {
    while (!bytes.empty()) {
      if (!wait_for_socket(descriptor_, SocketWait::kWritable, milliseconds_left(deadline))) {
        return fail(ErrorCode::kDeadlineExceeded, "late");
      }
      const std::int64_t count = write_socket(descriptor_, bytes.data(), bytes.size());
      if (count <= 0) return fail(ErrorCode::kUnavailable, "gone");
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return {};
  }
  void finish() override { finish_socket(descriptor_); }
  void shutdown() override { end_socket(descriptor_); }
  bool gone() const override { return socket_gone(descriptor_); }
  const std::string& peer() const override { return peer_; }

 private:
  const int descriptor_;
  const std::string peer_ = "somebody";
};

// Who connects puts one end of a pair here.
class Pairs {
 public:
  void put(int descriptor) {
    MutexLock lock(mutex_);
    waiting_.push_back(descriptor);
    changed_.notify_all();
  }
  Result<std::unique_ptr<ByteStream>> take() {
    MutexLock lock(mutex_);
    while (!shut_ && waiting_.empty()) changed_.wait(mutex_);
    if (shut_) return fail(ErrorCode::kUnavailable, "shut down");
    const int descriptor = waiting_.front();
    waiting_.pop_front();
    return std::unique_ptr<ByteStream>(std::make_unique<PairStream>(descriptor));
  }
  // Who still waits is forgotten.
  void shut() {
    MutexLock lock(mutex_);
    shut_ = true;
    for (const int descriptor : waiting_) close_socket(descriptor);
    waiting_.clear();
    changed_.notify_all();
  }
  // For another listener.
  void open() {
    MutexLock lock(mutex_);
    shut_ = false;
  }

 private:
  Mutex mutex_;
  Condition changed_;
  std::deque<int> waiting_ GUARDED_BY(mutex_);
  bool shut_ GUARDED_BY(mutex_) = false;
};

class PairListener final : public StreamListener {
 public:
  explicit PairListener(Pairs& pairs) : pairs_(pairs) {}
  Result<std::unique_ptr<ByteStream>> accept(TimePoint /*deadline*/) override {
    return pairs_.take();
  }
  void shutdown() override { pairs_.shut(); }
  std::uint16_t port() const override { return 1; }

 private:
  Pairs& pairs_;
};

// Client ends, closed with the object.
class PairClients {
 public:
  explicit PairClients(Pairs& pairs) : pairs_(pairs) {}
  ~PairClients() {
    for (const int descriptor : ours_) close_socket(descriptor);
  }

  int connect() {
    const auto ends = socket_pair();
    EXPECT_TRUE(ends);
    ours_.push_back(ends->first);
    pairs_.put(ends->second);
    return ends->first;
  }
  int first() const { return ours_.front(); }
  void close(int descriptor) {
    std::erase(ours_, descriptor);
    close_socket(descriptor);
  }

 private:
  Pairs& pairs_;
  std::vector<int> ours_;
};

inline void say(int descriptor, const std::string& text) {
  std::string_view left = text;
  bool failed = false;
  while (!left.empty()) {
    const std::int64_t count = write_socket(descriptor, left.data(), left.size());
    if (count > 0) {
      left.remove_prefix(static_cast<std::size_t>(count));
    } else if (failed || !wait_for_socket(descriptor, SocketWait::kWritable, kAnswerMs)) {
      return;  // it has heard enough
    }
    failed = count <= 0;
  }
}

// Until it closes, `until` has been heard, or it stops for so long.
inline std::string hear(int descriptor, std::size_t bytes_max = SIZE_MAX,
                        std::string_view until = {}) {
  std::string text;
  std::vector<char> buffer(65536);
  while (text.size() < bytes_max && wait_for_socket(descriptor, SocketWait::kReadable, kAnswerMs)) {
    const std::int64_t count =
        read_socket(descriptor, buffer.data(), std::min(buffer.size(), bytes_max - text.size()));
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (!until.empty() && text.find(until) != std::string::npos) break;
  }
  return text;
}

}  // namespace salvage::http
