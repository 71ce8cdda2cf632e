#pragma once

// The coordinator: knows who belongs to the cluster, which models there are and where their layers
// lie, places them, and keeps ready the pipelines that answer prompts. All decisions are made by
// the pure state machines of cluster/; this module brings them events and carries out their
// actions (coordinator/README.md has the map).
//
// Threads: one, the *loop*, owns the state machines; everything else posts to it. Public methods
// may be called from any thread but the loop; they wait for the loop, which never waits for a peer
// longer than a second.
// Lifetime: what is passed in by reference outlives the object. The destructor ends all links and
// stages of this coordinator and waits for them.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/invites.h"
#include "coordinator/cluster_info.h"
#include "engine/text.h"
#include "identity/authority.h"
#include "identity/join_code.h"
#include "pipeline/generation.h"
#include "pipeline/handshake.h"
#include "state/state_db.h"
#include "store/piece_store.h"
#include "transport/secure_transport.h"

namespace salvage::coordinator {

struct CoordinatorOptions {
  std::string version;
  std::string llama_pin;
  std::string kernel_fingerprint;
  std::uint32_t wire_version = wire::kWireVersion;
  NodeId self;
  std::string name;           // of this machine, at the first start
  std::uint16_t port = 7420;  // where this machine's door is
  identity::Authority authority;
  std::string cluster_name;
  // Milliseconds since 1970, for how long join codes are good. Nothing else asks what day it is.
  std::function<std::int64_t()> wall_clock_ms;
  // Makes the tokenizer of a vocabulary file: engine::make_llama_text_tools.
  std::function<Result<engine::TextTools>(const std::filesystem::path&)> make_text;
  // From the loop; returns at once. May be empty.
  std::function<void(const ClusterEvent&)> event;
  // Called whenever a key stops being let in: ends its live links on this machine.
  std::function<void(const NodeId&)> shut_out;
};

struct Parts {
  state::StateDb& state;
  store::PieceStore& store;  // this machine's, shared with its agent
  transport::Transport& transport;
  const Clock& clock;
};

struct InviteOptions {
  std::uint32_t uses = 1;
  std::int64_t ttl_ms = std::int64_t{3600} * 1000;
  bool ephemeral = false;
  std::string label;
  std::vector<identity::JoinAddress> addresses;  // of this machine, best first
};
struct OpenInvite {
  std::string code;  // shown once, kept nowhere
  cluster::Invite invite;
  // A shell's line for a machine without the program, made by who serves it; or why there is none.
  std::string download_line;
  std::string no_download;
};

struct LoadWish {
  ModelId model;
  cluster::DeploymentOptions options;
  std::vector<std::string> pins;  // "pi-3=4:8", by node name
  bool context_chosen = false;    // false: what was trained, at most 4096, less if it must
  bool sequences_chosen = false;  // false: four, fewer if the context would have to be shorter
};

// What a command wants answered, and what came of it (gateway/command_answers.h).
struct RunWish {
  std::string model;  // name, id or the beginning of one; empty: the only one that is loaded
  std::string prompt;
  bool chat = false;
  std::uint32_t tokens_max = 256;
  engine::SamplingOptions sampling;
  bool hash_logits = false;  // all logits come back whole and are hashed: for comparing clusters
};
struct RunOutcome {
  pipeline::Generation generation;
  DeploymentInfo deployment;
};

class ClusterPipeline;  // coordinator/cluster_pipeline.h

struct ReadyPipeline {
  std::shared_ptr<ClusterPipeline> pipeline;
  DeploymentInfo deployment;
};

class Coordinator {
 public:
  static Result<std::unique_ptr<Coordinator>> start(CoordinatorOptions options, const Parts& parts);
  virtual ~Coordinator() = default;

  // --- the door: links of roles node, join and data ---
  virtual pipeline::Terms terms(const wire::Hello& hello,
                                const transport::Connection& connection) = 0;
  // Serves a node link until it ends; takes a data link over.
  virtual void admit(std::unique_ptr<transport::Connection> connection,
                     const wire::Hello& hello) = 0;
  virtual bool admits(const NodeId& node) const = 0;  // asked at each handshake; never waits

  // --- members ---
  virtual ClusterInfo cluster() = 0;
  virtual Result<OpenInvite> invite(const InviteOptions& options) = 0;
  virtual std::vector<cluster::Invite> invites() = 0;
  virtual Result<void> revoke_invite(const std::string& id) = 0;
  virtual bool any_invite_open() = 0;
  // Whether a download token (identity/join_code.h) belongs to an open invite.
  virtual bool may_download(std::string_view invite_id, std::string_view token) = 0;
  virtual Result<std::string> rename(const std::string& node, const std::string& name) = 0;
  virtual Result<void> remove(const std::string& node) = 0;

  // --- models ---
  virtual std::vector<ModelInfo> models() = 0;
  virtual Result<ModelId> resolve_model(const std::string& name) = 0;
  // Makes it resident; returns once the wish is on disk. Follow it with deployments().
  virtual Result<void> load(const LoadWish& wish) = 0;
  virtual Result<void> unload(const ModelId& model) = 0;
  // Everywhere in the cluster; a loaded model is refused.
  virtual Result<void> remove_model(const ModelId& model) = 0;
  virtual std::vector<DeploymentInfo> deployments() = 0;

  // --- answers ---
  // The pipeline of a loaded model, by name, id or the beginning of one; empty: the only one that
  // is loaded. `not_found`, or `unavailable` with why it is not ready.
  virtual Result<ReadyPipeline> ready(const std::string& model) = 0;
};

}  // namespace salvage::coordinator
