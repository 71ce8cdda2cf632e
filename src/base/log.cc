#include "base/log.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/mutex.h"
#include "base/utf8.h"

namespace salvage {
namespace {

struct LogState {
  Mutex mutex;
  LogFormat format GUARDED_BY(mutex) = LogFormat::kText;
  LogSink sink GUARDED_BY(mutex);
  std::atomic<LogLevel> level{LogLevel::kWarn};
};

// Never destroyed: threads may log while the process ends.
LogState& state() {
  static auto& log_state = *std::make_unique<LogState>().release();
  return log_state;
}

void write_to_stderr(std::string_view line) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

std::string timestamp(std::int64_t unix_ms) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     unix_ms % 1000);
}

// Line ends, quotes and bytes that are no text must not let a value forge a second line or field.
void append_quoted(std::string& out, std::string_view text) {
  out.push_back('"');
  const std::string whole = Utf8Stream().push(text);
  for (const char c : whole) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20 || byte == 0x7F) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

bool plain_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '=';
  });
}

void append_text(std::string& out, const LogField& field) {
  out.push_back(' ');
  out += field.key;
  out.push_back('=');
  if (plain_word(field.value)) {
    out += field.value;
  } else {
    append_quoted(out, field.value);
  }
}

void append_json(std::string& out, const LogField& field) {
  out.push_back(out.size() > 1 ? ',' : '{');
  append_quoted(out, field.key);
  out.push_back(':');
  if (field.quoted) {
    append_quoted(out, field.value);
  } else {
    out += field.value;
  }
}

}  // namespace

std::string_view log_level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kTrace:
      return "trace";
  }
  return "error";
}

std::string LogField::text_of(bool value) {
  return value ? "true" : "false";
}
std::string LogField::text_of(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";  // JSON has no NaN.
}
std::string LogField::text_of(std::uint64_t value) {
  return fmt::format("{}", value);
}
std::string LogField::text_of(std::int64_t value) {
  return fmt::format("{}", value);
}

std::string format_log_line(LogFormat format, const LogLine& line,
                            std::initializer_list<LogField> fields) {
  std::string out;
  if (format == LogFormat::kText) {
    out = fmt::format("{} level={} comp={} event={}", timestamp(line.unix_ms),
                      log_level_name(line.level), line.component, line.event);
    for (const LogField& field : fields) append_text(out, field);
    return out;
  }
  append_json(out, {"time", timestamp(line.unix_ms)});
  append_json(out, {"level", log_level_name(line.level)});
  append_json(out, {"comp", line.component});
  append_json(out, {"event", line.event});
  for (const LogField& field : fields) append_json(out, field);
  out.push_back('}');
  return out;
}

void set_log(LogOptions options) {
  LogState& log = state();
  MutexLock lock(log.mutex);
  log.level = options.level;
  log.format = options.format;
  log.sink = std::move(options.sink);
}

bool Logger::enabled(LogLevel level) const {
  return level <= state().level.load();
}

void Logger::write(LogLevel level, std::string_view event,
                   std::initializer_list<LogField> fields) const {
  if (!enabled(level)) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  LogLine line;
  line.unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  line.level = level;
  line.component = component_;
  line.event = event;

  LogState& log = state();
  MutexLock lock(log.mutex);
  const std::string text = format_log_line(log.format, line, fields);
  if (log.sink) {
    log.sink(text);
  } else {
    write_to_stderr(text);
  }
}

}  // namespace salvage
