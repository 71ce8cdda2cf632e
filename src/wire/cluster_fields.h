#pragma once

// The fields of the messages in wire/cluster.h, listed once each (wire/control_fields.h says how
// they are used). Records inside of messages have lists of their own.

#include "wire/cluster.h"
#include "wire/control_fields.h"

namespace salvage::wire {

template <typename Visit>
void visit_fields(Of<JoinRequest>, Visit&& visit) {
  visit("invite", &JoinRequest::invite, kRequired);
  visit("secret", &JoinRequest::secret, kSecret);
  visit("name", &JoinRequest::name, kOptional);
}

template <typename Visit>
void visit_fields(Of<JoinReply>, Visit&& visit) {
  visit("accepted", &JoinReply::accepted, kRequired);
  visit("error_code", &JoinReply::error_code, kOptional);
  visit("error", &JoinReply::error, kProse);
  visit("certificate", &JoinReply::certificate, kOptional);
  visit("authority", &JoinReply::authority, kOptional);
  visit("coordinator", &JoinReply::coordinator, kOptional);
  visit("cluster_name", &JoinReply::cluster_name, kOptional);
  visit("name", &JoinReply::name, kOptional);
  visit("ephemeral", &JoinReply::ephemeral, kOptional);
}

template <typename Visit>
void visit_fields(Of<NodeAddress>, Visit&& visit) {
  visit("endpoint", &NodeAddress::endpoint, kRequired);
  visit("interface", &NodeAddress::interface, kOptional);
  visit("link", &NodeAddress::link, kOptional);
  visit("speed_mbit", &NodeAddress::speed_mbit, kOptional);
}

template <typename Visit>
void visit_fields(Of<NodeFacts>, Visit&& visit) {
  visit("name", &NodeFacts::name, kRequired);
  visit("version", &NodeFacts::version, kRequired);
  visit("instance", &NodeFacts::instance, kRequired);
  visit("kernel_fingerprint", &NodeFacts::kernel_fingerprint, kOptional);
  visit("cpu", &NodeFacts::cpu, kOptional);
  visit("system", &NodeFacts::system, kOptional);
  visit("cores", &NodeFacts::cores, kOptional);
  visit("memory_total_bytes", &NodeFacts::memory_total_bytes, kOptional);
  visit("memory_available_bytes", &NodeFacts::memory_available_bytes, kOptional);
  visit("disk_free_bytes", &NodeFacts::disk_free_bytes, kOptional);
  visit("addresses", &NodeFacts::addresses, kOptional);
  visit("view_version", &NodeFacts::view_version, kOptional);
}

template <typename Visit>
void visit_fields(Of<NodeStatus>, Visit&& visit) {
  visit("memory_available_bytes", &NodeStatus::memory_available_bytes, kRequired);
  visit("disk_free_bytes", &NodeStatus::disk_free_bytes, kRequired);
  visit("load", &NodeStatus::load, kOptional);
}

template <typename Visit>
void visit_fields(Of<MemberRecord>, Visit&& visit) {
  visit("node", &MemberRecord::node, kRequired);
  visit("name", &MemberRecord::name, kRequired);
  visit("state", &MemberRecord::state, kRequired);
  visit("coordinator", &MemberRecord::coordinator, kOptional);
  visit("addresses", &MemberRecord::addresses, kOptional);
}

template <typename Visit>
void visit_fields(Of<ClusterView>, Visit&& visit) {
  visit("version", &ClusterView::version, kRequired);
  visit("cluster_name", &ClusterView::cluster_name, kRequired);
  visit("lost_after_ms", &ClusterView::lost_after_ms, kOptional);
  visit("members", &ClusterView::members, kRequired);
}

template <typename Visit>
void visit_fields(Of<MemberRequest>, Visit&& visit) {
  visit("kind", &MemberRequest::kind, kRequired);
  visit("value", &MemberRequest::value, kOptional);
}

template <typename Visit>
void visit_fields(Of<MemberReply>, Visit&& visit) {
  visit("kind", &MemberReply::kind, kRequired);
  visit("error_code", &MemberReply::error_code, kOptional);
  visit("error", &MemberReply::error, kProse);
}

template <typename Visit>
void visit_fields(Of<Inventory>, Visit&& visit) {
  visit("model", &Inventory::model, kRequired);
  visit("pieces", &Inventory::pieces, kRequired);
}

template <typename Visit>
void visit_fields(Of<FetchSource>, Visit&& visit) {
  visit("node", &FetchSource::node, kRequired);
  visit("endpoints", &FetchSource::endpoints, kRequired);
  visit("pieces", &FetchSource::pieces, kRequired);
}

template <typename Visit>
void visit_fields(Of<FetchOrder>, Visit&& visit) {
  visit("epoch", &FetchOrder::epoch, kRequired);
  visit("model", &FetchOrder::model, kRequired);
  visit("layer_begin", &FetchOrder::layer_begin, kRequired);
  visit("layer_end", &FetchOrder::layer_end, kRequired);
  visit("spare", &FetchOrder::spare, kOptional);
  visit("sources", &FetchOrder::sources, kRequired);
}

template <typename Visit>
void visit_fields(Of<FetchProgress>, Visit&& visit) {
  visit("epoch", &FetchProgress::epoch, kRequired);
  visit("model", &FetchProgress::model, kRequired);
  visit("phase", &FetchProgress::phase, kRequired);
  visit("bytes_done", &FetchProgress::bytes_done, kRequired);
  visit("bytes_total", &FetchProgress::bytes_total, kRequired);
  visit("bytes_resumed", &FetchProgress::bytes_resumed, kOptional);
  visit("error_code", &FetchProgress::error_code, kOptional);
  visit("error", &FetchProgress::error, kProse);
}

template <typename Visit>
void visit_fields(Of<StartStage>, Visit&& visit) {
  visit("epoch", &StartStage::epoch, kRequired);
  visit("stage_index", &StartStage::stage_index, kRequired);
  visit("model", &StartStage::model, kRequired);
  visit("layer_begin", &StartStage::layer_begin, kRequired);
  visit("layer_end", &StartStage::layer_end, kRequired);
  visit("token", &StartStage::token, kSecret);
  visit("remote", &StartStage::remote, kOptional);
}

template <typename Visit>
void visit_fields(Of<StageListening>, Visit&& visit) {
  visit("epoch", &StageListening::epoch, kRequired);
  visit("stage_index", &StageListening::stage_index, kRequired);
  visit("local_endpoint", &StageListening::local_endpoint, kOptional);
  visit("endpoints", &StageListening::endpoints, kOptional);
}

template <typename Visit>
void visit_fields(Of<BlobRequest>, Visit&& visit) {
  visit("kind", &BlobRequest::kind, kRequired);
  visit("name", &BlobRequest::name, kRequired);
  visit("offset", &BlobRequest::offset, kRequired);
  visit("length", &BlobRequest::length, kRequired);
}

template <typename Visit>
void visit_fields(Of<BlobReply>, Visit&& visit) {
  visit("name", &BlobReply::name, kRequired);
  visit("offset", &BlobReply::offset, kRequired);
  visit("total_bytes", &BlobReply::total_bytes, kOptional);
  visit("error_code", &BlobReply::error_code, kOptional);
  visit("error", &BlobReply::error, kProse);
}

// Calls visit(Of<Message>{}) for each cluster message, in the order of their type numbers.
template <typename Visit>
void visit_cluster_messages(Visit&& visit) {
  visit(Of<JoinRequest>{});
  visit(Of<JoinReply>{});
  visit(Of<NodeFacts>{});
  visit(Of<NodeStatus>{});
  visit(Of<ClusterView>{});
  visit(Of<MemberRequest>{});
  visit(Of<MemberReply>{});
  visit(Of<Inventory>{});
  visit(Of<FetchOrder>{});
  visit(Of<FetchProgress>{});
  visit(Of<StartStage>{});
  visit(Of<StageListening>{});
  visit(Of<BlobRequest>{});
  visit(Of<BlobReply>{});
}

// All that has a CBOR body.
template <typename Visit>
void visit_all_messages(Visit&& visit) {
  visit_control_messages(visit);
  visit_cluster_messages(visit);
}

}  // namespace salvage::wire
