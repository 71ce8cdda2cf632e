#pragma once

// What the standard streams are connected to, and a terminal as a program has it that fills the
// screen.

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "base/clock.h"

namespace salvage {

enum class Stream { kInput, kOutput, kError };

bool is_terminal(Stream stream);

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
  friend bool operator==(const TerminalSize&, const TerminalSize&) = default;
};
// Of standard output; as above if it isn't one.
TerminalSize terminal_size();

// A screen of one's own on standard output, and keys from standard input without Enter. The
// destructor gives back the terminal as it was. One at a time, one thread.
class LiveScreen {
 public:
  LiveScreen();
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  // Instead of what is there. False once nobody can see it any more.
  bool show(std::string_view text);
  // The key that is pressed first within this time; none also if nobody can press one.
  std::optional<char> key(Duration within);

 private:
  struct Saved;  // how keys were before; null: standard input is no terminal
  std::unique_ptr<Saved> saved_;
};

// Opens /dev/null for each of them that is closed. Else the next file or socket of ours would get
// its number, and with it what is meant for the stream. First thing in main().
void occupy_closed_streams();

}  // namespace salvage
