#pragma once

// One line = timestamp, level, component, event in fixed words, then key=value:
//   2026-01-31T12:00:00.123Z level=warn comp=pipeline event=stage_lost stage=2 epoch=14
// or the same as one JSON object. Ids stand under the same key everywhere. Prompts, tokens and
// answers are never logged. A Logger is named once per module and passed in; main() sets where
// lines go, the only mutable global of the program. Thread rule: everything from any thread; lines
// never mix.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace salvage {

enum class LogLevel : std::uint8_t {
  kError,  // An operator should act.
  kWarn,   // Degraded.
  kInfo,   // State changes, a handful a minute.
  kDebug,  // Per request.
  kTrace,  // Per step.
};
enum class LogFormat : std::uint8_t { kText, kJson };

std::string_view log_level_name(LogLevel level);

// One key=value. Numbers and booleans stay such in JSON.
struct LogField {
  LogField(std::string_view name, std::string_view text) : key(name), value(text) {}
  LogField(std::string_view name, const char* text) : key(name), value(text) {}
  LogField(std::string_view name, const std::string& text) : key(name), value(text) {}
  template <typename Number>
  requires std::is_arithmetic_v<Number> LogField(std::string_view name, Number number)
      : key(name), value(text_of(number)), quoted(false) {}

  std::string_view key;
  std::string value;
  bool quoted = true;

 private:
  static std::string text_of(bool value);
  static std::string text_of(double value);
  static std::string text_of(std::uint64_t value);
  static std::string text_of(std::int64_t value);
  template <typename Number>
  static std::string text_of(Number number) {
    if constexpr (std::is_floating_point_v<Number>) {
      return text_of(static_cast<double>(number));
    } else if constexpr (std::is_unsigned_v<Number>) {
      return text_of(static_cast<std::uint64_t>(number));
    } else {
      return text_of(static_cast<std::int64_t>(number));
    }
  }
};

// Gets whole lines without their end. Called by one thread at a time.
using LogSink = std::function<void(std::string_view line)>;

struct LogOptions {
  LogLevel level = LogLevel::kInfo;  // this and the graver ones
  LogFormat format = LogFormat::kText;
  LogSink sink;  // empty: standard error
};

// Before it is called, warnings and errors go to standard error as text.
void set_log(LogOptions options);

class Logger {
 public:
  explicit constexpr Logger(std::string_view component) : component_(component) {}

  void error(std::string_view event, std::initializer_list<LogField> fields = {}) const {
    write(LogLevel::kError, event, fields);
  }
  void warn(std::string_view event, std::initializer_list<LogField> fields = {}) const {
    write(LogLevel::kWarn, event, fields);
  }
  void info(std::string_view event, std::initializer_list<LogField> fields = {}) const {
    write(LogLevel::kInfo, event, fields);
  }
  void debug(std::string_view event, std::initializer_list<LogField> fields = {}) const {
    write(LogLevel::kDebug, event, fields);
  }
  // Fields are made even if nobody listens: guard what is made per step with enabled().
  void trace(std::string_view event, std::initializer_list<LogField> fields = {}) const {
    write(LogLevel::kTrace, event, fields);
  }
  bool enabled(LogLevel level) const;

 private:
  void write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) const;
  std::string_view component_;  // a literal
};

// One line as it would be written; set_log's sink gets these. Exposed for tests.
struct LogLine {
  std::int64_t unix_ms = 0;
  LogLevel level = LogLevel::kInfo;
  std::string_view component;
  std::string_view event;
};
std::string format_log_line(LogFormat format, const LogLine& line,
                            std::initializer_list<LogField> fields);

}  // namespace salvage
