#include "app/load_view.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/format.h"
#include "app/words.h"

namespace salvage::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLoadBarColumns = 20;
constexpr auto kRateWindow = std::chrono::seconds(10);

double share(std::uint64_t done, std::uint64_t total) {
  return total == 0 ? 0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
}

std::string load_bar(double fraction) {
  const auto full = static_cast<std::size_t>(std::clamp(fraction, 0.0, 1.0) *
                                             static_cast<double>(kLoadBarColumns));
  return std::string(full, '#') + std::string(kLoadBarColumns - full, '.');
}

LoadLine read_line(const Json& stage) {
  LoadLine line;
  line.node = stage.value("name", "");
  const auto layers = stage.value("layers", std::vector<std::uint32_t>{});
  if (layers.size() == 2) line.layers = format_layers({layers[0], layers[1]});
  line.state = stage.value("state", "");
  line.bytes_done = stage.value("fetched_bytes", std::uint64_t{0});
  line.bytes_total = stage.value("fetch_bytes", std::uint64_t{0});
  line.load_fraction = stage.value("load_fraction", 0.0);
  return line;
}

std::string amounts(std::uint64_t done, std::uint64_t total) {
  return total == 0 ? std::string()
                    : fmt::format("  {}/{}", format_bytes(done), format_bytes(total));
}

std::string line_text(const LoadLine& line, std::size_t name_width) {
  const bool fetching = line.state == "fetching";
  return fmt::format("{}  {:>7}  [{}] {:3.0f}%  {}{}", padded(line.node, name_width), line.layers,
                     load_bar(line.fraction()), std::floor(line.fraction() * 100),
                     words("stagestate." + line.state),
                     fetching ? amounts(line.bytes_done, line.bytes_total) : std::string());
}

}  // namespace

double LoadLine::fraction() const {
  if (state == "fetching") return share(bytes_done, bytes_total) / 2;
  if (state == "loading") return 0.5 + std::clamp(load_fraction, 0.0, 1.0) / 2;
  return state == "loaded" ? 1 : 0.5;
}

double LoadView::total_fraction() const {
  if (state == "ready") return 1;
  if (lines.empty()) return what == "loading" ? 0 : fraction;
  double sum = 0;
  for (const LoadLine& line : lines) sum += line.fraction();
  return sum / static_cast<double>(lines.size());
}

std::uint64_t LoadView::bytes_done() const {
  std::uint64_t sum = 0;
  for (const LoadLine& line : lines) sum += line.bytes_done;
  return sum;
}

std::uint64_t LoadView::bytes_total() const {
  std::uint64_t sum = 0;
  for (const LoadLine& line : lines) sum += line.bytes_total;
  return sum;
}

Result<LoadView> parse_load_view(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    LoadView view;
    view.what = json.value("what", "");
    view.name = json.value("name", "");
    view.fraction = json.value("fraction", 0.0);
    const auto deployment = json.find("deployment");
    if (deployment == json.end()) return view;
    view.name = deployment->value("name", view.name);
    view.state = deployment->value("state", "");
    view.reason = deployment->value("reason", "");
    for (const Json& stage : deployment->at("stages")) view.lines.push_back(read_line(stage));
    return view;
  } catch (const std::exception&) {
    return fail(ErrorCode::kCorrupt, "a report of progress has an unknown form");
  }
}

void TransferRate::add(TimePoint now, std::uint64_t bytes) {
  // Another plan counts anew.
  if (!samples_.empty() && bytes < samples_.back().second) samples_.clear();
  samples_.emplace_back(now, bytes);
  while (samples_.size() > 2 && now - samples_.front().first > kRateWindow) samples_.pop_front();
}

double TransferRate::bytes_per_second() const {
  if (samples_.size() < 2) return 0;
  const std::chrono::duration<double> time = samples_.back().first - samples_.front().first;
  const auto bytes = samples_.back().second - samples_.front().second;
  return time.count() <= 0 ? 0 : static_cast<double>(bytes) / time.count();
}

std::optional<double> seconds_left(const LoadView& view, double bytes_per_second) {
  const std::uint64_t left = view.bytes_total() - std::min(view.bytes_done(), view.bytes_total());
  if (left == 0 || bytes_per_second < 1) return std::nullopt;
  return static_cast<double>(left) / bytes_per_second;
}

std::string format_left(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::clamp(std::ceil(seconds), 0.0, 1e9));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole >= std::uint64_t{99} * 3600) return "99 h+";
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::vector<std::string> bar_lines(const LoadView& view, double bytes_per_second) {
  if (view.lines.empty()) {
    const double fraction = view.total_fraction();
    const std::string what = view.what == "hashing"      ? words("load.hashing", view.name)
                             : view.what == "verifying"  ? words("load.verifying", view.name)
                             : view.what == "announcing" ? words("load.announcing", view.name)
                                                         : words("load.waiting", view.reason);
    return {fmt::format("[{}] {:3.0f}%  {}", load_bar(fraction), std::floor(fraction * 100), what)};
  }
  std::size_t width = 0;
  for (const LoadLine& line : view.lines) width = std::max(width, display_width(line.node));
  std::vector<std::string> lines;
  for (const LoadLine& line : view.lines) lines.push_back(line_text(line, width));
  std::string total =
      fmt::format("{}  [{}] {:3.0f}%  {}{}", words("load.total"), load_bar(view.total_fraction()),
                  std::floor(view.total_fraction() * 100), words("deployment." + view.state),
                  amounts(view.bytes_done(), view.bytes_total()));
  if (const auto left = seconds_left(view, bytes_per_second)) {
    total += fmt::format("  {}/s  {}", format_bytes(static_cast<std::uint64_t>(bytes_per_second)),
                         format_left(*left));
  }
  if (!view.reason.empty()) total += "  " + view.reason;
  lines.push_back(std::move(total));
  return lines;
}

std::string status_line(const LoadView& view, double bytes_per_second) {
  Json json{{"message_type", "status"},
            {"percent_done", std::floor(view.total_fraction() * 1000) / 10},
            {"bytes_done", view.bytes_done()},
            {"total_bytes", view.bytes_total()}};
  if (const auto left = seconds_left(view, bytes_per_second)) {
    json["seconds_remaining"] = std::ceil(*left);
  }
  json["phase"] = view.state.empty() ? view.what : view.state;
  if (!view.reason.empty()) json["reason"] = view.reason;
  Json nodes = Json::array();
  for (const LoadLine& line : view.lines) {
    nodes.push_back({{"name", line.node},
                     {"layers", line.layers},
                     {"state", line.state},
                     {"bytes_done", line.bytes_done},
                     {"total_bytes", line.bytes_total}});
  }
  json["nodes"] = std::move(nodes);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace salvage::app
