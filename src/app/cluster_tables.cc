#include "app/cluster_tables.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/format.h"
#include "app/table.h"
#include "app/words.h"
#include "identity/fingerprint.h"

namespace salvage::app {
namespace {

using Align = Table::Align;

std::string address_cell(const Json& node) {
  const std::string link = node.value("link", std::string());
  std::string place = place_of(node.value("address", std::string()));
  if (place.empty()) {
    const Json addresses = node.value("facts", Json::object()).value("addresses", Json::array());
    if (!addresses.empty()) place = place_of(addresses.at(0).value("endpoint", std::string()));
  }
  if (place.empty()) return "-";
  return link.empty() ? place : fmt::format("{} ({})", place, words("link." + link));
}

std::string state_cell(const Json& node) {
  std::string state = words("member." + node.value("state", std::string("offline")));
  const std::string reason = node.value("reason", std::string());
  return reason.empty() ? state : fmt::format("{}: {}", state, reason);
}

std::string share_cell(const Json& json, const char* key) {
  return json.contains(key) ? fmt::format("{:.0f}%", 100 * json.value(key, 0.0)) : "-";
}

std::string rate_cell(const Json& json, const char* key) {
  return json.contains(key) ? bytes_cell(json, key) + "/s" : "-";
}

// Time of one step, on average since the stage was loaded.
std::string step_cell(const Json& stage) {
  const double steps = stage.value("steps", 0.0);
  return steps <= 0 ? "-" : format_seconds(stage.value("busy_us", 0.0) / steps / 1e6);
}

std::string stage_state_cell(const Json& stage) {
  const std::string state = stage.value("state", std::string());
  std::string text = words("stagestate." + state);
  if (state == "fetching" && stage.value("fetch_bytes", 0.0) > 0) {
    text += fmt::format(" {:.0f}%",
                        100 * stage.value("fetched_bytes", 0.0) / stage.value("fetch_bytes", 0.0));
  }
  if (state == "loading") text += fmt::format(" {:.0f}%", 100 * stage.value("load_fraction", 0.0));
  return text;
}

std::string stages_table(const Json& stages) {
  Table table;
  table.column(words("table.stage"), Align::kRight);
  table.column(words("table.node"));
  table.column(words("table.layers"));
  table.column(words("table.state"));
  for (const char* key : {"table.need", "table.weights", "table.kv", "table.compute",
                          "table.resident", "table.step", "table.busy"}) {
    table.column(words(key), Align::kRight);
  }
  table.column(words("table.exact"));
  for (const Json& stage : stages) {
    const bool loaded = stage.contains("exact");
    table.row({std::to_string(stage.value("index", 0)), text_or(stage, "name"),
               layers_cell(stage, "layers"), stage_state_cell(stage),
               bytes_cell(stage, "need_bytes"), bytes_cell(stage, "weights_bytes"),
               bytes_cell(stage, "kv_bytes"), bytes_cell(stage, "compute_bytes"),
               bytes_cell(stage, "rss_bytes"), step_cell(stage), share_cell(stage, "busy"),
               loaded ? words(stage.at("exact").get<bool>() ? "table.exact_yes" : "table.exact_no")
                      : "-"});
  }
  return table.text();
}

}  // namespace

std::string nodes_table(const Json& cluster) {
  Table table;
  table.column(words("table.node"));
  table.column(words("table.id"));
  table.column(words("table.state"));
  table.column(words("table.address"));
  table.column(words("table.cores"), Align::kRight);
  table.column(words("table.memory_free"), Align::kRight);
  table.column(words("table.memory"), Align::kRight);
  table.column(words("table.disk_free"), Align::kRight);
  table.column(words("table.version"));
  for (const Json& node : cluster.at("nodes")) {
    const Json facts = node.value("facts", Json::object());
    std::string name = text_or(node, "name");
    if (node.value("coordinator", false)) name += words("table.coordinator");
    table.row({name, identity::short_form(node.value("id", std::string())), state_cell(node),
               address_cell(node),
               facts.contains("cores") ? std::to_string(facts.at("cores").get<int>()) : "-",
               memory_cell(facts, "memory_free_bytes"), memory_cell(facts, "memory_total_bytes"),
               bytes_cell(facts, "disk_free_bytes"), text_or(facts, "version")});
  }
  return table.text();
}

std::string kernels_note(const Json& cluster) {
  std::string own;
  for (const Json& node : cluster.at("nodes")) {
    if (node.value("coordinator", false)) {
      own = node.value("facts", Json::object()).value("kernels", std::string());
    }
  }
  std::string others;
  for (const Json& node : cluster.at("nodes")) {
    const std::string kernels = node.value("facts", Json::object()).value("kernels", std::string());
    if (kernels.empty() || kernels == own) continue;
    others += (others.empty() ? "" : ", ") + text_or(node, "name");
  }
  return others.empty() ? std::string() : words("nodes.other_kernels", others);
}

std::string models_table(const Json& models) {
  Table table;
  table.column(words("table.model"));
  table.column(words("table.id"));
  table.column(words("table.size"), Align::kRight);
  table.column(words("table.layers"), Align::kRight);
  table.column(words("table.loaded"));
  table.column(words("table.complete"));
  table.column(words("table.held"));
  for (const Json& model : models) {
    std::string held;
    for (const Json& holder : model.value("held", Json::array())) {
      held += fmt::format("{}{} {}", held.empty() ? "" : ", ", text_or(holder, "node"),
                          bytes_cell(holder, "bytes"));
    }
    const auto yes_no = [&](const char* key) {
      return words(model.value(key, false) ? "table.exact_yes" : "table.exact_no");
    };
    table.row({text_or(model, "name"), identity::short_form(model.value("id", std::string())),
               bytes_cell(model, "bytes"),
               model.contains("layers") ? std::to_string(model.at("layers").get<int>()) : "-",
               yes_no("loaded"), yes_no("complete"), held.empty() ? "-" : held});
  }
  return table.text();
}

std::string links_text(const Json& deployment) {
  const Json links = deployment.value("links", Json::array());
  if (links.empty()) return {};
  const auto end = [](const Json& link, const char* name, const char* stage) {
    const bool coordinator = !link.contains(stage) || link.at(stage).is_null();
    return coordinator ? words("ps.coordinator", text_or(link, name))
                       : words("ps.stage", link.at(stage).get<int>(), text_or(link, name));
  };
  Table table;
  table.column(words("table.from"));
  table.column(words("table.to"));
  for (const char* key : {"table.sent", "table.arrived", "table.rate", "table.load"}) {
    table.column(words(key), Align::kRight);
  }
  for (const Json& link : links) {
    table.row({end(link, "from", "from_stage"), end(link, "to", "to_stage"),
               bytes_cell(link, "bytes_sent"), bytes_cell(link, "bytes_arrived"),
               rate_cell(link, "bytes_per_second"), share_cell(link, "load")});
  }
  return table.text();
}

std::string deployment_text(const Json& deployment) {
  std::string text =
      words("ps.heading", text_or(deployment, "name"),
            words("deployment." + deployment.value("state", std::string("unloaded"))),
            deployment.value("context", 0U), deployment.value("epoch", std::uint64_t{0}),
            deployment.value("requests_running", 0U));
  text += '\n';
  const std::string reason = deployment.value("reason", std::string());
  if (!reason.empty()) text += words("ps.reason", reason) + '\n';
  const std::string last = deployment.value("last_lines", std::string());
  if (!last.empty()) text += words("ps.last_lines", last) + '\n';
  const Json stages = deployment.value("stages", Json::array());
  if (!stages.empty()) text += stages_table(stages);
  for (const Json& left : deployment.value("left_out", Json::array())) {
    text += words("ps.left_out", text_or(left, "name"), text_or(left, "reason")) + '\n';
  }
  for (const Json& condition : deployment.value("exact_conditions", Json::array())) {
    text += words("run.exact_no", condition.get<std::string>()) + '\n';
  }
  return text;
}

}  // namespace salvage::app
