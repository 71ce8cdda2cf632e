// Goal: bars tell the truth: no speed from bytes that lay there before, no time when nobody can
// know. Method: views and times by hand.

#include "app/load_view.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::app {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

LoadView fetching() {
  LoadView view{.what = "loading", .name = "m", .state = "fetching"};
  view.lines.push_back({.node = "attic", .layers = "0-9", .state = "loaded"});
  view.lines.push_back({.node = "pi",
                        .layers = "10-15",
                        .state = "fetching",
                        .bytes_done = 1000,
                        .bytes_total = 4000});
  return view;
}

TEST(LoadView, half_of_the_way_is_fetching) {
  const LoadView view = fetching();
  EXPECT_EQ(view.lines[0].fraction(), 1);
  EXPECT_EQ(view.lines[1].fraction(), 0.125);
  EXPECT_EQ(view.total_fraction(), 0.5625);
  EXPECT_EQ(LoadLine({.state = "loading", .load_fraction = 0.5}).fraction(), 0.75);
  EXPECT_EQ(LoadLine({.state = "fetching"}).fraction(), 0) << "nothing is known yet";
}

TEST(LoadView, is_read_from_what_the_program_reports) {
  const auto view = parse_load_view(
      R"({"what":"loading","fraction":0,"deployment":{"name":"m","state":"fetching","stages":[)"
      R"({"name":"pi","layers":[2,5],"state":"fetching","fetched_bytes":1,"fetch_bytes":2}]}})");
  ASSERT_TRUE(view) << view.error().message();
  ASSERT_EQ(view->lines.size(), 1U);
  EXPECT_EQ(view->lines[0].layers, "2-4");
  EXPECT_EQ(view->bytes_total(), 2U);
}

TEST(LoadView, another_form_is_refused) {
  for (const char* text : {"", "[]", R"({"deployment":7})", R"({"deployment":{}})", R"({"what":1})",
                           R"({"deployment":{"stages":[1]}})"}) {
    EXPECT_FALSE(parse_load_view(text)) << text;
  }
}

TEST(TransferRate, what_lay_there_before_the_start_is_no_speed) {
  TransferRate rate;
  rate.add(TimePoint(seconds(0)), 900);
  EXPECT_EQ(rate.bytes_per_second(), 0);
  rate.add(TimePoint(seconds(2)), 1000);
  EXPECT_EQ(rate.bytes_per_second(), 50);
}

TEST(TransferRate, forgets_what_is_older_than_ten_seconds) {
  TransferRate rate;
  for (int i = 0; i <= 10; ++i) rate.add(TimePoint(seconds(i)), static_cast<std::uint64_t>(i) * 10);
  for (int i = 11; i <= 30; ++i) rate.add(TimePoint(seconds(i)), 100);
  EXPECT_EQ(rate.bytes_per_second(), 0);
}

TEST(TransferRate, another_plan_counts_anew) {
  TransferRate rate;
  rate.add(TimePoint(seconds(0)), 0);
  rate.add(TimePoint(seconds(1)), 1000);
  rate.add(TimePoint(seconds(2)), 10);
  EXPECT_EQ(rate.bytes_per_second(), 0);
}

TEST(SecondsLeft, are_unknown_without_speed_or_rest) {
  LoadView view = fetching();
  EXPECT_FALSE(seconds_left(view, 0));
  EXPECT_EQ(seconds_left(view, 100), 30);
  view.lines[1].bytes_done = 5000;
  EXPECT_FALSE(seconds_left(view, 100));
}

TEST(SecondsLeft, take_at_most_two_units) {
  EXPECT_EQ(format_left(51.2), "52 s");
  EXPECT_EQ(format_left(185), "3 min 5 s");
  EXPECT_EQ(format_left(3845), "1 h 4 min");
  EXPECT_EQ(format_left(1e12), "99 h+");
}

TEST(BarLines, one_a_machine_and_one_for_all) {
  const auto lines = bar_lines(fetching(), 100);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[0], HasSubstr("attic      0-9  [####################] 100%"));
  EXPECT_THAT(lines[1], HasSubstr("pi       10-15  [##..................]  12%"));
  EXPECT_THAT(lines[1], HasSubstr("1.0 KB/4.0 KB"));
  EXPECT_THAT(lines[2], HasSubstr("100 B/s  30 s"));
  EXPECT_THAT(bar_lines(fetching(), 0)[2], Not(HasSubstr("B/s")));
}

TEST(StatusLine, has_the_keys_that_programs_read) {
  EXPECT_EQ(status_line(fetching(), 100),
            R"({"message_type":"status","percent_done":56.2,"bytes_done":1000,"total_bytes":4000,)"
            R"("seconds_remaining":30.0,"phase":"fetching","nodes":[)"
            R"({"name":"attic","layers":"0-9","state":"loaded","bytes_done":0,"total_bytes":0},)"
            R"({"name":"pi","layers":"10-15","state":"fetching","bytes_done":1000,)"
            R"("total_bytes":4000}]})");
}

}  // namespace
}  // namespace salvage::app
