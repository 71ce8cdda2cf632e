#include "admin/info_json.h"

#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/known_json.h"

namespace salvage::admin {
namespace {

using api::Json;
using api::put_known;
using api::put_positive;
using api::put_text;

Json facts_json(const cluster::NodeFacts& facts) {
  Json json{{"version", facts.version}, {"llama_pin", facts.llama_pin}};
  json["wire_version_min"] = facts.wire_version_min;
  json["wire_version"] = facts.wire_version;
  put_text(json, "kernels", facts.kernel_fingerprint);
  put_text(json, "processor", facts.processor);
  put_positive(json, "cores", facts.core_count);
  put_known(json, "memory_total_bytes", facts.memory_total_bytes);
  put_known(json, "memory_free_bytes", facts.memory_free_bytes);
  put_known(json, "disk_free_bytes", facts.disk_free_bytes);
  Json addresses = Json::array();
  for (const cluster::NodeAddress& address : facts.addresses) {
    addresses.push_back({{"endpoint", address.endpoint}, {"link", address.link_type}});
  }
  json["addresses"] = std::move(addresses);
  return json;
}

Json node_json(const coordinator::NodeInfo& node) {
  Json json{{"id", node.member.node.value},
            {"name", node.member.name},
            {"state", cluster::member_state_name(node.member.state)},
            {"coordinator", node.coordinator},
            {"ephemeral", node.member.ephemeral}};
  put_text(json, "reason", node.member.reason);
  put_text(json, "address", node.address);
  put_text(json, "link", node.link_type);
  json["facts"] = facts_json(node.member.facts);
  return json;
}

Json layers_json(LayerRange layers) {
  return Json::array({layers.begin, layers.end});
}

void put_counters(Json& json, const coordinator::StageCounters& counters) {
  json["steps"] = counters.steps;
  json["rows"] = counters.rows;
  json["busy_us"] = counters.busy_us;
  json["idle_us"] = counters.idle_us;
  json["bytes_in"] = counters.bytes_in;
  json["bytes_out"] = counters.bytes_out;
  json["rss_bytes"] = counters.rss_bytes;
  put_known(json, "out_busy_us", counters.out_busy_us);
}

Json link_json(const coordinator::LinkInfo& link) {
  const auto stage = [](const std::optional<StageIndex>& index) {
    return index ? Json(index->value) : Json(nullptr);
  };
  Json json{{"from", link.from},
            {"to", link.to},
            {"from_stage", stage(link.from_stage)},
            {"to_stage", stage(link.to_stage)},
            {"bytes_sent", link.bytes_sent},
            {"bytes_arrived", link.bytes_arrived}};
  put_known(json, "bytes_per_second", link.bytes_per_second);
  put_known(json, "load", link.load);
  return json;
}

Json links_json(const coordinator::DeploymentInfo& deployment) {
  Json links = Json::array();
  for (const coordinator::LinkInfo& link : deployment.links) links.push_back(link_json(link));
  return links;
}

Json stage_json(std::size_t index, const coordinator::StageInfo& stage) {
  const cluster::StageStatus& status = stage.status;
  Json json{{"index", index},
            {"node", status.placed.node.value},
            {"name", status.placed.name},
            {"layers", layers_json(status.placed.layers)},
            {"state", cluster::stage_state_name(status.state)},
            {"need_bytes", status.placed.need.total_bytes()},
            {"usable_bytes", status.placed.usable_bytes},
            {"fetched_bytes", status.fetched_bytes},
            {"fetch_bytes", status.fetch_bytes},
            {"load_fraction", status.load_fraction},
            {"endpoints", status.endpoints}};
  if (status.state != cluster::StageState::kLoaded) return json;
  json["weights_bytes"] = stage.weights_bytes;
  json["kv_bytes"] = stage.kv_cache_bytes;
  json["compute_bytes"] = stage.compute_bytes;
  json["checkpoint_bytes"] = stage.checkpoint_bytes;
  json["kernels"] = stage.kernel_fingerprint;
  json["self_checked"] = stage.self_checked;
  json["exact"] = stage.exact;
  json["condition"] = stage.inexact_condition;
  json["pid"] = stage.pid;
  if (stage.counters) put_counters(json, *stage.counters);
  put_known(json, "busy", stage.busy);
  put_known(json, "bubble", stage.bubble);
  return json;
}

Json stages_json(const coordinator::DeploymentInfo& deployment) {
  Json stages = Json::array();
  for (std::size_t i = 0; i < deployment.stages.size(); ++i) {
    stages.push_back(stage_json(i, deployment.stages[i]));
  }
  return stages;
}

Json invite_json(const cluster::Invite& invite) {
  Json json{{"id", invite.id},
            {"uses_left", invite.uses_left},
            {"ephemeral", invite.ephemeral},
            {"created_ms", invite.created_ms},
            {"expires_ms", invite.expires_ms}};
  put_text(json, "label", invite.label);
  return json;
}

}  // namespace

Json to_json(const StatusInfo& status) {
  Json json{{"role", status.role},
            {"version", status.version},
            {"llama_pin", status.llama_pin},
            {"pid", status.pid},
            {"data_folder", status.data_folder},
            {"port", status.port},
            {"node", status.self.value},
            {"name", status.name},
            {"cluster_name", status.cluster_name},
            {"cluster_id", status.cluster_id},
            {"connected", status.connected}};
  put_text(json, "coordinator", status.coordinator_name);
  put_text(json, "coordinator_address", status.coordinator_address);
  put_text(json, "problem", status.problem);
  return json;
}

Json to_json(const coordinator::ClusterInfo& cluster) {
  Json nodes = Json::array();
  for (const coordinator::NodeInfo& node : cluster.nodes) nodes.push_back(node_json(node));
  Json json{{"name", cluster.name},
            {"id", cluster.cluster_id},
            {"coordinator", cluster.coordinator.value},
            {"lost_after_ms", cluster.lost_after_ms}};
  put_text(json, "version", cluster.version);
  json["nodes"] = std::move(nodes);
  return json;
}

Json to_json(const coordinator::ModelInfo& model) {
  Json held = Json::array();
  for (const auto& [node, bytes] : model.held) {
    held.push_back({{"node", node}, {"bytes", bytes}});
  }
  Json json{{"id", model.model.value},
            {"name", model.name},
            {"bytes", model.bytes},
            {"complete", model.complete},
            {"loaded", model.loaded}};
  put_positive(json, "layers", model.layer_count);
  put_text(json, "architecture", model.architecture);
  json["held"] = std::move(held);
  return json;
}

Json to_json(const coordinator::DeploymentInfo& deployment) {
  const cluster::DeploymentStatus& status = deployment.status;
  Json left_out = Json::array();
  for (const planner::LeftOut& left : status.left_out) {
    left_out.push_back({{"name", left.name}, {"reason", left.reason}});
  }
  Json json{{"model", status.model.value},
            {"name", deployment.model_name},
            {"state", cluster::deployment_state_name(status.state)},
            {"wanted", status.wanted},
            {"epoch", status.epoch.value},
            {"context", deployment.context},
            {"requests_running", deployment.requests_running},
            {"failures", status.failure_count},
            {"exact", deployment.exact_conditions.empty()},
            {"exact_conditions", deployment.exact_conditions}};
  put_text(json, "reason", status.reason);
  put_text(json, "last_lines", status.last_lines);
  json["left_out"] = std::move(left_out);
  json["stages"] = stages_json(deployment);
  json["links"] = links_json(deployment);
  return json;
}

Json to_json(const cluster::Invite& invite) {
  return invite_json(invite);
}

Json to_json(const coordinator::OpenInvite& invite) {
  Json json{{"code", invite.code}};
  json.update(invite_json(invite.invite));
  put_text(json, "download_line", invite.download_line);
  put_text(json, "no_download", invite.no_download);
  return json;
}

Json to_json(const coordinator::RunOutcome& outcome) {
  const pipeline::Generation& generation = outcome.generation;
  Json nodes = Json::array();
  for (const coordinator::StageInfo& stage : outcome.deployment.stages) {
    nodes.push_back(stage.status.placed.name);
  }
  const auto& conditions = outcome.deployment.exact_conditions;
  Json json{{"text", generation.text},
            {"token_ids", generation.tokens},
            {"finish_reason", pipeline::finish_reason_name(generation.reason)},
            {"prompt_tokens", generation.stats.prompt_tokens},
            {"answer_tokens", generation.stats.answer_tokens},
            {"ttft_ms", generation.stats.ttft_seconds * 1000},
            {"prefill_tokens_per_second", generation.prefill_rate()},
            {"decode_tokens_per_second", generation.decode_rate()},
            {"context", outcome.deployment.context},
            {"exact", conditions.empty()},
            {"exact_conditions", conditions},
            {"model", outcome.deployment.model_name},
            {"nodes", std::move(nodes)},
            {"epoch", outcome.deployment.status.epoch.value},
            {"stages", stages_json(outcome.deployment)}};
  if (generation.logits_hash != 0) {
    json["logits_hash"] = fmt::format("{:016x}", generation.logits_hash);
  }
  return json;
}

Json to_json(const LoadOutcome& outcome) {
  Json json{{"model", outcome.model.value}, {"name", outcome.name}};
  put_text(json, "load_at", outcome.load_at);
  put_text(json, "command", outcome.command);
  if (outcome.deployment) json["deployment"] = to_json(*outcome.deployment);
  return json;
}

Json to_json(const VerifyOutcome& outcome) {
  Json damaged = Json::array();
  for (const VerifyOutcome::Damage& damage : outcome.damaged) {
    damaged.push_back({{"piece", damage.piece}, {"file", damage.file}});
  }
  return {{"model", outcome.model.value},
          {"name", outcome.name},
          {"bytes", outcome.bytes},
          {"damaged", std::move(damaged)}};
}

Json to_json(const GcOutcome& outcome) {
  return {{"bytes_freed", outcome.bytes_freed},
          {"dry_run", outcome.dry_run},
          {"removed", outcome.removed}};
}

Json to_json(const WorkProgress& progress) {
  Json json = Json::object();
  put_text(json, "what", progress.what);
  put_text(json, "name", progress.name);
  json["fraction"] = progress.fraction;
  if (progress.deployment) json["deployment"] = to_json(*progress.deployment);
  return json;
}

Json to_json(const Error& error) {
  return {{"code", error_code_name(error.code())}, {"message", error.message()}};
}

int http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return 400;
    case ErrorCode::kUnauthenticated:
      return 401;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kStalePlan:
      return 409;
    case ErrorCode::kResourceExhausted:
      return 429;
    case ErrorCode::kCancelled:
      return 499;
    case ErrorCode::kCorrupt:
    case ErrorCode::kInternal:
      return 500;
    case ErrorCode::kUnsupported:
      return 501;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kDeadlineExceeded:
      return 504;
  }
  return 500;
}

}  // namespace salvage::admin
