// What agents report about fetches and stages, brought to the deployment that it belongs to.

#include <utility>

#include "base/sha256.h"
#include "coordinator/service.h"

namespace salvage::coordinator {
namespace {

// "phase: last words" of a worker's message stand behind "its last words: " (agent/worker_link.cc).
cluster::StageFailure to_failure(const std::string& message) {
  const std::string marker = "; its last words: ";
  const std::size_t at = message.find(marker);
  if (at == std::string::npos) return {message, ""};
  return {message.substr(0, at), message.substr(at + marker.size())};
}

}  // namespace

Entry* Service::entry_of(PlanEpoch epoch) {
  if (epoch == PlanEpoch{}) return nullptr;  // what belongs to no plan
  for (auto& [model, entry] : entries_) {
    if (entry->deployment.epoch() == epoch) return entry.get();
  }
  return nullptr;
}

std::optional<cluster::StageRef> Service::stage_of(const Entry& entry, PlanEpoch epoch,
                                                   const NodeId& node) const {
  const auto status = entry.deployment.status();
  for (std::size_t i = 0; i < status.stages.size(); ++i) {
    if (status.stages[i].placed.node == node) {
      return cluster::StageRef{epoch, {static_cast<std::uint32_t>(i)}};
    }
  }
  return std::nullopt;
}

// Frames of a plan that is over, and of stages that are not the sender's, change nothing.
Result<void> Service::take_stage_frame(const SessionPtr& session, const wire::FrameHeader& header,
                                       std::span<const std::byte> body) {
  if (header.type == wire::FrameType::kInventory) return take_inventory(session, body);
  if (header.type == wire::FrameType::kFetchProgress) return take_fetch(session, body);
  if (header.type == wire::FrameType::kUnload) {
    for (auto& [model, entry] : entries_) {
      act(*entry, entry->deployment.stages_stopped(session->node(), header.epoch));
    }
    return {};
  }
  Entry* const entry = entry_of(header.epoch);
  if (entry == nullptr) return {};
  const auto ref = stage_of(*entry, header.epoch, session->node());
  if (!ref) return {};
  Entry::Stage& stage = entry->stages[ref->stage];
  stage.node = name_of(session->node());
  switch (header.type) {
    case wire::FrameType::kStageListening: {
      ASSIGN_OR_RETURN(auto said, wire::decode_control<wire::StageListening>(body));
      stage.local_endpoint = said.local_endpoint;
      stage.endpoints = said.endpoints;
      act(*entry, entry->deployment.worker_started(*ref, std::move(said.endpoints)));
      return {};
    }
    case wire::FrameType::kProgress: {
      ASSIGN_OR_RETURN(const auto said, wire::decode_control<wire::Progress>(body));
      act(*entry, entry->deployment.load_progress(*ref, said.fraction));
      return {};
    }
    case wire::FrameType::kStageLoaded: {
      ASSIGN_OR_RETURN(stage.loaded, wire::decode_control<wire::StageLoaded>(body));
      act(*entry, entry->deployment.stage_loaded(*ref));
      return {};
    }
    case wire::FrameType::kStageFailed: {
      ASSIGN_OR_RETURN(const auto said, wire::decode_control<wire::StageFailed>(body));
      act(*entry, entry->deployment.stage_failed(*ref, to_failure(said.message)));
      return {};
    }
    case wire::FrameType::kStats: {
      ASSIGN_OR_RETURN(const auto said, wire::decode_control<wire::Stats>(body));
      stage.counters = {.steps = said.steps,
                        .rows = said.rows,
                        .busy_us = said.busy_us,
                        .idle_us = said.idle_us,
                        .bytes_in = said.bytes_in,
                        .bytes_out = said.bytes_out,
                        .rss_bytes = said.rss_bytes,
                        .out_busy_us = {}};
      if (said.out_timed) stage.counters->out_busy_us = said.out_busy_us;
      stage.recent.add(parts_.clock.now(), {.busy_us = said.busy_us,
                                            .bytes_out = said.bytes_out,
                                            .out_busy_us = stage.counters->out_busy_us});
      return {};
    }
    default:
      return fail(ErrorCode::kCorrupt, "an unexpected frame on a node link");
  }
}

Result<void> Service::take_fetch(const SessionPtr& session, std::span<const std::byte> body) {
  ASSIGN_OR_RETURN(const auto said, wire::decode_control<wire::FetchProgress>(body));
  const PlanEpoch epoch{said.epoch};
  const bool ended = said.phase == "done" || said.phase == "failed";
  if (epoch == PlanEpoch{} && ended && session->node() == options_.self) {
    catalogue_ended(ModelId{said.model}, said);
    return {};
  }
  Entry* const entry = entry_of(epoch);
  if (entry == nullptr) return {};
  const auto ref = stage_of(*entry, epoch, session->node());
  if (!ref) return {};
  if (said.phase == "done") {
    act(*entry, entry->deployment.fetch_done(*ref));
  } else if (said.phase == "failed") {
    act(*entry, entry->deployment.fetch_failed(*ref, said.error));
  } else {
    act(*entry, entry->deployment.fetch_progress(*ref, said.bytes_done, said.bytes_total));
  }
  return {};
}

Result<void> Service::take_inventory(const SessionPtr& session, std::span<const std::byte> body) {
  ASSIGN_OR_RETURN(const auto said, wire::decode_control<wire::Inventory>(body));
  if (!is_digest(said.model)) return fail(ErrorCode::kCorrupt, "an inventory of no model");
  std::set<PieceDigest> pieces;
  for (const std::string& piece : said.pieces) {
    if (!is_digest(piece)) return fail(ErrorCode::kCorrupt, "an inventory of no digests");
    pieces.insert(PieceDigest{piece});
  }
  auto& models = inventories_[session->node()];
  if (pieces.empty()) {
    models.erase(ModelId{said.model});
  } else {
    models[ModelId{said.model}] = std::move(pieces);
    order_catalogue(ModelId{said.model});
  }
  return {};
}

}  // namespace salvage::coordinator
