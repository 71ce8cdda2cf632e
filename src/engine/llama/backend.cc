#include "engine/llama/backend.h"

#include <cstddef>
#include <deque>
#include <mutex>
#include <string_view>
#include <utility>

#include <llama.h>

#include "engine/llama/cpu_backend.h"

namespace salvage::engine {
namespace {

// A failure is explained by its last few lines; more would bury the sentence that matters.
constexpr std::size_t kLogLinesMax = 3;
constexpr std::size_t kLogLineBytesMax = 400;

// The log of libllama is one a process, so what keeps its lines is too.
struct BackendLog {
  std::mutex mutex;
  std::deque<std::string> lines;
};

BackendLog& backend_log() {
  static BackendLog log;
  return log;
}

std::string_view without_line_end(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

// Called by libllama, possibly inside its C code: it must not throw.
void keep_line(ggml_log_level level, const char* text, void*) noexcept {
  if (level != GGML_LOG_LEVEL_WARN && level != GGML_LOG_LEVEL_ERROR) return;
  try {
    const std::string_view line = without_line_end(text);
    if (line.empty()) return;
    BackendLog& log = backend_log();
    const std::lock_guard lock(log.mutex);
    log.lines.emplace_back(line.substr(0, kLogLineBytesMax));
    if (log.lines.size() > kLogLinesMax) log.lines.pop_front();
  } catch (...) {
    // Out of memory while keeping a log line: the line is lost, nothing else.
  }
}

}  // namespace

Result<void> start_backend() {
  static const Result<void> started = []() -> Result<void> {
    llama_log_set(keep_line, nullptr);
    // First, for libllama would look for kernels itself, in the current folder too.
    RETURN_IF_ERROR(load_cpu_backend());
    llama_backend_init();
    return {};
  }();
  return started;
}

void clear_backend_log() {
  BackendLog& log = backend_log();
  const std::lock_guard lock(log.mutex);
  log.lines.clear();
}

Error backend_error(ErrorCode code, const std::string& what) {
  std::string message = what;
  BackendLog& log = backend_log();
  const std::lock_guard lock(log.mutex);
  const char* separator = " (libllama: ";
  for (const std::string& line : log.lines) {
    message += separator + line;
    separator = "; ";
  }
  if (!log.lines.empty()) message += ")";
  return Error(code, std::move(message));
}

}  // namespace salvage::engine
