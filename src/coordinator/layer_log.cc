// The layer table in the log: a line a stage when a plan is ready, and what it did when it is over.

#include "base/log.h"
#include "coordinator/service.h"

namespace salvage::coordinator {
namespace {

constexpr Logger kLog("layers");

}  // namespace

void Service::log_layers(const Entry& entry) const {
  const auto status = entry.deployment.status();
  for (std::size_t i = 0; i < status.stages.size(); ++i) {
    const auto known = entry.stages.find(StageIndex{static_cast<std::uint32_t>(i)});
    if (known == entry.stages.end() || !known->second.loaded) continue;
    const wire::StageLoaded& loaded = *known->second.loaded;
    kLog.info("stage_ready", {{"model", entry.model_name},
                              {"epoch", status.epoch.value},
                              {"stage", i},
                              {"node", status.stages[i].placed.name},
                              {"layer_begin", status.stages[i].placed.layers.begin},
                              {"layer_end", status.stages[i].placed.layers.end},
                              {"weights_bytes", loaded.weights_bytes},
                              {"kv_bytes", loaded.kv_cache_bytes},
                              {"compute_bytes", loaded.compute_bytes},
                              {"checkpoints", loaded.checkpoint_count},
                              {"checkpoint_bytes", loaded.checkpoint_bytes}});
  }
}

void Service::log_work(const Entry& entry) const {
  for (const auto& [index, stage] : entry.stages) {
    if (!stage.counters) continue;
    const StageCounters& counted = *stage.counters;
    kLog.info("stage_served", {{"model", entry.model_name},
                               {"stage", index.value},
                               {"node", stage.node},
                               {"steps", counted.steps},
                               {"busy_us", counted.busy_us},
                               {"idle_us", counted.idle_us},
                               {"bytes_in", counted.bytes_in},
                               {"bytes_out", counted.bytes_out},
                               {"out_busy_us", counted.out_busy_us.value_or(0)}});
  }
}

}  // namespace salvage::coordinator
