#pragma once

// What agents and their coordinator say to each other (docs/cluster.md): joining, who belongs to
// the cluster, what each machine has, what it shall fetch and run. Same codec and rules as
// wire/control.h; the fields stand in wire/cluster_fields.h. Node ids, model ids and digests are 64
// lower-case hex digits: whoever uses one checks that (base/ids.h), the codec only bounds its
// length.

#include <cstdint>
#include <string>
#include <vector>

#include "wire/control.h"

namespace salvage::wire {

// The only thing that a machine without a member's certificate may say. Its public key is the one
// that its TLS handshake proved.
struct JoinRequest {
  static constexpr FrameType kType = FrameType::kJoinRequest;
  std::string invite;  // its id
  std::string secret;  // sent only after the coordinator's fingerprint was compared
  std::string name;    // wished; the reply says which it became
  friend bool operator==(const JoinRequest&, const JoinRequest&) = default;
};

struct JoinReply {
  static constexpr FrameType kType = FrameType::kJoinReply;
  bool accepted = false;
  std::string error_code;
  std::string error;
  std::string certificate;  // PEM
  std::string authority;    // PEM
  std::string coordinator;  // node id
  std::string cluster_name;
  std::string name;  // of the new member
  bool ephemeral = false;
  friend bool operator==(const JoinReply&, const JoinReply&) = default;
};

// One way to reach a machine.
struct NodeAddress {
  std::string endpoint;          // "tls:192.168.1.20:7420"
  std::string interface;         // "eth0"
  std::string link;              // "wired", "wifi", "other"
  std::uint32_t speed_mbit = 0;  // 0: unknown
  friend bool operator==(const NodeAddress&, const NodeAddress&) = default;
};

// First frame of an agent on its node link, and again when one of the facts changes.
struct NodeFacts {
  static constexpr FrameType kType = FrameType::kNodeFacts;
  std::string name;
  std::string version;   // of the program
  std::string instance;  // random, one a process: tells a restart from a clone
  std::string kernel_fingerprint;
  std::string cpu;
  std::string system;
  std::uint32_t cores = 0;
  std::uint64_t memory_total_bytes = 0;
  std::uint64_t memory_available_bytes = 0;
  std::uint64_t disk_free_bytes = 0;
  std::vector<NodeAddress> addresses;  // best first
  std::uint64_t view_version = 0;      // of the cluster view that it knows
  friend bool operator==(const NodeFacts&, const NodeFacts&) = default;
};

// What changes all the time; once every few seconds.
struct NodeStatus {
  static constexpr FrameType kType = FrameType::kNodeStatus;
  std::uint64_t memory_available_bytes = 0;
  std::uint64_t disk_free_bytes = 0;
  double load = 0;  // runnable threads, the system's one-minute average
  friend bool operator==(const NodeStatus&, const NodeStatus&) = default;
};

struct MemberRecord {
  std::string node;
  std::string name;
  std::string state;  // "online", "offline", "lost", "left", "removed"
  bool coordinator = false;
  std::vector<NodeAddress> addresses;
  friend bool operator==(const MemberRecord&, const MemberRecord&) = default;
};

// The cluster as the coordinator sees it, whole; sent when it changes. A node listed as removed or
// left is let in nowhere.
struct ClusterView {
  static constexpr FrameType kType = FrameType::kClusterView;
  std::uint64_t version = 0;  // grows; an older one is ignored
  std::string cluster_name;
  std::uint32_t lost_after_ms = 0;
  std::vector<MemberRecord> members;
  friend bool operator==(const ClusterView&, const ClusterView&) = default;
};

// A member asks for something about itself: "leave", "rename" with the name as `value`, "goodbye"
// when its process ends; or "knows", with a model id, whether the coordinator knows that model. The
// coordinator asks a member to "remove_model". A kind that the other side doesn't know is answered
// `unsupported`.
struct MemberRequest {
  static constexpr FrameType kType = FrameType::kMemberRequest;
  std::string kind;
  std::string value;
  friend bool operator==(const MemberRequest&, const MemberRequest&) = default;
};

struct MemberReply {
  static constexpr FrameType kType = FrameType::kMemberReply;
  std::string kind;
  std::string error_code;  // empty: done
  std::string error;
  friend bool operator==(const MemberReply&, const MemberReply&) = default;
};

// Pieces that a machine holds of a model: all of them, each time one comes or goes.
struct Inventory {
  static constexpr FrameType kType = FrameType::kInventory;
  std::string model;
  std::vector<std::string> pieces;  // digests
  friend bool operator==(const Inventory&, const Inventory&) = default;
};

struct FetchSource {
  std::string node;
  std::vector<std::string> endpoints;  // best first
  std::vector<std::string> pieces;     // digests that it has
  friend bool operator==(const FetchSource&, const FetchSource&) = default;
};

// Have these layers of a model on your disk; no layers: only know the model. The catalogue entry
// and the skeleton are fetched first where they are missing; every source has both.
struct FetchOrder {
  static constexpr FrameType kType = FrameType::kFetchOrder;
  std::uint64_t epoch = 0;
  std::string model;
  std::uint32_t layer_begin = 0;
  std::uint32_t layer_end = 0;
  bool spare = false;  // keep raw, nobody runs them here
  std::vector<FetchSource> sources;
  friend bool operator==(const FetchOrder&, const FetchOrder&) = default;
};

struct FetchProgress {
  static constexpr FrameType kType = FrameType::kFetchProgress;
  std::uint64_t epoch = 0;
  std::string model;
  std::string phase;  // "catalogue", "pieces", "shard", "done", "failed"
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
  std::uint64_t bytes_resumed = 0;  // of bytes_done: were here when the fetch began
  std::string error_code;
  std::string error;
  friend bool operator==(const FetchProgress&, const FetchProgress&) = default;
};

// Start a worker for these layers. What it shall load comes as load_stage once every worker
// listens.
struct StartStage {
  static constexpr FrameType kType = FrameType::kStartStage;
  std::uint64_t epoch = 0;
  std::uint32_t stage_index = 0;
  std::string model;
  std::uint32_t layer_begin = 0;
  std::uint32_t layer_end = 0;
  std::string token;    // of this plan's links
  bool remote = false;  // the stage before is on another machine: listen with TLS as well
  friend bool operator==(const StartStage&, const StartStage&) = default;
};

struct StageListening {
  static constexpr FrameType kType = FrameType::kStageListening;
  std::uint64_t epoch = 0;
  std::uint32_t stage_index = 0;
  std::string local_endpoint;          // for a neighbour on the same machine
  std::vector<std::string> endpoints;  // for others, best first
  friend bool operator==(const StageListening&, const StageListening&) = default;
};

// Bytes [offset, offset + length) of a piece, catalogue entry or skeleton, on a weights link. What
// is asked for is named by its digest alone; entries and skeletons by their model id. Length 0 asks
// how long it is.
struct BlobRequest {
  static constexpr FrameType kType = FrameType::kBlobRequest;
  std::string kind;  // "piece", "skeleton", "entry"
  std::string name;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend bool operator==(const BlobRequest&, const BlobRequest&) = default;
};

// Answers come in the order of their requests; the bytes are the frame's data.
struct BlobReply {
  static constexpr FrameType kType = FrameType::kBlobReply;
  std::string name;
  std::uint64_t offset = 0;
  std::uint64_t total_bytes = 0;  // of the whole blob
  std::string error_code;         // empty: the bytes are there
  std::string error;
  friend bool operator==(const BlobReply&, const BlobReply&) = default;
};

}  // namespace salvage::wire
