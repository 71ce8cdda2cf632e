#include "base/terminal.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <initializer_list>
#include <string>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace salvage {
namespace {

// A screen beside the one with the shell's lines, without cursor and without wrapping.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr std::string_view kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";

bool write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

bool is_terminal(Stream stream) {
  switch (stream) {
    case Stream::kInput:
      return ::isatty(STDIN_FILENO) == 1;
    case Stream::kOutput:
      return ::isatty(STDOUT_FILENO) == 1;
    case Stream::kError:
      return ::isatty(STDERR_FILENO) == 1;
  }
  return false;
}

void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest free number is this one: those below are taken by now.
    if (::fcntl(stream, F_GETFD) < 0) (void)::open("/dev/null", O_RDWR);
  }
}

TerminalSize terminal_size() {
  winsize window{};
  TerminalSize size;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0) return size;
  if (window.ws_col > 0) size.columns = window.ws_col;
  if (window.ws_row > 0) size.rows = window.ws_row;
  return size;
}

struct LiveScreen::Saved {
  termios keys{};
};

// Ctrl-C stays a signal (base/interrupt.h).
LiveScreen::LiveScreen() {
  auto saved = std::make_unique<Saved>();
  if (::tcgetattr(STDIN_FILENO, &saved->keys) == 0) {
    termios raw = saved->keys;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    if (::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0) saved_ = std::move(saved);
  }
  (void)write_all(kEnter);
}

LiveScreen::~LiveScreen() {
  (void)write_all(kLeave);
  if (saved_) (void)::tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved_->keys);
}

bool LiveScreen::show(std::string_view text) {
  std::string frame = "\x1b[H";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    frame += text.substr(begin, end - begin);
    frame += "\x1b[K";
    if (end < text.size()) frame += "\r\n";
    begin = end + 1;
  }
  return write_all(frame + "\x1b[J");
}

std::optional<char> LiveScreen::key(Duration within) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(within).count();
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  // A negative descriptor is waited for in vain: the time passes all the same.
  if (!saved_) input.fd = -1;
  if (::poll(&input, 1, static_cast<int>(ms)) <= 0) return std::nullopt;
  char pressed = 0;
  if (::read(STDIN_FILENO, &pressed, 1) == 1) return pressed;
  saved_.reset();  // the terminal is gone
  return std::nullopt;
}

}  // namespace salvage
