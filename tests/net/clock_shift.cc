// A wall clock that is wrong by SALVAGE_CLOCK_OFFSET_S seconds, for one process and its children: a
// library for LD_PRELOAD. Only the calls that ask for the time of day are changed; the monotonic
// clock, timers and the times of files stay as they are, as on a machine whose battery is empty.

#include <cerrno>
#include <cstdlib>
#include <ctime>

#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

std::time_t read_offset() {
  const char* text = std::getenv("SALVAGE_CLOCK_OFFSET_S");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? 0 : std::strtol(text, nullptr, 10);
}

std::time_t offset_seconds() {
  static const std::time_t offset = read_offset();
  return offset;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    time->tv_sec += offset_seconds();
  }
  return result;
}

int gettimeofday(timeval* time, void* /*zone*/) noexcept {
  timespec precise{};
  if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
  *time = {precise.tv_sec, precise.tv_nsec / 1000};
  return 0;
}

std::time_t time(std::time_t* into) noexcept {
  timespec precise{};
  if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
  if (into != nullptr) *into = precise.tv_sec;
  return precise.tv_sec;
}

}  // extern "C"
