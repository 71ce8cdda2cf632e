#include "app/top_view.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/format.h"
#include "app/table.h"
#include "app/words.h"
#include "base/utf8.h"

namespace salvage::app {
namespace {

using TopJson = nlohmann::ordered_json;
using Align = Table::Align;

constexpr std::size_t kBusyBarColumns = 10;
constexpr std::size_t kIdColumns = 16;
constexpr std::size_t kModelColumns = 24;
constexpr std::size_t kFinishedShownMax = 10;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  return lines;
}

std::string top_share(const TopJson& json, const char* key) {
  return json.contains(key) ? fmt::format("{:.0f}%", 100 * json.at(key).get<double>()) : "-";
}

std::string busy_cell(const TopJson& json) {
  if (!json.contains("busy")) return "-";
  const double busy = std::clamp(json.at("busy").get<double>(), 0.0, 1.0);
  const auto full =
      static_cast<std::size_t>(std::lround(busy * static_cast<double>(kBusyBarColumns)));
  return fmt::format("[{}{}] {:3.0f}%", std::string(full, '#'),
                     std::string(kBusyBarColumns - full, '.'), busy * 100);
}

std::string used_cell(const TopJson& machine) {
  if (!machine.contains("memory_total_bytes")) return "-";
  const auto total = machine.at("memory_total_bytes").get<std::uint64_t>();
  const std::string used = machine.contains("memory_used_bytes")
                               ? format_memory(machine.at("memory_used_bytes").get<std::uint64_t>())
                               : std::string("-");
  return fmt::format("{} / {}", used, format_memory(total));
}

std::string sent_cell(const TopJson& json, const char* key) {
  if (!json.contains(key)) return "-";
  return format_bytes(static_cast<std::uint64_t>(json.at(key).get<double>())) + "/s";
}

std::string held_layers(const TopJson& machine) {
  std::string text;
  for (const TopJson& held : machine.value("layers", TopJson::array())) {
    const auto range = held.value("layers", std::vector<std::uint32_t>{});
    if (range.size() == 2) {
      text += (text.empty() ? "" : ", ") + format_layers({range[0], range[1]});
    }
  }
  return text.empty() ? "-" : text;
}

// Of all its stages the largest: that one waits most.
std::string machine_bubble(const TopJson& machine, const TopJson& models) {
  double most = -1;
  for (const TopJson& model : models) {
    for (const TopJson& stage : model.value("stages", TopJson::array())) {
      if (stage.value("machine", "") != machine.value("name", "")) continue;
      most = std::max(most, stage.value("bubble", -1.0));
    }
  }
  return most < 0 ? "-" : fmt::format("{:.0f}%", 100 * most);
}

std::string machines_table(const TopJson& cluster) {
  Table table;
  table.column(words("table.node"));
  table.column(words("table.state"));
  table.column(words("table.layers"));
  table.column(words("table.busy"));
  for (const char* key : {"table.bubble", "table.memory", "top.sends", "top.receives"}) {
    table.column(words(key), Align::kRight);
  }
  for (const TopJson& machine : cluster.at("machines")) {
    std::string name = machine.value("name", "-");
    if (machine.value("coordinator", false)) name += words("table.coordinator");
    table.row({fitted(name, kModelColumns), words("member." + machine.value("state", "offline")),
               held_layers(machine), busy_cell(machine),
               machine_bubble(machine, cluster.value("models", TopJson::array())),
               used_cell(machine), sent_cell(machine, "sent_bytes_per_second"),
               sent_cell(machine, "received_bytes_per_second")});
  }
  return table.text();
}

bool is_of_use(const TopJson& model) {
  return model.value("state", "unloaded") != "unloaded";
}

std::string model_line(const TopJson& model) {
  std::string line =
      words("top.model", fitted(model.value("name", "-"), kModelColumns),
            words("deployment." + model.value("state", "unloaded")), model.value("context", 0U),
            model.value("requests_running", 0U) -
                std::min(model.value("requests_running", 0U), model.value("requests_queued", 0U)),
            model.value("sequences", 0U), model.value("requests_queued", 0U));
  const std::string reason = model.value("reason", "");
  if (!reason.empty()) line += "  " + reason;
  return line;
}

// Machines that one link joins are on it: "0 -> 1  1.2 MB/s (35%)".
std::string links_line(const TopJson& model) {
  std::string text;
  for (const TopJson& link : model.value("links", TopJson::array())) {
    if (link.value("from", "") == link.value("to", "")) continue;
    text += fmt::format("{}{} -> {} {}", text.empty() ? "" : ",  ", link.value("from", "-"),
                        link.value("to", "-"), sent_cell(link, "bytes_per_second"));
    if (link.contains("load")) text += " (" + top_share(link, "load") + ")";
  }
  return text.empty() ? text : words("top.links", text);
}

std::string rate_of(const TopJson& request, const char* key) {
  const double rate = request.value(key, 0.0);
  return rate > 0 ? format_rate(rate) : std::string();
}

std::string with_rate(const std::string& text, const std::string& rate) {
  return rate.empty() ? text : fmt::format("{} ({})", text, rate);
}

std::string waited(const TopJson& request) {
  const double seconds = request.value("queue_ms", 0.0) / 1000;
  constexpr double kWorthTelling = 0.5;
  return seconds < kWorthTelling ? std::string() : words("top.queued_for", seconds) + " -> ";
}

// How it ended: "stop", "length"; or the error's code.
std::string end_text(const TopJson& request) {
  const std::string error = request.value("error", "");
  return error.empty() ? request.value("finish", "") : error;
}

std::string way_of(const TopJson& request) {
  const std::string state = request.value("state", "queued");
  const auto prompt = request.value("prompt_tokens", 0U);
  if (state == "queued") {
    const unsigned place = request.value("queue_place", 0U);
    return place == 0 ? words("top.begins") : words("top.queued", ordinal(place));
  }
  const std::string reading_rate = rate_of(request, "prefill_tokens_per_second");
  if (state == "prefill") {
    return waited(request) +
           with_rate(words("top.reading", request.value("read_tokens", 0U), prompt), reading_rate);
  }
  const auto answer = request.value("answer_tokens", 0U);
  std::string way = waited(request);
  if (answer > 0 || state == "decode") {
    const std::string rate = rate_of(request, "decode_tokens_per_second");
    way += with_rate(words("top.read", prompt), reading_rate) + " -> " +
           words("top.answered", answer) + (rate.empty() ? "" : ", " + rate);
  } else if (request.value("read_tokens", 0U) > 0) {
    way += words("top.reading", request.value("read_tokens", 0U), prompt);
  }
  if (state == "decode") return way;
  if (!way.empty() && !way.ends_with("-> ")) way += " -> ";
  return way + words("topstate." + state, end_text(request));
}

std::string requests_table(const TopJson& requests) {
  Table table;
  table.column(words("top.request"));
  table.column(words("table.model"));
  table.column(words("top.way"));
  std::size_t finished = 0;
  for (const TopJson& request : requests.at("data")) {
    const std::string state = request.value("state", "");
    const bool live = state == "queued" || state == "prefill" || state == "decode";
    if (!live && finished++ >= kFinishedShownMax) break;
    table.row({fitted(request.value("id", "-"), kIdColumns),
               fitted(request.value("model", "-"), kModelColumns), way_of(request)});
  }
  return table.text();
}

std::string heading(const TopJson& cluster, const TopJson& requests) {
  double prefill = 0;
  double decode = 0;
  for (const TopJson& request : requests.at("data")) {
    const std::string state = request.value("state", "");
    if (state == "prefill") prefill += request.value("prefill_tokens_per_second", 0.0);
    if (state == "decode") decode += request.value("decode_tokens_per_second", 0.0);
  }
  std::string text = words("top.heading", cluster.value("name", "-"), requests.value("queued", 0U),
                           requests.value("prefill", 0U), requests.value("decode", 0U));
  if (prefill > 0) text += words("top.reads", format_rate(prefill));
  if (decode > 0) text += words("top.writes", format_rate(decode));
  return text;
}

void append(std::vector<std::string>& lines, std::vector<std::string> more) {
  lines.insert(lines.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
}

}  // namespace

std::string ordinal(unsigned number) {
  const unsigned ten = number % 100 / 10;
  const unsigned one = number % 10;
  const char* const key = ten == 1   ? "top.nth"
                          : one == 1 ? "top.nth_1"
                          : one == 2 ? "top.nth_2"
                          : one == 3 ? "top.nth_3"
                                     : "top.nth";
  return words(key, number);
}

std::string fitted(std::string_view text, std::size_t columns) {
  std::string fit;
  std::size_t used = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) ++end;
    std::string character(text.substr(begin, end - begin));
    const auto code = static_cast<unsigned char>(character.front());
    if (code < 0x20 || code == 0x7F || !valid_utf8(character)) character = "?";
    used += display_width(character);
    if (used > columns) break;
    fit += character;
    begin = end;
  }
  return fit;
}

std::vector<std::string> top_lines(const TopJson& cluster, const TopJson& requests, TopSize size) {
  std::vector<std::string> lines{heading(cluster, requests), ""};
  append(lines, lines_of(machines_table(cluster)));
  lines.emplace_back();
  bool any = false;
  for (const TopJson& model : cluster.value("models", TopJson::array())) {
    if (!is_of_use(model)) continue;
    any = true;
    lines.push_back(model_line(model));
    if (std::string links = links_line(model); !links.empty()) lines.push_back(std::move(links));
  }
  if (!any) lines.push_back(words("up.nothing_loaded"));
  lines.emplace_back();
  if (requests.at("data").empty()) {
    lines.push_back(words("top.no_requests"));
  } else {
    append(lines, lines_of(requests_table(requests)));
  }
  if (size.rows != 0 && lines.size() > size.rows) {
    const std::size_t hidden = lines.size() - size.rows + 1;
    lines.resize(size.rows - 1);
    lines.push_back(words("top.more", hidden));
  }
  if (size.columns == 0) return lines;
  for (std::string& line : lines) line = fitted(line, size.columns);
  return lines;
}

}  // namespace salvage::app
