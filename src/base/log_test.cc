// Goal: one event, one line, whatever the values hold.

#include "base/log.h"

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const LogLine kLine{1769860800123, LogLevel::kWarn, "pipeline", "stage_lost"};

TEST(Log, text_lines_are_key_value) {
  EXPECT_EQ(format_log_line(LogFormat::kText, kLine,
                            {{"stage", 2U}, {"epoch", std::uint64_t{14}}, {"peer", "unix:/x"}}),
            "2026-01-31T12:00:00.123Z level=warn comp=pipeline event=stage_lost stage=2 epoch=14 "
            "peer=unix:/x");
}

TEST(Log, json_lines_keep_numbers_as_numbers) {
  EXPECT_EQ(format_log_line(LogFormat::kJson, kLine,
                            {{"stage", 2}, {"share", 0.5}, {"exact", true}, {"node", "pi-3"}}),
            R"({"time":"2026-01-31T12:00:00.123Z","level":"warn","comp":"pipeline",)"
            R"("event":"stage_lost","stage":2,"share":0.5,"exact":true,"node":"pi-3"})");
}

TEST(Log, a_value_cannot_forge_a_line_or_a_field) {
  const std::string value = "x level=error\nsecond \"line\"\\ \xFF";
  const std::string text = format_log_line(LogFormat::kText, kLine, {{"why", value}});
  EXPECT_THAT(text, HasSubstr(R"(why="x level=error\u000asecond \"line\"\\ )"
                              "\xEF\xBF\xBD\""));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_THAT(format_log_line(LogFormat::kText, kLine, {{"why", ""}}), HasSubstr("why=\"\""));
}

TEST(Log, numbers_that_json_cannot_say_become_null) {
  EXPECT_THAT(format_log_line(LogFormat::kJson, kLine,
                              {{"nmse", std::numeric_limits<double>::quiet_NaN()}}),
              HasSubstr("\"nmse\":null"));
}

TEST(Log, only_lines_of_the_level_or_graver_reach_the_sink) {
  std::vector<std::string> lines;
  LogOptions options;
  options.level = LogLevel::kInfo;
  options.sink = [&](std::string_view line) { lines.emplace_back(line); };
  set_log(options);
  const Logger log("test");
  log.error("first");
  log.info("second", {{"n", 1}});
  log.debug("third");
  EXPECT_TRUE(log.enabled(LogLevel::kWarn));
  EXPECT_FALSE(log.enabled(LogLevel::kTrace));
  set_log({});
  EXPECT_THAT(lines, ElementsAre(HasSubstr("level=error comp=test event=first"),
                                 HasSubstr("level=info comp=test event=second n=1")));
}

}  // namespace
}  // namespace salvage
