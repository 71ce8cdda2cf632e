#include "cluster/deployment_options.h"

#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace salvage::cluster {
namespace {

using Json = nlohmann::ordered_json;

// What is read is bounded before it is parsed: 64 pins of 200 bytes are 13 KB.
constexpr std::size_t kJsonBytesMax = std::size_t{1} << 20;
constexpr std::size_t kTextBytesMax = 4096;

Json layers_json(LayerRange layers) {
  return Json::array({layers.begin, layers.end});
}

tl::unexpected<Error> wrong(std::string_view key) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("the options of a deployment have a wrong value for \"{}\"", key));
}

Result<Json> parse(std::string_view text, bool wants_list) {
  if (text.size() > kJsonBytesMax) return wrong("(all)");
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (wants_list ? !json.is_array() : !json.is_object()) return wrong("(all)");
  return json;
}

Result<std::uint32_t> number(const Json& json, std::string_view key) {
  if (!json.is_number_unsigned()) return wrong(key);
  const auto wide = json.get<std::uint64_t>();
  if (wide > std::numeric_limits<std::uint32_t>::max()) return wrong(key);
  return static_cast<std::uint32_t>(wide);
}

// A key that is missing leaves `value` as it is.
Result<void> read(const Json& json, const char* key, std::uint32_t& value) {
  const auto found = json.find(key);
  if (found == json.end()) return {};
  ASSIGN_OR_RETURN(value, number(*found, key));
  return {};
}

Result<void> read(const Json& json, const char* key, bool& value) {
  const auto found = json.find(key);
  if (found == json.end()) return {};
  if (!found->is_boolean()) return wrong(key);
  value = found->get<bool>();
  return {};
}

Result<void> read(const Json& json, const char* key, std::string& value) {
  const auto found = json.find(key);
  if (found == json.end()) return {};
  if (!found->is_string()) return wrong(key);
  const auto& text = found->get_ref<const std::string&>();
  if (text.size() > kTextBytesMax) return wrong(key);
  value = text;
  return {};
}

Result<void> read(const Json& json, const char* key, CacheType& value) {
  std::string name(cache_type_name(value));
  RETURN_IF_ERROR(read(json, key, name));
  for (const CacheType type : {CacheType::kQ8_0, CacheType::kF16}) {
    if (cache_type_name(type) == name) {
      value = type;
      return {};
    }
  }
  return wrong(key);
}

Result<LayerRange> read_layers(const Json& json, std::string_view key) {
  if (!json.is_array() || json.size() != 2) return wrong(key);
  LayerRange layers;
  ASSIGN_OR_RETURN(layers.begin, number(json[0], key));
  ASSIGN_OR_RETURN(layers.end, number(json[1], key));
  if (layers.begin >= layers.end) return wrong(key);
  return layers;
}

Result<void> read_split(const Json& json, DeploymentOptions& options) {
  const auto found = json.find("split");
  if (found == json.end()) return {};
  if (!found->is_array() || found->size() > planner::kPlacementNodesMax) return wrong("split");
  for (const Json& item : *found) {
    ASSIGN_OR_RETURN(const std::uint32_t share, number(item, "split"));
    options.split.push_back(share);
  }
  return {};
}

Result<void> read_pins(const Json& json, DeploymentOptions& options) {
  const auto found = json.find("pins");
  if (found == json.end()) return {};
  if (!found->is_object() || found->size() > planner::kPlacementNodesMax) return wrong("pins");
  for (const auto& [node, item] : found->items()) {
    planner::Pin pin;
    if (item.is_array()) {
      ASSIGN_OR_RETURN(pin.layers, read_layers(item, "pins"));
      pin.layer_count = pin.layers->count();
    } else {
      ASSIGN_OR_RETURN(pin.layer_count, number(item, "pins"));
    }
    options.pins[NodeId{node}] = pin;
  }
  return {};
}

}  // namespace

std::string to_json(const DeploymentOptions& options) {
  Json json;
  json["split"] = options.split;
  Json& pins = json["pins"] = Json::object();
  for (const auto& [node, pin] : options.pins) {
    pins[node.value] = pin.layers ? layers_json(*pin.layers) : Json(pin.layer_count);
  }
  json["context_per_sequence"] = options.context_per_sequence;
  json["sequence_count"] = options.sequence_count;
  json["rows_max"] = options.rows_max;
  json["logit_rows_max"] = options.logit_rows_max;
  json["chunk_rows"] = options.chunk_rows;
  json["cache_type_k"] = cache_type_name(options.cache_type_k);
  json["cache_type_v"] = cache_type_name(options.cache_type_v);
  json["hidden_type"] = options.hidden_type;
  json["exact"] = options.exact;
  json["thread_count"] = options.thread_count;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<DeploymentOptions> options_from_json(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, parse(text, false));
  DeploymentOptions options;
  RETURN_IF_ERROR(read_split(json, options));
  RETURN_IF_ERROR(read_pins(json, options));
  RETURN_IF_ERROR(read(json, "context_per_sequence", options.context_per_sequence));
  RETURN_IF_ERROR(read(json, "sequence_count", options.sequence_count));
  RETURN_IF_ERROR(read(json, "rows_max", options.rows_max));
  RETURN_IF_ERROR(read(json, "logit_rows_max", options.logit_rows_max));
  RETURN_IF_ERROR(read(json, "chunk_rows", options.chunk_rows));
  RETURN_IF_ERROR(read(json, "cache_type_k", options.cache_type_k));
  RETURN_IF_ERROR(read(json, "cache_type_v", options.cache_type_v));
  RETURN_IF_ERROR(read(json, "hidden_type", options.hidden_type));
  RETURN_IF_ERROR(read(json, "exact", options.exact));
  RETURN_IF_ERROR(read(json, "thread_count", options.thread_count));
  return options;
}

std::string to_json(const std::vector<HomeStage>& home) {
  Json json = Json::array();
  for (const HomeStage& stage : home) {
    json.push_back(
        {{"node", stage.node.value}, {"name", stage.name}, {"layers", layers_json(stage.layers)}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::vector<HomeStage>> home_from_json(std::string_view text) {
  std::vector<HomeStage> home;
  if (text.empty()) return home;
  ASSIGN_OR_RETURN(const Json json, parse(text, true));
  if (json.size() > planner::kPlacementNodesMax) return wrong("home");
  for (const Json& item : json) {
    if (!item.is_object() || !item.contains("layers")) return wrong("home");
    HomeStage stage;
    RETURN_IF_ERROR(read(item, "node", stage.node.value));
    RETURN_IF_ERROR(read(item, "name", stage.name));
    ASSIGN_OR_RETURN(stage.layers, read_layers(item["layers"], "layers"));
    if (stage.node.value.empty()) return wrong("node");
    home.push_back(std::move(stage));
  }
  return home;
}

planner::PlacementRequest to_placement_request(const DeploymentOptions& options) {
  planner::PlacementRequest request;
  request.need = {.context_per_sequence = options.context_per_sequence,
                  .sequence_count = options.sequence_count,
                  .rows_max = options.rows_max,
                  .logit_rows_max = options.logit_rows_max,
                  .keys = options.cache_type_k,
                  .values = options.cache_type_v};
  request.split = options.split;
  request.pins = options.pins;
  return request;
}

}  // namespace salvage::cluster
