// Goal: the view says where each machine and request is, in both languages, and never more than the
// window holds. Method: answers as the program gives them.

#include "app/top_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/words.h"

namespace salvage::app {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

const Json kCluster = Json::parse(R"({"name": "home", "machines": [
    {"name": "attic", "state": "online", "coordinator": true, "busy": 0.82,
     "memory_total_bytes": 8589934592, "memory_used_bytes": 4294967296,
     "layers": [{"model": "m", "stage": 0, "layers": [0, 15]}], "sent_bytes_per_second": 1200000.0},
    {"name": "地下室", "state": "lost", "coordinator": false, "layers": []}],
  "models": [{"name": "m", "state": "ready", "context": 4096, "sequences": 4,
     "requests_running": 3, "requests_queued": 1,
     "stages": [{"machine": "attic", "bubble": 0.12}],
     "links": [{"from": "attic", "to": "地下室", "bytes_per_second": 1200000.0, "load": 0.35}]},
    {"name": "other", "state": "unloaded"}]})");

Json request(const std::string& state, const Json& more) {
  Json json{{"id", "req_1"}, {"model", "m"}, {"state", state}, {"prompt_tokens", 2048}};
  json.update(more);
  return json;
}

Json list_of(const std::vector<Json>& requests) {
  return {{"data", requests}, {"queued", 1}, {"prefill", 0}, {"decode", 0}};
}

std::string shown(const Json& requests, TopSize size = {}) {
  std::string text;
  for (const std::string& line : top_lines(kCluster, requests, size)) text += line + '\n';
  return text;
}

class TopView : public testing::Test {
 protected:
  ~TopView() override { set_language(Language::kEnglish); }
};

TEST_F(TopView, a_request_tells_the_way_it_has_come) {
  const auto way = [](const Json& json) { return shown(list_of({json})); };
  EXPECT_THAT(way(request("queued", {{"queue_place", 2}})), HasSubstr("queued 2nd\n"));
  EXPECT_THAT(way(request("queued", Json::object())), HasSubstr("begins\n"));
  EXPECT_THAT(way(request("prefill", {{"read_tokens", 812},
                                      {"prefill_tokens_per_second", 41.0},
                                      {"queue_ms", 3200.0}})),
              HasSubstr("queued 3.2 s -> reading prompt 812/2048 (41.0 tok/s)\n"));
  const Json answering{{"read_tokens", 2048},
                       {"prefill_tokens_per_second", 41.0},
                       {"answer_tokens", 120},
                       {"decode_tokens_per_second", 3.1}};
  EXPECT_THAT(way(request("decode", answering)),
              HasSubstr("read 2048 (41.0 tok/s) -> 120 tokens, 3.1 tok/s\n"));
  Json done = answering;
  done["finish"] = "stop";
  EXPECT_THAT(way(request("done", done)), HasSubstr("3.1 tok/s -> done (stop)\n"));
  EXPECT_THAT(way(request("failed", {{"error", "queue_full"}})),
              HasSubstr("failed (queue_full)\n"));
  EXPECT_THAT(way(request("cancelled", {{"read_tokens", 64}, {"error", "client_closed"}})),
              HasSubstr("reading prompt 64/2048 -> ended (client_closed)\n"));
}

TEST_F(TopView, machines_models_and_links_have_their_lines) {
  const std::string text = shown(list_of({}));
  EXPECT_THAT(text, HasSubstr("home   1 waiting, 0 reading, 0 answering\n"));
  EXPECT_THAT(text, HasSubstr("[########..]  82%"));
  EXPECT_THAT(text, HasSubstr("4.0 GiB / 8.0 GiB"));
  EXPECT_THAT(text, HasSubstr("0-14"));
  EXPECT_THAT(text, HasSubstr("m: ready, context 4096, 2 of 4 answers at once, 1 waiting\n"));
  EXPECT_THAT(text, HasSubstr("attic -> 地下室 1.2 MB/s (35%)"));
  EXPECT_THAT(text, HasSubstr("No requests yet."));
  EXPECT_EQ(text.find("other"), std::string::npos) << "not loaded";
}

TEST_F(TopView, columns_line_up_in_chinese_too) {
  set_language(Language::kChinese);
  const auto lines = top_lines(kCluster, list_of({request("queued", {{"queue_place", 2}})}), {});
  EXPECT_THAT(lines.back(), HasSubstr("排队第 2 位"));
  // The state stands at the same column in every row of machines, and under its title.
  const auto column = [](const std::string& line, std::string_view word) {
    return display_width(line.substr(0, line.find(word)));
  };
  EXPECT_EQ(column(lines[2], "状态"), column(lines[3], "在线"));
  EXPECT_EQ(column(lines[3], "在线"), column(lines[4], "失联"));
}

TEST_F(TopView, fits_the_window) {
  std::vector<Json> many(40, request("decode", {{"answer_tokens", 5}}));
  const auto lines = top_lines(kCluster, list_of(many), {.columns = 30, .rows = 12});
  ASSERT_EQ(lines.size(), 12U);
  for (const std::string& line : lines) EXPECT_LE(display_width(line), 30U) << line;
  EXPECT_THAT(lines.back(), HasSubstr("lines more"));
}

TEST_F(TopView, names_steer_no_terminal_and_are_not_cut_within_a_character) {
  EXPECT_EQ(fitted("a\x1b[2Jb", 80), "a?[2Jb");
  EXPECT_EQ(fitted("a\xFFz", 80), "a?z");
  EXPECT_EQ(fitted("地下室", 5), "地下");
  EXPECT_EQ(fitted("abc", 2), "ab");
}

TEST_F(TopView, places_are_spelled) {
  EXPECT_EQ(ordinal(1), "1st");
  EXPECT_EQ(ordinal(2), "2nd");
  EXPECT_EQ(ordinal(3), "3rd");
  EXPECT_EQ(ordinal(11), "11th");
  EXPECT_EQ(ordinal(112), "112th");
  EXPECT_EQ(ordinal(23), "23rd");
}

}  // namespace
}  // namespace salvage::app
