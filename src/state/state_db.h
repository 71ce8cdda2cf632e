#pragma once

// What a node, and the coordinator on it, must still know after a restart or a kill -9: SQLite in
// `state.db` of the data folder (WAL, flushed at every commit, 0600). Rows are plain values of this
// header; what they mean is known above. Every method is one transaction: it happened or it didn't.
//
// Thread rule: any thread; calls follow one another.
// Failure: `unavailable` names the process that has the state open; `unsupported` a state written
// by a newer version; `resource_exhausted` a full disk; `permission_denied` a folder that can't be
// written; `corrupt` a damaged file. Messages never carry keys or secrets.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace salvage::state {

// Grows with every change of the tables; older states are migrated when they are opened.
inline constexpr int kSchemaVersion = 3;
// 4 KiB each: 1 GiB. Catalogue entries of a hundred models take some 100 MiB.
inline constexpr std::uint32_t kPageCountMax = 262144;
inline constexpr std::size_t kValueBytesMax = std::size_t{64} << 20;  // of one text or entry

struct NodeIdentity {
  std::string key_pem;  // secret
  std::string certificate_pem;
  std::string authority_pem;  // the authority's certificate; empty before joining
  std::string cluster_id;
  NodeId coordinator;
  std::vector<std::string> coordinator_addresses;  // where it was found last, best first
  std::string name;
  bool ephemeral = false;
  friend bool operator==(const NodeIdentity&, const NodeIdentity&) = default;
};

struct Authority {
  std::string key_pem;  // secret
  std::string certificate_pem;
  std::string cluster_name;
  friend bool operator==(const Authority&, const Authority&) = default;
};

struct MemberRow {
  NodeId node;
  std::string name;
  bool ephemeral = false;
  bool left = false;
  std::string facts;  // JSON, as the coordinator writes it
  friend bool operator==(const MemberRow&, const MemberRow&) = default;
};

struct InviteRow {
  std::string id;
  std::string secret_hash;
  std::string label;
  bool ephemeral = false;
  std::uint32_t uses_left = 0;
  std::uint32_t wrong_tries = 0;
  std::int64_t created_ms = 0;
  std::int64_t expires_ms = 0;
  friend bool operator==(const InviteRow&, const InviteRow&) = default;
};

struct ModelRow {
  ModelId model;
  std::string name;
  std::string entry;  // catalogue entry, any bytes
  friend bool operator==(const ModelRow&, const ModelRow&) = default;
};

// A file on this node from which a model's pieces can be cut.
struct SourceRow {
  ModelId model;
  std::string path;
  friend bool operator==(const SourceRow&, const SourceRow&) = default;
};

// A piece that this node has on disk; the same one may lie in several files.
struct PieceRow {
  PieceDigest piece;
  ModelId model;
  std::string place;  // the file that has it, below the data folder
  std::uint64_t bytes = 0;
  bool verified = false;  // its content was compared with the digest
  friend bool operator==(const PieceRow&, const PieceRow&) = default;
};

struct DeploymentRow {
  ModelId model;
  bool loaded = false;
  std::string options;  // JSON
  std::string home;     // JSON: where its layers lay when it was last ready
  friend bool operator==(const DeploymentRow&, const DeploymentRow&) = default;
};

enum class Counter { kPlanEpoch, kViewVersion };

struct StateOptions {
  std::string command = "up";   // of this process, for whoever finds the state in use
  std::string program_version;  // for a later, older program that must refuse
  std::uint32_t page_count_max = kPageCountMax;
};

class StateDb {
 public:
  // Makes the folder (0700) and the database where they are missing, migrates an older one.
  static Result<std::unique_ptr<StateDb>> open(const std::filesystem::path& folder,
                                               const StateOptions& options);
  virtual ~StateDb() = default;

  // --- this node ---
  virtual Result<std::optional<NodeIdentity>> identity() = 0;
  virtual Result<void> put_identity(const NodeIdentity& identity) = 0;
  // The node left: its membership is forgotten and, if `key_too`, its key.
  virtual Result<void> forget_cluster(bool key_too) = 0;

  // --- the coordinator ---
  virtual Result<std::optional<Authority>> authority() = 0;
  virtual Result<void> put_authority(const Authority& authority) = 0;

  virtual Result<std::vector<MemberRow>> members() = 0;
  virtual Result<void> put_member(const MemberRow& member) = 0;
  // `invite` changed by the same event, so that a code is used exactly when somebody joined.
  virtual Result<void> put_joined(const MemberRow& member, const InviteRow& invite) = 0;
  virtual Result<void> forget_member(const NodeId& node) = 0;
  // Off the list of members and on the list of those refused, at once.
  virtual Result<void> remove_member(const NodeId& node) = 0;
  virtual Result<std::vector<NodeId>> removed() = 0;

  virtual Result<std::vector<InviteRow>> invites() = 0;
  virtual Result<void> put_invite(const InviteRow& invite) = 0;
  virtual Result<void> forget_invite(std::string_view id) = 0;

  // Digests of the keys with which the API may be used.
  virtual Result<std::vector<std::string>> api_keys() = 0;
  virtual Result<void> put_api_key(std::string_view digest) = 0;

  virtual Result<std::vector<DeploymentRow>> deployments() = 0;
  virtual Result<void> put_deployment(const DeploymentRow& deployment) = 0;
  virtual Result<void> forget_deployment(const ModelId& model) = 0;

  // --- models and pieces ---
  virtual Result<std::vector<ModelRow>> models() = 0;
  virtual Result<void> put_model(const ModelRow& model) = 0;
  // With its sources, its deployment and its pieces.
  virtual Result<void> forget_model(const ModelId& model) = 0;

  virtual Result<std::vector<SourceRow>> sources() = 0;
  virtual Result<void> put_source(const SourceRow& source) = 0;
  virtual Result<void> forget_source(const SourceRow& source) = 0;

  virtual Result<std::vector<PieceRow>> pieces() = 0;
  // All or none: a shard's pieces appear together.
  virtual Result<void> put_pieces(const std::vector<PieceRow>& pieces) = 0;
  // Wherever they lay.
  virtual Result<void> forget_pieces(const std::vector<PieceDigest>& pieces) = 0;
  // All pieces of one file, when the file goes.
  virtual Result<void> forget_place(std::string_view place) = 0;

  // --- counters ---
  // `count` consecutive numbers that nobody ever got before, starting with the one returned; from 1
  // on, and growing whatever happens.
  virtual Result<std::uint64_t> reserve(Counter counter, std::uint64_t count) = 0;
  // One number; the disk is touched once in a block.
  virtual Result<std::uint64_t> next(Counter counter) = 0;
};

}  // namespace salvage::state
