#pragma once

// For tests: a cluster of two machines with a loaded model and one that isn't, whose secrets
// (addresses, keys) must not be told to everybody.

#include "metrics/glance_json.h"

namespace salvage::metrics {

inline ClusterGlance glance_of_two() {
  coordinator::NodeInfo attic;
  attic.member.node = NodeId{"id-of-attic"};
  attic.member.name = "attic";
  attic.member.state = cluster::MemberState::kOnline;
  attic.member.facts.core_count = 4;
  attic.member.facts.processor = "an old one";
  attic.member.facts.memory_total_bytes = 1000;
  attic.member.facts.memory_free_bytes = 400;
  attic.member.facts.kernel_fingerprint = "secret-kernels";
  attic.member.facts.addresses.push_back({.endpoint = "tls:192.168.1.7:7420"});
  attic.coordinator = true;
  attic.address = "tls:192.168.1.7:7420";
  coordinator::NodeInfo cellar = attic;
  cellar.member.node = NodeId{"id-of-cellar"};
  cellar.member.name = "cellar \"2\"";
  cellar.member.state = cluster::MemberState::kLost;
  cellar.member.reason = "its link to 192.168.1.9 broke";
  cellar.coordinator = false;

  coordinator::DeploymentInfo loaded;
  loaded.model_name = "tiny";
  loaded.status.model = ModelId{"id-of-tiny"};
  loaded.status.state = cluster::DeploymentState::kReady;
  loaded.status.wanted = true;
  loaded.context = 512;
  loaded.sequences = 2;
  loaded.requests_running = 3;
  loaded.requests_queued = 1;
  loaded.working = 0.8;
  loaded.steps = 77;
  for (const coordinator::NodeInfo* node : {&attic, &cellar}) {
    coordinator::StageInfo stage;
    stage.status.placed.node = node->member.node;
    stage.status.placed.name = node->member.name;
    stage.status.placed.layers = {loaded.stages.empty() ? 0U : 3U, loaded.stages.empty() ? 3U : 6U};
    stage.status.state = cluster::StageState::kLoaded;
    stage.status.endpoints = {"tls:192.168.1.7:7421"};
    stage.counters = coordinator::StageCounters{
        .steps = 77, .rows = 90, .busy_us = 1'500'000, .idle_us = 500'000, .rss_bytes = 300};
    stage.busy = 0.4;
    stage.bubble = 0.5;
    loaded.stages.push_back(stage);
  }
  loaded.links.push_back({.from = "attic",
                          .to = "cellar \"2\"",
                          .from_stage = StageIndex{0},
                          .to_stage = StageIndex{1},
                          .bytes_sent = 4096,
                          .bytes_per_second = 100.5,
                          .load = 0.25});

  ClusterGlance glance;
  glance.cluster.name = "home";
  glance.cluster.cluster_id = "id-of-home";
  glance.cluster.version = "1.2";
  glance.cluster.nodes = {attic, cellar};
  glance.deployments = {loaded};
  coordinator::ModelInfo tiny;
  tiny.model = ModelId{"id-of-tiny"};
  tiny.name = "tiny";
  tiny.bytes = 5000;
  tiny.layer_count = 6;
  tiny.complete = true;
  coordinator::ModelInfo other = tiny;
  other.model = ModelId{"id-of-other"};
  other.name = "other";
  glance.models = {tiny, other};
  return glance;
}

}  // namespace salvage::metrics
