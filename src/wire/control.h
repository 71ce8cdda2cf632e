#pragma once

// Control messages: joining, loading, statistics, shutting down. Rare and small, so their bodies
// are CBOR maps. wire/control_fields.h lists each message's fields once; encoding, decoding,
// printing and the generators of tests and fuzzers all follow that list. A reader ignores keys that
// it does not know and refuses a message that lacks a required one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "wire/frame.h"
#include "wire/hidden.h"

namespace salvage::wire {

// What a connection is for. Between machines each needs a member's certificate, but kJoin.
enum class LinkRole : std::uint8_t {
  kControl = 0,  // an agent to its stage worker
  kData = 1,     // micro-batches and results
  kNode = 2,     // an agent to its coordinator (wire/cluster.h)
  kWeights = 3,  // pieces, to whoever has them (wire/blob.h)
  kJoin = 4,     // a machine that wants to become a member
};

// "control", "data", "node", "weights", "join".
std::string_view link_role_name(LinkRole role);

// First frame on every connection, from the side that connected.
struct Hello {
  static constexpr FrameType kType = FrameType::kHello;
  std::uint32_t wire_version = kWireVersion;
  std::uint32_t wire_version_min = kWireVersionMin;
  std::string llama_pin;           // "v0.4.0"; different pins are refused by name of both
  std::string kernel_fingerprint;  // informs: a different one costs bit identity, not the link
  LinkRole role = LinkRole::kControl;
  std::uint64_t epoch = 0;
  std::uint32_t stage_index = 0;
  std::string auth_token;  // 64 hex digits; compared in constant time, never printed
  friend bool operator==(const Hello&, const Hello&) = default;
};

struct HelloReply {
  static constexpr FrameType kType = FrameType::kHelloReply;
  bool accepted = false;
  std::uint32_t wire_version = kWireVersion;  // what both sides write from now on
  std::uint32_t initial_credits = 0;          // data links: micro-batches that may be sent at once
  std::string error_code;                     // if refused: error_code_name()
  std::string error;
  friend bool operator==(const HelloReply&, const HelloReply&) = default;
};

struct LoadStage {
  static constexpr FrameType kType = FrameType::kLoadStage;
  std::uint64_t epoch = 0;
  std::uint32_t stage_index = 0;
  std::uint32_t stage_count = 1;
  std::string weights;          // path on the stage's machine
  std::string embedding_table;  // empty: none
  std::uint32_t context_per_sequence = 0;
  std::uint32_t sequence_count_max = 1;
  std::uint32_t rows_max = 1;
  std::uint32_t logit_rows_max = 1;
  std::uint32_t thread_count = 1;
  std::vector<std::uint32_t> cores;
  std::string cache_type_k;  // "q8_0", "f16"
  std::string cache_type_v;
  bool exact = false;
  bool self_check = true;
  std::string next_endpoint;  // where micro-batches, or the last stage's results, go
  std::vector<std::string>
      next_endpoints;  // more addresses of the same, best first; tried in order
  HiddenType hidden_type = HiddenType::kF32;  // of the outgoing link
  std::uint32_t credits = 0;                  // to grant to the stage before this one
  // The only node that may open the data link; empty: somebody on this machine.
  std::string upstream_node;
  std::uint32_t checkpoint_count = 0;  // saved states to hold room for, if the model needs any
  friend bool operator==(const LoadStage&, const LoadStage&) = default;
};

struct StageLoaded {
  static constexpr FrameType kType = FrameType::kStageLoaded;
  std::uint64_t epoch = 0;
  std::uint32_t stage_index = 0;
  std::uint64_t pid = 0;
  std::string architecture;
  std::uint32_t layer_begin = 0;
  std::uint32_t layer_end = 0;
  std::uint32_t layer_count = 0;
  bool takes_tokens = false;
  bool gives_logits = false;
  std::uint32_t row_width_in = 0;
  std::uint32_t row_width_out = 0;
  std::uint32_t vocabulary_size = 0;
  std::uint32_t position_planes = 1;
  bool can_trim = true;
  std::uint32_t rows_exact_max = 0;
  std::string kernel_fingerprint;
  std::uint64_t weights_bytes = 0;
  std::uint64_t kv_cache_bytes = 0;
  std::uint64_t compute_bytes = 0;
  bool self_checked = false;  // the four below mean something
  bool exact = false;
  std::string inexact_condition;
  double nmse = 0;
  std::uint32_t rows_compared = 0;
  // Saved states that the stage has room for. 0 also where it knows no save and restore.
  std::uint32_t checkpoint_count = 0;
  std::uint64_t checkpoint_bytes = 0;  // of one
  bool can_skip = false;               // knows skip frames (wire/skip.h)
  friend bool operator==(const StageLoaded&, const StageLoaded&) = default;
};

// A stage that cannot load, or a step that failed. After `internal` the stage is gone.
struct StageFailed {
  static constexpr FrameType kType = FrameType::kStageFailed;
  std::uint64_t epoch = 0;
  std::uint32_t stage_index = 0;
  std::uint64_t step = 0;  // 0: not about one step
  std::string code;        // error_code_name()
  std::string message;
  friend bool operator==(const StageFailed&, const StageFailed&) = default;
};

struct StatsRequest {
  static constexpr FrameType kType = FrameType::kStatsRequest;
  bool reset = false;  // start counting again afterwards
  friend bool operator==(const StatsRequest&, const StatsRequest&) = default;
};

struct Stats {
  static constexpr FrameType kType = FrameType::kStats;
  std::uint32_t stage_index = 0;
  std::uint64_t steps = 0;
  std::uint64_t rows = 0;
  std::uint64_t busy_us = 0;   // computing
  std::uint64_t idle_us = 0;   // waiting for a micro-batch
  std::uint64_t queue_us = 0;  // micro-batches waiting for compute, summed
  std::uint64_t bytes_in = 0;  // over the data links, since they stand
  std::uint64_t bytes_out = 0;
  std::uint64_t rss_bytes = 0;
  std::uint64_t rss_peak_bytes = 0;
  bool out_timed = false;         // the next is known
  std::uint64_t out_busy_us = 0;  // while something was under way to the next stage
  friend bool operator==(const Stats&, const Stats&) = default;
};

struct Ping {
  static constexpr FrameType kType = FrameType::kPing;
  std::uint64_t nonce = 0;
  friend bool operator==(const Ping&, const Ping&) = default;
};

struct Pong {
  static constexpr FrameType kType = FrameType::kPong;
  std::uint64_t nonce = 0;  // the Ping's
  friend bool operator==(const Pong&, const Pong&) = default;
};

// While a stage loads.
struct Progress {
  static constexpr FrameType kType = FrameType::kProgress;
  std::uint32_t stage_index = 0;
  double fraction = 0;  // 0..1
  std::string phase;    // "weights", "self_check"
  friend bool operator==(const Progress&, const Progress&) = default;
};

// Give the model back, keep the process.
struct Unload {
  static constexpr FrameType kType = FrameType::kUnload;
  std::uint64_t epoch = 0;
  friend bool operator==(const Unload&, const Unload&) = default;
};

// End the process.
struct Shutdown {
  static constexpr FrameType kType = FrameType::kShutdown;
  std::string reason;
  friend bool operator==(const Shutdown&, const Shutdown&) = default;
};

// The three below exist for each message above; control.cc instantiates them.

// Replaces `body`. `invalid_argument` if a string or list is longer than its limit.
template <typename Message>
Result<void> encode_control(const Message& message, std::vector<std::byte>& body);

// `corrupt` for bytes that are not a CBOR map of the right types within the limits.
template <typename Message>
Result<Message> decode_control(std::span<const std::byte> body);

// One line for logs: "stats stage_index=1 steps=20 ..."; secrets print as "***".
template <typename Message>
std::string describe(const Message& message);

struct LocalVersion {
  std::string llama_pin;
  std::string auth_token;
  PlanEpoch epoch;                            // checked on data links only
  std::uint32_t wire_version = kWireVersion;  // the highest to speak; tests lower it
  bool certificate_suffices = false;          // the link has proved who the peer is
};

// The answer that a listener owes to a Hello: versions and pin by name of both, token in constant
// time, epoch of data links. `initial_credits` goes into an accepting reply.
HelloReply answer_hello(const Hello& hello, const LocalVersion& local,
                        std::uint32_t initial_credits);

// The other side's view: nothing if accepted, else the listener's refusal as an Error.
Result<void> check_hello_reply(const HelloReply& reply);

// A code by its wire name; `internal` for names that this version does not know.
ErrorCode parse_error_code(std::string_view name);

}  // namespace salvage::wire
