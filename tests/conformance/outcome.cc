#include "outcome.h"

#include <nlohmann/json.hpp>

namespace salvage::conformance {
namespace {

Verdict verdict_from_name(const std::string& name) {
  if (name == "exact") return Verdict::kExact;
  return name == "refused" ? Verdict::kRefused : Verdict::kWrong;
}

}  // namespace

std::string verdict_name(Verdict verdict) {
  if (verdict == Verdict::kExact) return "exact";
  return verdict == Verdict::kRefused ? "refused" : "wrong";
}

std::string to_json(const Outcome& outcome) {
  nlohmann::ordered_json json;
  json["name"] = outcome.name;
  json["architecture"] = outcome.architecture;
  json["upstream"] = outcome.upstream;
  json["layer_count"] = outcome.layer_count;
  json["verdict"] = verdict_name(outcome.verdict);
  json["reason"] = outcome.reason;
  json["legal_cuts"] = outcome.legal_cuts;
  json["split_count"] = outcome.split_count;
  json["cache_type"] = outcome.cache_type;
  json["next_turn"] = outcome.next_turn;
  json["chunks_change_bits"] = outcome.chunks_change_bits;
  return json.dump();
}

Outcome outcome_from_json(const std::string& text) {
  Outcome outcome;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) {
    outcome.reason = "no outcome: " + text;
    return outcome;
  }
  outcome.name = json.value("name", "");
  outcome.architecture = json.value("architecture", "");
  outcome.upstream = json.value("upstream", false);
  outcome.layer_count = json.value("layer_count", 0U);
  outcome.verdict = verdict_from_name(json.value("verdict", ""));
  outcome.reason = json.value("reason", "");
  outcome.legal_cuts = json.value("legal_cuts", std::vector<std::uint32_t>());
  outcome.split_count = json.value("split_count", std::size_t{0});
  outcome.cache_type = json.value("cache_type", "");
  outcome.next_turn = json.value("next_turn", "");
  outcome.chunks_change_bits = json.value("chunks_change_bits", false);
  return outcome;
}

}  // namespace salvage::conformance
