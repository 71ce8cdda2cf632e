#pragma once

// Each control message's fields, listed once. visit(key, member, traits) is called for every field;
// encoding, decoding, printing, the table in docs/wire.md and the generator of tests and fuzzers
// are such visitors. A new field goes here and into the struct, nowhere else; it must be optional,
// or the wire version must grow.

#include "wire/control.h"

namespace salvage::wire {

struct FieldTraits {
  bool required = true;
  bool secret = false;  // printed as ***
  bool cut = false;     // prose: cut to kTextBytesMax when sent, where other texts are refused
};
inline constexpr FieldTraits kRequired{};
inline constexpr FieldTraits kOptional{false, false, false};
inline constexpr FieldTraits kSecret{true, true, false};
inline constexpr FieldTraits kProse{false, false, true};

template <typename Message>
struct Of {};

template <typename Visit>
void visit_fields(Of<Hello>, Visit&& visit) {
  visit("wire_version", &Hello::wire_version, kRequired);
  visit("wire_version_min", &Hello::wire_version_min, kRequired);
  visit("llama_pin", &Hello::llama_pin, kRequired);
  visit("kernel_fingerprint", &Hello::kernel_fingerprint, kOptional);
  visit("role", &Hello::role, kRequired);
  visit("epoch", &Hello::epoch, kOptional);
  visit("stage_index", &Hello::stage_index, kOptional);
  visit("auth_token", &Hello::auth_token, kSecret);
}

template <typename Visit>
void visit_fields(Of<HelloReply>, Visit&& visit) {
  visit("accepted", &HelloReply::accepted, kRequired);
  visit("wire_version", &HelloReply::wire_version, kRequired);
  visit("initial_credits", &HelloReply::initial_credits, kOptional);
  visit("error_code", &HelloReply::error_code, kOptional);
  visit("error", &HelloReply::error, kProse);
}

template <typename Visit>
void visit_fields(Of<LoadStage>, Visit&& visit) {
  visit("epoch", &LoadStage::epoch, kRequired);
  visit("stage_index", &LoadStage::stage_index, kRequired);
  visit("stage_count", &LoadStage::stage_count, kRequired);
  visit("weights", &LoadStage::weights, kRequired);
  visit("embedding_table", &LoadStage::embedding_table, kOptional);
  visit("context_per_sequence", &LoadStage::context_per_sequence, kRequired);
  visit("sequence_count_max", &LoadStage::sequence_count_max, kRequired);
  visit("rows_max", &LoadStage::rows_max, kRequired);
  visit("logit_rows_max", &LoadStage::logit_rows_max, kRequired);
  visit("thread_count", &LoadStage::thread_count, kRequired);
  visit("cores", &LoadStage::cores, kOptional);
  visit("cache_type_k", &LoadStage::cache_type_k, kRequired);
  visit("cache_type_v", &LoadStage::cache_type_v, kRequired);
  visit("exact", &LoadStage::exact, kOptional);
  visit("self_check", &LoadStage::self_check, kOptional);
  visit("next_endpoint", &LoadStage::next_endpoint, kRequired);
  visit("next_endpoints", &LoadStage::next_endpoints, kOptional);
  visit("hidden_type", &LoadStage::hidden_type, kRequired);
  visit("credits", &LoadStage::credits, kRequired);
  visit("upstream_node", &LoadStage::upstream_node, kOptional);
  visit("checkpoint_count", &LoadStage::checkpoint_count, kOptional);
}

template <typename Visit>
void visit_fields(Of<StageLoaded>, Visit&& visit) {
  visit("epoch", &StageLoaded::epoch, kRequired);
  visit("stage_index", &StageLoaded::stage_index, kRequired);
  visit("pid", &StageLoaded::pid, kRequired);
  visit("architecture", &StageLoaded::architecture, kRequired);
  visit("layer_begin", &StageLoaded::layer_begin, kRequired);
  visit("layer_end", &StageLoaded::layer_end, kRequired);
  visit("layer_count", &StageLoaded::layer_count, kRequired);
  visit("takes_tokens", &StageLoaded::takes_tokens, kRequired);
  visit("gives_logits", &StageLoaded::gives_logits, kRequired);
  visit("row_width_in", &StageLoaded::row_width_in, kRequired);
  visit("row_width_out", &StageLoaded::row_width_out, kRequired);
  visit("vocabulary_size", &StageLoaded::vocabulary_size, kRequired);
  visit("position_planes", &StageLoaded::position_planes, kRequired);
  visit("can_trim", &StageLoaded::can_trim, kRequired);
  visit("rows_exact_max", &StageLoaded::rows_exact_max, kRequired);
  visit("kernel_fingerprint", &StageLoaded::kernel_fingerprint, kRequired);
  visit("weights_bytes", &StageLoaded::weights_bytes, kOptional);
  visit("kv_cache_bytes", &StageLoaded::kv_cache_bytes, kOptional);
  visit("compute_bytes", &StageLoaded::compute_bytes, kOptional);
  visit("self_checked", &StageLoaded::self_checked, kOptional);
  visit("exact", &StageLoaded::exact, kOptional);
  visit("inexact_condition", &StageLoaded::inexact_condition, kProse);
  visit("nmse", &StageLoaded::nmse, kOptional);
  visit("rows_compared", &StageLoaded::rows_compared, kOptional);
  visit("checkpoint_count", &StageLoaded::checkpoint_count, kOptional);
  visit("checkpoint_bytes", &StageLoaded::checkpoint_bytes, kOptional);
  visit("can_skip", &StageLoaded::can_skip, kOptional);
}

template <typename Visit>
void visit_fields(Of<StageFailed>, Visit&& visit) {
  visit("epoch", &StageFailed::epoch, kRequired);
  visit("stage_index", &StageFailed::stage_index, kRequired);
  visit("step", &StageFailed::step, kOptional);
  visit("code", &StageFailed::code, kRequired);
  visit("message", &StageFailed::message, kProse);
}

template <typename Visit>
void visit_fields(Of<StatsRequest>, Visit&& visit) {
  visit("reset", &StatsRequest::reset, kOptional);
}

template <typename Visit>
void visit_fields(Of<Stats>, Visit&& visit) {
  visit("stage_index", &Stats::stage_index, kRequired);
  visit("steps", &Stats::steps, kRequired);
  visit("rows", &Stats::rows, kRequired);
  visit("busy_us", &Stats::busy_us, kRequired);
  visit("idle_us", &Stats::idle_us, kRequired);
  visit("queue_us", &Stats::queue_us, kRequired);
  visit("bytes_in", &Stats::bytes_in, kRequired);
  visit("bytes_out", &Stats::bytes_out, kRequired);
  visit("rss_bytes", &Stats::rss_bytes, kRequired);
  visit("rss_peak_bytes", &Stats::rss_peak_bytes, kRequired);
  visit("out_timed", &Stats::out_timed, kOptional);
  visit("out_busy_us", &Stats::out_busy_us, kOptional);
}

template <typename Visit>
void visit_fields(Of<Ping>, Visit&& visit) {
  visit("nonce", &Ping::nonce, kRequired);
}

template <typename Visit>
void visit_fields(Of<Pong>, Visit&& visit) {
  visit("nonce", &Pong::nonce, kRequired);
}

template <typename Visit>
void visit_fields(Of<Progress>, Visit&& visit) {
  visit("stage_index", &Progress::stage_index, kRequired);
  visit("fraction", &Progress::fraction, kRequired);
  visit("phase", &Progress::phase, kProse);
}

template <typename Visit>
void visit_fields(Of<Unload>, Visit&& visit) {
  visit("epoch", &Unload::epoch, kRequired);
}

template <typename Visit>
void visit_fields(Of<Shutdown>, Visit&& visit) {
  visit("reason", &Shutdown::reason, kProse);
}

// Calls visit(Of<Message>{}) for each control message, in the order of their type numbers.
template <typename Visit>
void visit_control_messages(Visit&& visit) {
  visit(Of<Hello>{});
  visit(Of<HelloReply>{});
  visit(Of<LoadStage>{});
  visit(Of<StageLoaded>{});
  visit(Of<StageFailed>{});
  visit(Of<StatsRequest>{});
  visit(Of<Stats>{});
  visit(Of<Ping>{});
  visit(Of<Pong>{});
  visit(Of<Progress>{});
  visit(Of<Unload>{});
  visit(Of<Shutdown>{});
}

}  // namespace salvage::wire
