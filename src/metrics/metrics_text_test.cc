// Goal: Prometheus reads the page: each family has its head once, before its samples, each sample
// belongs to a family, and no two are the same. Method: a reader of the text format.

#include "metrics/metrics_text.h"

#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "metrics/glance_fixture.h"

namespace salvage::metrics {
namespace {

struct Page {
  std::map<std::string, std::string> types;  // by family
  std::map<std::string, double> samples;     // by name and labels
};

// The family of "x_bucket{...}", if x is a histogram.
std::string family_of(const Page& page, const std::string& series) {
  const std::string name = series.substr(0, series.find('{'));
  if (page.types.contains(name)) return name;
  for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string base = name.substr(0, name.size() - suffix.size());
    const auto found = page.types.find(base);
    if (found != page.types.end() && found->second == "histogram") return base;
  }
  return {};
}

Page read_page(const std::string& text) {
  Page page;
  std::string helped;
  std::string current;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, kind, name, type;
    if (line.starts_with("# HELP ")) {
      words >> hash >> kind >> helped;
      continue;
    }
    if (line.starts_with("# TYPE ")) {
      words >> hash >> kind >> name >> type;
      EXPECT_EQ(name, helped);
      EXPECT_TRUE(page.types.emplace(name, type).second) << name << " has two heads";
      EXPECT_TRUE(type == "counter" || type == "gauge" || type == "histogram") << line;
      current = name;
      continue;
    }
    const std::size_t blank = line.rfind(' ');
    EXPECT_NE(blank, std::string::npos) << line;
    const std::string series = line.substr(0, blank);
    EXPECT_EQ(family_of(page, series), current) << line;
    EXPECT_TRUE(page.samples.emplace(series, std::stod(line.substr(blank + 1))).second)
        << series << " stands there twice";
  }
  return page;
}

TimePoint at(int ms) {
  return TimePoint{} + std::chrono::milliseconds(1000 + ms);
}

// One request that was answered, one that waits, some replies.
Page page_of_some_work() {
  RequestLedger ledger;
  RequestFacts facts;
  facts.prompt_tokens = 30;
  const auto live = ledger.begin(facts, at(0));
  live->take(api::PromptProgress{.total_tokens = 30, .cached_tokens = 10, .done_tokens = 30},
             at(1));
  for (int i = 0; i < 3; ++i) live->take(api::AnswerDelta{.tokens = {1}}, at(10 + i));
  api::Finished end;
  end.timings = {.queue_ms = 300, .prompt_ms = 2000, .answer_ms = 1000};
  live->take(end, at(20));
  (void)ledger.end(live, "", at(20));
  const auto waiting = ledger.begin(facts, at(30));
  ledger.count_reply(api::Route::kMetrics, 200);
  ledger.count_reply(std::nullopt, 404);
  ledger.count_reply(std::nullopt, 402);
  return read_page(metrics_text(ledger.totals(at(40)), glance_of_two()));
}

TEST(MetricsText, has_llama_cpps_names_for_what_it_counts_too) {
  const Page page = page_of_some_work();
  const auto value = [&](const std::string& name) { return page.samples.at(name); };
  EXPECT_EQ(value("llamacpp:prompt_tokens_total"), 20);
  EXPECT_EQ(value("llamacpp:prompt_tokens_cached_total"), 10);
  EXPECT_EQ(value("llamacpp:prompt_seconds_total"), 2);
  EXPECT_EQ(value("llamacpp:tokens_predicted_total"), 3);
  EXPECT_EQ(value("llamacpp:prompt_tokens_seconds"), 10);
  EXPECT_EQ(value("llamacpp:predicted_tokens_seconds"), 2);
  EXPECT_EQ(value("llamacpp:requests_processing"), 0);
  EXPECT_EQ(value("llamacpp:requests_deferred"), 1);
  EXPECT_EQ(page.types.at("llamacpp:prompt_tokens_total"), "counter");
  EXPECT_EQ(page.types.at("llamacpp:requests_processing"), "gauge");
}

TEST(MetricsText, histograms_are_cumulative_and_end_with_all) {
  const Page page = page_of_some_work();
  EXPECT_EQ(page.types.at("salvage_ttft_seconds"), "histogram");
  EXPECT_EQ(page.samples.at("salvage_ttft_seconds_bucket{le=\"1\"}"), 0);
  EXPECT_EQ(page.samples.at("salvage_ttft_seconds_bucket{le=\"2.5\"}"), 1);
  EXPECT_EQ(page.samples.at("salvage_ttft_seconds_bucket{le=\"5\"}"), 1);
  EXPECT_EQ(page.samples.at("salvage_ttft_seconds_bucket{le=\"+Inf\"}"), 1);
  EXPECT_DOUBLE_EQ(page.samples.at("salvage_ttft_seconds_sum"), 2.3);
  EXPECT_EQ(page.samples.at("salvage_ttft_seconds_count"), 1);
  EXPECT_EQ(page.samples.at("salvage_tpot_seconds_count"), 1);
}

TEST(MetricsText, replies_stages_and_links_have_labels) {
  const Page page = page_of_some_work();
  const auto value = [&](const std::string& name) { return page.samples.at(name); };
  EXPECT_EQ(value("salvage_http_requests_total{endpoint=\"/metrics\",status=\"200\"}"), 1);
  EXPECT_EQ(value("salvage_http_requests_total{endpoint=\"other\",status=\"404\"}"), 1);
  EXPECT_EQ(value("salvage_http_requests_total{endpoint=\"other\",status=\"other\"}"), 1);
  const std::string stage = "{model=\"tiny\",stage=\"1\",machine=\"cellar \\\"2\\\"\"}";
  EXPECT_EQ(value("salvage_stage_busy_seconds_total" + stage), 1.5);
  EXPECT_EQ(value("salvage_stage_bubble_ratio" + stage), 0.5);
  EXPECT_EQ(value("salvage_link_bytes_total{model=\"tiny\",from=\"0\",to=\"1\"}"), 4096);
  EXPECT_EQ(value("salvage_machine_online{machine=\"attic\"}"), 1);
  EXPECT_EQ(value("salvage_machine_online{machine=\"cellar \\\"2\\\"\"}"), 0);
}

TEST(MetricsText, a_server_that_did_nothing_yet_has_a_page_too) {
  const Page page = read_page(metrics_text(RequestLedger().totals(at(0)), {}));
  EXPECT_EQ(page.samples.at("llamacpp:tokens_predicted_total"), 0);
  EXPECT_FALSE(page.types.contains("salvage_stage_rows_total")) << "a head without samples";
}

}  // namespace
}  // namespace salvage::metrics
