#pragma once

// One connected local socket as cpp-httplib's Stream, with deadlines of our own: the whole request
// has to be there in time, each write has to make way in time. Belongs to the thread that serves
// the connection. For admin_server.cc alone: it brings httplib's header along.

#include <array>
#include <cstddef>
#include <string>

#include <cpp-httplib/httplib.h>

#include "base/clock.h"
#include "base/unix_socket.h"

namespace salvage::http {

class HttpStream final : public httplib::Stream {
 public:
  HttpStream(int descriptor, const Clock& clock, Duration request_time, Duration write_time)
      : descriptor_(descriptor),
        clock_(clock),
        read_until_(deadline_after(clock.now(), request_time)),
        write_time_(write_time) {}

  bool is_readable() const override { return begin_ < end_ || readable(0); }
  bool wait_readable() const override { return begin_ < end_ || readable(left(read_until_)); }
  bool wait_writable() const override {
    return wait_for_socket(descriptor_, SocketWait::kWritable, left(write_until()));
  }
  ssize_t read(char* ptr, size_t size) override;
  ssize_t write(const char* ptr, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override { local(ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { local(ip, port); }
  socket_t socket() const override { return descriptor_; }
  time_t duration() const override { return 0; }

 private:
  static void local(std::string& ip, int& port) {
    ip.clear();
    port = 0;
  }
  bool readable(int milliseconds) const {
    return wait_for_socket(descriptor_, SocketWait::kReadable, milliseconds);
  }
  TimePoint write_until() const { return deadline_after(clock_.now(), write_time_); }
  int left(TimePoint until) const;

  const int descriptor_;
  const Clock& clock_;
  const TimePoint read_until_;
  const Duration write_time_;
  std::array<char, 4096> buffer_{};  // httplib reads heads byte by byte
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace salvage::http
