#include "base/unix_socket.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace salvage {
namespace {

constexpr int kBacklog = 64;

Error socket_error(const std::string& what) {
  const ErrorCode code =
      errno == EACCES || errno == EPERM ? ErrorCode::kPermissionDenied : ErrorCode::kUnavailable;
  return Error(code, fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

// Our paths through SocketFolder have some 40 bytes; `name` is a constant of the program.
sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof(address.sun_path) - 1));
  return address;
}

int make_socket() {
  return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

bool connects(const std::string& path) {
  const int descriptor = make_socket();
  if (descriptor < 0) return false;
  const sockaddr_un address = address_of(path);
  const bool done =
      ::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  ::close(descriptor);
  return done;
}

bool same_user(int descriptor) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  return ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
         peer.uid == ::geteuid();
}

}  // namespace

Result<SocketFolder> SocketFolder::open(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return fail(socket_error(fmt::format("open {}", folder.string())));
  return SocketFolder(descriptor);
}

SocketFolder::SocketFolder(SocketFolder&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

SocketFolder::~SocketFolder() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string SocketFolder::path_of(const std::string& name) const {
  return fmt::format("/proc/self/fd/{}/{}", descriptor_, name);
}

bool socket_answers(const std::filesystem::path& folder, const std::string& name) {
  const auto opened = SocketFolder::open(folder);
  return opened && connects(opened->path_of(name));
}

Result<UnixListener> UnixListener::listen(const std::filesystem::path& folder,
                                          const std::string& name) {
  ASSIGN_OR_RETURN(const SocketFolder opened, SocketFolder::open(folder));
  const std::string path = opened.path_of(name);
  if (connects(path)) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("another process listens on {}", (folder / name).string()));
  }
  ::unlink(path.c_str());  // of a process that is gone
  const int descriptor = make_socket();
  if (descriptor < 0) return fail(socket_error("make a socket"));
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  UnixListener listener(descriptor, wake, folder / name);
  const sockaddr_un address = address_of(path);
  // Nobody can connect between bind and chmod: there is no backlog yet.
  const bool ready =
      wake >= 0 &&
      ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      ::chmod(path.c_str(), S_IRUSR | S_IWUSR) == 0 && ::listen(descriptor, kBacklog) == 0;
  if (!ready) return fail(socket_error(fmt::format("listen on {}", (folder / name).string())));
  return listener;
}

UnixListener::UnixListener(UnixListener&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      wake_(std::exchange(other.wake_, -1)),
      file_(std::move(other.file_)) {}

UnixListener::~UnixListener() {
  if (descriptor_ < 0) return;
  std::error_code ignored;
  std::filesystem::remove(file_, ignored);
  ::close(descriptor_);
  if (wake_ >= 0) ::close(wake_);
}

int UnixListener::accept() {
  for (;;) {
    std::array<pollfd, 2> waits{{{descriptor_, POLLIN, 0}, {wake_, POLLIN, 0}}};
    const int ready = ::poll(waits.data(), waits.size(), -1);
    if (ready < 0 && errno != EINTR) return -1;
    if (ready <= 0) continue;
    if (waits[1].revents != 0) return -1;
    const int peer = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer >= 0 && same_user(peer)) return peer;
    if (peer >= 0) ::close(peer);
    // Without descriptors to spare the peer stays in the backlog, and poll would spin.
    if (peer < 0 && (errno == EMFILE || errno == ENFILE)) ::poll(&waits[1], 1, 100);
  }
}

void UnixListener::shutdown() {
  const std::uint64_t one = 1;
  // Fails only if it was done before.
  if (::write(wake_, &one, sizeof(one)) < 0) return;
}

void end_socket(int descriptor) {
  ::shutdown(descriptor, SHUT_RDWR);
}

void finish_socket(int descriptor) {
  ::shutdown(descriptor, SHUT_WR);
}

void close_socket(int descriptor) {
  ::close(descriptor);
}

bool wait_for_socket(int descriptor, SocketWait what, int milliseconds) {
  pollfd wait{descriptor, static_cast<short>(what == SocketWait::kReadable ? POLLIN : POLLOUT), 0};
  return ::poll(&wait, 1, milliseconds) > 0;
}

std::int64_t read_socket(int descriptor, char* into, std::size_t bytes_max) {
  return ::recv(descriptor, into, bytes_max, MSG_DONTWAIT);
}

std::int64_t write_socket(int descriptor, const char* from, std::size_t bytes) {
  return ::send(descriptor, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool socket_gone(int descriptor) {
  pollfd polled{descriptor, POLLRDHUP, 0};
  return ::poll(&polled, 1, 0) > 0 && (polled.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Result<std::pair<int, int>> socket_pair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return fail(ErrorCode::kResourceExhausted, "the system has no more sockets");
  }
  return std::pair(ends[0], ends[1]);
}

}  // namespace salvage
