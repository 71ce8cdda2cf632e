#include "metrics/metrics_text.h"

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace salvage::metrics {
namespace {

using Labels = std::initializer_list<std::pair<std::string_view, std::string>>;

std::string label_value(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string labels_text(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, label_value(value));
  }
  return text.empty() ? text : '{' + text + '}';
}

// One family of metrics after another, each with its head once and only if it has a sample.
class MetricsPage {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    head_ = fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <typename Number>
  void sample(Number value, const Labels& labels = {}) {
    line("", value, labels);
  }
  void histogram(const Histogram& values) {
    for (std::size_t i = 0; i < values.bounds().size(); ++i) {
      line("_bucket", values.at_most(i), {{"le", fmt::format("{}", values.bounds()[i])}});
    }
    line("_bucket", values.count(), {{"le", "+Inf"}});
    line("_sum", values.sum(), {});
    line("_count", values.count(), {});
  }
  std::string take() { return std::move(text_); }

 private:
  template <typename Number>
  void line(std::string_view suffix, Number value, const Labels& labels) {
    text_ += std::exchange(head_, {});
    text_ += fmt::format("{}{}{} {}\n", name_, suffix, labels_text(labels), value);
  }
  std::string name_;
  std::string head_;
  std::string text_;
};

double average(std::uint64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

// As llama.cpp's server names them.
void add_llama_names(MetricsPage& page, const LedgerTotals& totals) {
  page.family("llamacpp:prompt_tokens_total", "counter",
              "Prompt tokens computed, without those found in the KV cache.");
  page.sample(totals.prompt_tokens);
  page.family("llamacpp:prompt_tokens_cached_total", "counter",
              "Prompt tokens that were found in the KV cache.");
  page.sample(totals.cached_tokens);
  page.family(
      "llamacpp:prompt_seconds_total", "counter",
      "Time in which prompts were read, of requests that have ended, summed over requests.");
  page.sample(totals.prompt_seconds);
  page.family("llamacpp:tokens_predicted_total", "counter", "Tokens of answers.");
  page.sample(totals.answer_tokens);
  page.family("llamacpp:tokens_predicted_seconds_total", "counter",
              "Time from first to last tokens, of requests that have ended, summed over requests.");
  page.sample(totals.answer_seconds);
  page.family("llamacpp:n_tokens_max", "gauge", "Most tokens of a prompt and its answer so far.");
  page.sample(totals.longest_tokens);
  page.family("llamacpp:prompt_tokens_seconds", "gauge",
              "Prompt tokens a second of a request, on average since the start.");
  page.sample(average(totals.ended_prompt_tokens, totals.prompt_seconds));
  page.family("llamacpp:predicted_tokens_seconds", "gauge",
              "Answer tokens a second of a request, on average since the start.");
  page.sample(average(totals.ended_answer_tokens, totals.answer_seconds));
  page.family("llamacpp:requests_processing", "gauge", "Requests being read or answered.");
  page.sample(totals.prefilling + totals.decoding);
  page.family("llamacpp:requests_deferred", "gauge", "Requests that wait for a sequence.");
  page.sample(totals.queued);
}

void add_replies(MetricsPage& page, const LedgerTotals& totals) {
  page.family("salvage_http_requests_total", "counter", "Requests by endpoint and HTTP status.");
  for (std::size_t row = 0; row < totals.replies.size(); ++row) {
    const std::string endpoint = row < api::kRouteCount
                                     ? std::string(api::route_name(static_cast<api::Route>(row)))
                                     : std::string("other");
    for (std::size_t i = 0; i < totals.replies[row].size(); ++i) {
      if (totals.replies[row][i] == 0) continue;
      page.sample(totals.replies[row][i],
                  {{"endpoint", endpoint},
                   {"status", i < kCountedStatuses.size() ? std::to_string(kCountedStatuses[i])
                                                          : std::string("other")}});
    }
  }
}

void add_requests(MetricsPage& page, const LedgerTotals& totals) {
  page.family("salvage_requests_total", "counter", "Requests for an answer that have ended.");
  page.sample(totals.requests_done, {{"outcome", "done"}});
  page.sample(totals.requests_failed, {{"outcome", "failed"}});
  page.sample(totals.requests_cancelled, {{"outcome", "cancelled"}});
  page.family("salvage_requests", "gauge", "Requests for an answer that are under way.");
  page.sample(totals.queued, {{"state", "queued"}});
  page.sample(totals.prefilling, {{"state", "prefill"}});
  page.sample(totals.decoding, {{"state", "decode"}});
  page.family("salvage_queue_seconds", "histogram", "Time until a request had a sequence.");
  page.histogram(totals.queue);
  page.family("salvage_ttft_seconds", "histogram",
              "Time from a request to the first token of its answer.");
  page.histogram(totals.ttft);
  page.family("salvage_tpot_seconds", "histogram",
              "Time per token of an answer behind the first, its mean.");
  page.histogram(totals.tpot);
}

std::string seconds_of_us(std::uint64_t us) {
  return fmt::format("{}", static_cast<double>(us) / 1e6);
}

// A sample for each stage that knows the figure.
template <typename Figure>
void add_stages(MetricsPage& page, const ClusterGlance& glance, const Figure& figure) {
  for (const coordinator::DeploymentInfo& deployment : glance.deployments) {
    for (std::size_t i = 0; i < deployment.stages.size(); ++i) {
      const coordinator::StageInfo& stage = deployment.stages[i];
      const auto value = figure(stage);
      if (!value) continue;
      page.sample(*value, {{"model", deployment.model_name},
                           {"stage", std::to_string(i)},
                           {"machine", stage.status.placed.name}});
    }
  }
}

void add_pipelines(MetricsPage& page, const ClusterGlance& glance) {
  using coordinator::StageInfo;
  const auto counted = [](auto member) {
    return [member](const StageInfo& stage) {
      return stage.counters ? std::optional((*stage.counters).*member) : std::nullopt;
    };
  };
  const auto seconds = [](auto member) {
    return [member](const StageInfo& stage) {
      return stage.counters ? std::optional(seconds_of_us((*stage.counters).*member))
                            : std::nullopt;
    };
  };
  using coordinator::StageCounters;
  page.family("salvage_stage_busy_seconds_total", "counter", "Time in which a stage computed.");
  add_stages(page, glance, seconds(&StageCounters::busy_us));
  page.family("salvage_stage_idle_seconds_total", "counter",
              "Time in which a stage waited for something to compute.");
  add_stages(page, glance, seconds(&StageCounters::idle_us));
  page.family("salvage_stage_rows_total", "counter", "Rows that a stage computed.");
  add_stages(page, glance, counted(&StageCounters::rows));
  page.family("salvage_stage_memory_bytes", "gauge", "Memory that a stage's process has resident.");
  add_stages(page, glance, counted(&StageCounters::rss_bytes));
  page.family("salvage_stage_busy_ratio", "gauge",
              "Share of the last ten seconds in which a stage computed.");
  add_stages(page, glance, [](const StageInfo& stage) { return stage.busy; });
  page.family(
      "salvage_stage_bubble_ratio", "gauge",
      "Share of the pipeline's working time, in these, in which a stage had nothing to do.");
  add_stages(page, glance, [](const StageInfo& stage) { return stage.bubble; });
}

std::string link_end(const std::optional<StageIndex>& stage) {
  return stage ? std::to_string(stage->value) : std::string("coordinator");
}

void add_models(MetricsPage& page, const ClusterGlance& glance) {
  page.family("salvage_steps_total", "counter", "Micro-batches that went through all stages.");
  for (const auto& one : glance.deployments) page.sample(one.steps, {{"model", one.model_name}});
  page.family("salvage_model_ready", "gauge", "1: the model answers.");
  for (const auto& one : glance.deployments) {
    page.sample(one.status.state == cluster::DeploymentState::kReady ? 1 : 0,
                {{"model", one.model_name}});
  }
  page.family("salvage_link_bytes_total", "counter",
              "Bytes sent on a pipeline's link, from and to a stage or the coordinator.");
  for (const auto& one : glance.deployments) {
    for (const coordinator::LinkInfo& link : one.links) {
      page.sample(link.bytes_sent, {{"model", one.model_name},
                                    {"from", link_end(link.from_stage)},
                                    {"to", link_end(link.to_stage)}});
    }
  }
}

void add_machines(MetricsPage& page, const ClusterGlance& glance) {
  page.family("salvage_machine_online", "gauge", "1: the machine is linked and answers.");
  for (const coordinator::NodeInfo& node : glance.cluster.nodes) {
    page.sample(node.member.state == cluster::MemberState::kOnline ? 1 : 0,
                {{"machine", node.member.name}});
  }
}

}  // namespace

std::string metrics_text(const LedgerTotals& totals, const ClusterGlance& glance) {
  MetricsPage page;
  add_llama_names(page, totals);
  add_replies(page, totals);
  add_requests(page, totals);
  add_models(page, glance);
  add_pipelines(page, glance);
  add_machines(page, glance);
  return page.take();
}

}  // namespace salvage::metrics
