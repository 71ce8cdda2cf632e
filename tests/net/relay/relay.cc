// A link that takes time: two network interfaces made here (TAP devices), and every frame that goes
// into one comes out of the other after a delay. tests/net/faults.py puts one end into a host, the
// other on the bridge, so that nothing above notices but the clock.
//
// One thread: it waits for a frame or for the next due time, whichever comes first, with a timer
// that the kernel may not round. Prints "ready" once both interfaces are there, and at the end, on
// SIGTERM, how many frames went which way.

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>
#include <string>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/result.h"
#include "relay/delay_line.h"

namespace salvage::relay {
namespace {

constexpr std::size_t kFrameBytesMax = 65'600;  // the largest packet and its Ethernet header
// Frames taken from one side before the other is looked at.
constexpr int kFramesAtOnce = 64;

Error system_error(const std::string& what) {
  return Error(ErrorCode::kUnavailable,
               fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

// An interface of this network namespace whose frames are ours to read and write.
class Tap {
 public:
  static Result<Tap> create(const std::string& name) {
    ifreq request{};
    if (name.empty() || name.size() >= sizeof(request.ifr_name)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' is no name for an interface: 1 to 15 letters", name));
    }
    Tap tap(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (tap.fd_ < 0) return fail(system_error("open /dev/net/tun"));
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    std::memcpy(request.ifr_name, name.c_str(), name.size() + 1);
    if (::ioctl(tap.fd_, TUNSETIFF, &request) != 0) {
      return fail(system_error("make the interface " + name));
    }
    return tap;
  }
  Tap(Tap&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Tap& operator=(Tap&&) = delete;
  ~Tap() {
    if (fd_ >= 0) ::close(fd_);
  }

  int fd() const { return fd_; }

  // Moves what has come to `line`.
  void receive_into(DelayLine& line, const Clock& clock) const {
    static thread_local std::array<std::byte, kFrameBytesMax> buffer;
    for (int i = 0; i < kFramesAtOnce; ++i) {
      const auto got = ::read(fd_, buffer.data(), buffer.size());
      if (got <= 0) return;  // nothing there, or the interface is down
      line.push(std::span(buffer).first(static_cast<std::size_t>(got)), clock.now());
    }
  }

  // Sends what is due. A frame that the interface does not take is lost, as on a cable.
  void send_from(DelayLine& line, const Clock& clock) const {
    while (const auto frame = line.front(clock.now())) {
      (void)!::write(fd_, frame->data(), frame->size());
      line.pop();
    }
  }

 private:
  explicit Tap(int fd) : fd_(fd) {}
  int fd_;
};

struct RelayOptions {
  std::string near;
  std::string far;
  std::uint32_t delay_us = 0;
  std::uint32_t jitter_us = 0;
  std::uint64_t seed = 1;
  std::size_t queue_bytes = std::size_t{16} << 20;  // 1 Gbit/s times 100 ms, and some
};

timespec wait_until(const std::optional<TimePoint>& due, TimePoint now) {
  // Without a frame under way: only a look at the stop request.
  constexpr auto kIdle = std::chrono::milliseconds(200);
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
      due ? std::max(*due - now, Duration::zero()) : Duration(kIdle));
  return {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
}

std::optional<TimePoint> earlier(std::optional<TimePoint> a, std::optional<TimePoint> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

void forward(const Tap& near, const Tap& far, const RelayOptions& options, const StopToken& stop) {
  const SteadyClock clock;
  DelayOptions delay{.delay = std::chrono::microseconds(options.delay_us),
                     .jitter = std::chrono::microseconds(options.jitter_us),
                     .seed = options.seed,
                     .bytes_max = options.queue_bytes};
  DelayLine outward(delay);
  delay.seed = ~options.seed;
  DelayLine inward(delay);
  while (!stop.stop_requested()) {
    std::array<pollfd, 2> polled{{{near.fd(), POLLIN, 0}, {far.fd(), POLLIN, 0}}};
    const timespec timeout = wait_until(earlier(outward.due(), inward.due()), clock.now());
    (void)::ppoll(polled.data(), polled.size(), &timeout, nullptr);
    near.receive_into(outward, clock);
    far.receive_into(inward, clock);
    far.send_from(outward, clock);
    near.send_from(inward, clock);
  }
  for (const auto& [name, line] : {std::pair("outward", &outward), std::pair("inward", &inward)}) {
    std::cerr << fmt::format("{}: {} frames, {} bytes, {} dropped\n", name, line->counts().frames,
                             line->counts().bytes, line->counts().dropped);
  }
}

Result<void> run(const RelayOptions& options, const StopToken& stop) {
  ASSIGN_OR_RETURN(const Tap near, Tap::create(options.near));
  ASSIGN_OR_RETURN(const Tap far, Tap::create(options.far));
  // Timers are otherwise up to 50 us late, so that more of them can be served at once.
  ::prctl(PR_SET_TIMERSLACK, 1);
  std::cout << "ready" << std::endl;
  forward(near, far, options, stop);
  return {};
}

}  // namespace
}  // namespace salvage::relay

int main(int argc, char** argv) {
  const salvage::StopSource interrupt = salvage::install_interrupt();
  CLI::App app("Joins two interfaces by a link that takes time; needs root.", "salvage_relay");
  salvage::relay::RelayOptions options;
  app.add_option("--near", options.near, "Interface to make for the host")->required();
  app.add_option("--far", options.far, "Interface to make for the bridge")->required();
  app.add_option("--delay-us", options.delay_us, "Delay in each direction, in microseconds");
  app.add_option("--jitter-us", options.jitter_us, "At most so much more, by chance");
  app.add_option("--seed", options.seed, "Of the chance");
  app.add_option("--queue-bytes", options.queue_bytes, "Kept per direction; what is more is lost");
  CLI11_PARSE(app, argc, argv);
  const auto done = salvage::relay::run(options, interrupt.get_token());
  if (done) return 0;
  std::cerr << "salvage_relay: " << done.error().message() << '\n';
  return 1;
}
