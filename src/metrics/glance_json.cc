#include "metrics/glance_json.h"

#include <algorithm>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "api/known_json.h"
#include "base/ids.h"

namespace salvage::metrics {
namespace {

using api::Json;
using api::put_known;
using api::put_positive;
using api::put_text;

Json range_json(LayerRange layers) {
  return Json::array({layers.begin, layers.end});
}

Json stage_glance(std::size_t index, const coordinator::StageInfo& stage) {
  const cluster::StageStatus& status = stage.status;
  Json json{{"index", index},
            {"machine", status.placed.name},
            {"layers", range_json(status.placed.layers)},
            {"state", cluster::stage_state_name(status.state)}};
  if (status.state == cluster::StageState::kFetching && status.fetch_bytes > 0) {
    json["fetched_bytes"] = status.fetched_bytes;
    json["fetch_bytes"] = status.fetch_bytes;
  }
  if (status.state == cluster::StageState::kLoading) json["load_fraction"] = status.load_fraction;
  json["need_bytes"] = status.placed.need.total_bytes();
  if (stage.counters) json["memory_bytes"] = stage.counters->rss_bytes;
  put_known(json, "busy", stage.busy);
  put_known(json, "bubble", stage.bubble);
  return json;
}

Json link_glance(const coordinator::LinkInfo& link) {
  Json json{{"from", link.from}, {"to", link.to}};
  if (link.from_stage) json["from_stage"] = link.from_stage->value;
  if (link.to_stage) json["to_stage"] = link.to_stage->value;
  json["bytes"] = link.bytes_sent;
  put_known(json, "bytes_per_second", link.bytes_per_second);
  put_known(json, "load", link.load);
  return json;
}

bool is_of_interest(const coordinator::DeploymentInfo& deployment) {
  return deployment.status.wanted || !deployment.stages.empty();
}

void add_deployment(Json& json, const coordinator::DeploymentInfo& deployment) {
  json["state"] = cluster::deployment_state_name(deployment.status.state);
  put_text(json, "reason", deployment.status.reason);
  put_positive(json, "context", deployment.context);
  put_positive(json, "sequences", deployment.sequences);
  json["requests_running"] = deployment.requests_running;
  json["requests_queued"] = deployment.requests_queued;
  put_known(json, "working", deployment.working);
  Json stages = Json::array();
  for (std::size_t i = 0; i < deployment.stages.size(); ++i) {
    stages.push_back(stage_glance(i, deployment.stages[i]));
  }
  json["stages"] = std::move(stages);
  Json links = Json::array();
  for (const coordinator::LinkInfo& link : deployment.links) links.push_back(link_glance(link));
  json["links"] = std::move(links);
}

Json model_glance(const coordinator::ModelInfo& model, const ClusterGlance& glance) {
  Json json{{"name", model.name}, {"bytes", model.bytes}};
  put_positive(json, "layers", model.layer_count);
  json["complete"] = model.complete;
  json["state"] = "unloaded";
  for (const coordinator::DeploymentInfo& one : glance.deployments) {
    if (one.status.model == model.model && is_of_interest(one)) add_deployment(json, one);
  }
  return json;
}

// What a machine does in all pipelines. Its processor is one, so shares add up.
struct MachineWork {
  Json layers = Json::array();
  std::optional<double> busy;
  std::uint64_t memory_bytes = 0;
  std::optional<double> sent_per_second;
  std::optional<double> received_per_second;
};

void add_to(std::optional<double>& sum, const std::optional<double>& more) {
  if (more) sum = sum.value_or(0) + *more;
}

MachineWork work_of(const cluster::Member& machine, const ClusterGlance& glance) {
  MachineWork work;
  for (const coordinator::DeploymentInfo& deployment : glance.deployments) {
    for (std::size_t i = 0; i < deployment.stages.size(); ++i) {
      const coordinator::StageInfo& stage = deployment.stages[i];
      if (stage.status.placed.node != machine.node) continue;
      work.layers.push_back({{"model", deployment.model_name},
                             {"stage", i},
                             {"layers", range_json(stage.status.placed.layers)}});
      add_to(work.busy, stage.busy);
      if (stage.counters) work.memory_bytes += stage.counters->rss_bytes;
    }
    for (const coordinator::LinkInfo& link : deployment.links) {
      if (link.from == link.to) continue;  // never leaves the machine
      if (link.from == machine.name) add_to(work.sent_per_second, link.bytes_per_second);
      if (link.to == machine.name) add_to(work.received_per_second, link.bytes_per_second);
    }
  }
  if (work.busy) work.busy = std::min(*work.busy, 1.0);
  return work;
}

Json machine_glance(const coordinator::NodeInfo& node, const ClusterGlance& glance) {
  const cluster::Member& member = node.member;
  const cluster::NodeFacts& facts = member.facts;
  Json json{{"name", member.name},
            {"state", cluster::member_state_name(member.state)},
            {"coordinator", node.coordinator}};
  put_positive(json, "cores", facts.core_count);
  put_text(json, "processor", facts.processor);
  put_known(json, "memory_total_bytes", facts.memory_total_bytes);
  if (member.state == cluster::MemberState::kOnline && facts.memory_total_bytes &&
      facts.memory_free_bytes) {
    json["memory_used_bytes"] =
        *facts.memory_total_bytes - std::min(*facts.memory_total_bytes, *facts.memory_free_bytes);
  }
  MachineWork work = work_of(member, glance);
  put_positive(json, "stages_memory_bytes", work.memory_bytes);
  json["layers"] = std::move(work.layers);
  put_known(json, "busy", work.busy);
  put_known(json, "sent_bytes_per_second", work.sent_per_second);
  put_known(json, "received_bytes_per_second", work.received_per_second);
  return json;
}

}  // namespace

Json to_json(const ClusterGlance& glance) {
  Json machines = Json::array();
  for (const coordinator::NodeInfo& node : glance.cluster.nodes) {
    machines.push_back(machine_glance(node, glance));
  }
  Json models = Json::array();
  for (const coordinator::ModelInfo& model : glance.models) {
    models.push_back(model_glance(model, glance));
  }
  Json json{{"object", "cluster"}, {"name", glance.cluster.name}};
  put_text(json, "version", glance.cluster.version);
  json["machines"] = std::move(machines);
  json["models"] = std::move(models);
  return json;
}

Json to_json(const RequestRecord& record) {
  const RequestFacts& facts = record.facts;
  const auto rounded = [](double ms) {
    return static_cast<double>(static_cast<std::int64_t>(ms * 1000)) / 1000;
  };
  Json json{{"id", facts.id},
            {"endpoint", facts.asked()},
            {"model", facts.model},
            {"state", cluster::request_state_name(record.state)},
            {"created_ms", facts.begun_unix_ms},
            {"stream", facts.stream},
            {"answers", facts.answers}};
  put_text(json, "who", facts.who);
  put_positive(json, "queue_place", record.queue_place);
  json["queue_ms"] = rounded(record.queue_ms);
  json["prefill_ms"] = rounded(record.prefill_ms);
  json["decode_ms"] = rounded(record.decode_ms);
  json["total_ms"] = rounded(record.total_ms);
  json["prompt_tokens"] = facts.prompt_tokens;
  json["read_tokens"] = record.read_tokens;
  json["cached_tokens"] = record.cached_tokens;
  json["answer_tokens"] = record.answer_tokens;
  put_positive(json, "prefill_tokens_per_second", rounded(record.prefill_rate()));
  put_positive(json, "decode_tokens_per_second", rounded(record.decode_rate()));
  json["machines"] = facts.machines;
  put_text(json, "finish", record.finish);
  put_text(json, "error", record.error);
  return json;
}

Json requests_json(std::span<const RequestRecord> records) {
  std::uint32_t queued = 0;
  std::uint32_t prefilling = 0;
  std::uint32_t decoding = 0;
  Json data = Json::array();
  for (const RequestRecord& record : records) {
    queued += record.state == cluster::RequestState::kQueued ? 1 : 0;
    prefilling += record.state == cluster::RequestState::kPrefill ? 1 : 0;
    decoding += record.state == cluster::RequestState::kDecode ? 1 : 0;
    data.push_back(to_json(record));
  }
  Json json{{"object", "list"}};
  json["data"] = std::move(data);
  json["queued"] = queued;
  json["prefill"] = prefilling;
  json["decode"] = decoding;
  return json;
}

}  // namespace salvage::metrics
