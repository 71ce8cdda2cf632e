#pragma once

// A private Unix socket under a fixed name in a folder, for programs of one user on one machine.
// The folder's path may be longer than a socket's address: both sides go through the open folder.
//
// Thread rule: accept() on one thread, shutdown() from any. Failure: `unavailable` if another
// process listens there already, or if nobody does; `permission_denied` for peers of other users.

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "base/result.h"

namespace salvage {

// The path by which the system reaches `name` in a folder of any length; good while it lives.
class SocketFolder {
 public:
  static Result<SocketFolder> open(const std::filesystem::path& folder);
  SocketFolder(SocketFolder&& other) noexcept;
  SocketFolder& operator=(SocketFolder&&) = delete;
  ~SocketFolder();
  std::string path_of(const std::string& name) const;

 private:
  explicit SocketFolder(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

// Does somebody listen there? Never waits.
bool socket_answers(const std::filesystem::path& folder, const std::string& name);

class UnixListener {
 public:
  // The socket file is 0600. One that a dead process left is replaced.
  static Result<UnixListener> listen(const std::filesystem::path& folder, const std::string& name);
  UnixListener(UnixListener&& other) noexcept;
  UnixListener& operator=(UnixListener&&) = delete;
  ~UnixListener();  // removes the file

  // The descriptor of one connection of the same user, which the caller closes; -1 once shut down.
  // Peers of another user are closed unheard.
  int accept();
  void shutdown();
  int descriptor() const { return descriptor_; }

 private:
  UnixListener(int descriptor, int wake, std::filesystem::path file)
      : descriptor_(descriptor), wake_(wake), file_(std::move(file)) {}
  int descriptor_;
  int wake_;
  std::filesystem::path file_;
};

// For descriptors from accept(): both directions end at once, whoever waits on them.
void end_socket(int descriptor);
// Our side alone: the other reads to the end and may go on to write.
void finish_socket(int descriptor);
void close_socket(int descriptor);

// Waits at most so long for bytes to read, or for room to write. False if the time is over.
enum class SocketWait : std::uint8_t { kReadable, kWritable };
bool wait_for_socket(int descriptor, SocketWait what, int milliseconds);
// As read(2) and send(2), without signals; negative after an error.
std::int64_t read_socket(int descriptor, char* into, std::size_t bytes_max);
std::int64_t write_socket(int descriptor, const char* from, std::size_t bytes);

// Has the peer ended its side of the connection, or vanished, as far as the system knows?
bool socket_gone(int descriptor);

// Two connected ends, which the caller closes.
Result<std::pair<int, int>> socket_pair();

}  // namespace salvage
