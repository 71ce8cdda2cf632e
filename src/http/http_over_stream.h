#pragma once

// One connection as cpp-httplib's Stream, with limits of our own: a request has to be there in time
// and within a size, an answer has to make way. Belongs to the thread that serves the connection.
// For .cc files of http/ and download/ alone: it brings httplib's header along.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <cpp-httplib/httplib.h>

#include "base/byte_stream.h"
#include "base/clock.h"

namespace salvage::http {

struct HttpStreamLimits {
  std::size_t request_bytes_max = 0;  // head and body of one request
  Duration request_time{};            // from its first byte to its last
  Duration stall_time{};              // for a reader to take something
  Duration answer_time{};             // for the whole answer; 0: any
};

class HttpOverStream final : public httplib::Stream {
 public:
  HttpOverStream(ByteStream& stream, const Clock& clock, const HttpStreamLimits& limits)
      : stream_(stream), clock_(clock), limits_(limits) {
    begin_request();
  }

  // The next request's time and size count from here.
  void begin_request();
  // Waits for its first byte; false if the connection ended before, or the time is over.
  bool wait_for_request(TimePoint until);
  // After that: does it begin as a request's first line does, or the blank one before it?
  bool may_be_http() const;

  bool is_readable() const override { return begin_ < end_; }
  bool wait_readable() const override { return true; }  // read() waits
  bool wait_writable() const override { return true; }  // write() waits
  ssize_t read(char* ptr, size_t size) override;
  ssize_t write(const char* ptr, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override { nowhere(ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { nowhere(ip, port); }
  socket_t socket() const override { return INVALID_SOCKET; }
  time_t duration() const override { return 0; }

 private:
  static void nowhere(std::string& ip, int& port) {
    ip.clear();
    port = 0;
  }
  bool fill(TimePoint until);

  ByteStream& stream_;
  const Clock& clock_;
  const HttpStreamLimits limits_;
  TimePoint read_until_;
  TimePoint write_until_;
  std::array<char, 4096> buffer_{};  // httplib reads heads byte by byte
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t read_bytes_ = 0;  // of this request
};

}  // namespace salvage::http
