#pragma once

// The bodies of administration requests: JSON objects, read strictly. An unknown key is refused and
// named, so that a slip is not silently ignored; so are values of a wrong type or beyond their
// limit. encode() writes what parse reads, for the commands. Pure functions, any thread.
// `invalid_argument` names the key.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "coordinator/coordinator.h"

namespace salvage::admin {

// A prompt may be some megabytes of text, all else is small.
inline constexpr std::size_t kAdminBodyBytesMax = std::size_t{72} << 20;
inline constexpr std::size_t kSmallBodyBytesMax = std::size_t{64} << 10;
inline constexpr int kAdminDepthMax = 8;
inline constexpr std::size_t kPathBytesMax = 4096;
inline constexpr std::size_t kNodesMax = 256;  // numbers of a split, pins

struct InviteRequest {
  std::uint32_t uses = 1;
  std::int64_t ttl_seconds = 3600;
  bool ephemeral = false;
  std::string label;
  friend bool operator==(const InviteRequest&, const InviteRequest&) = default;
};

struct RenameRequest {
  std::string node;  // empty: this machine
  std::string name;
  friend bool operator==(const RenameRequest&, const RenameRequest&) = default;
};

struct LeaveRequest {
  bool forget = false;  // the key as well: a new one is made at the next start
  friend bool operator==(const LeaveRequest&, const LeaveRequest&) = default;
};

struct LoadRequest {
  std::string model;  // name, id, beginning of an id; or `path`
  std::string path;   // of a file on this machine, absolute
  std::vector<std::uint32_t> split;
  std::vector<std::string> pins;  // "pi-3=4:8"
  std::uint32_t context = 0;      // 0: chosen
  std::uint32_t sequences = 0;    // answers at once; 0: chosen
  std::uint32_t threads = 0;      // a stage; 0: each machine's own choice
  std::uint32_t chunk = 0;        // rows of a micro-batch; 0: chosen
  std::string cache_type_k = "q8_0";
  std::string cache_type_v = "q8_0";
  std::string hidden = "f32";
  bool exact = false;
  bool wait = true;        // until it is ready
  bool if_needed = false;  // leave a model alone that is loaded, whatever its options
  // Whether it says anything about where and how, so that a loaded model would be loaded anew.
  bool places() const;
  friend bool operator==(const LoadRequest&, const LoadRequest&) = default;
};

struct GcRequest {
  bool dry_run = false;
  std::uint64_t bytes_max = UINT64_MAX;  // that models which are not loaded may keep
  friend bool operator==(const GcRequest&, const GcRequest&) = default;
};

// A node, an invite or a model: {"node": "pi-3"}. A model may be named by the absolute path of a
// file on this machine.
struct NamedRequest {
  std::string value;
};

Result<InviteRequest> parse_invite(std::string_view body);
Result<RenameRequest> parse_rename(std::string_view body);
Result<LeaveRequest> parse_leave(std::string_view body);
Result<LoadRequest> parse_load(std::string_view body);
Result<GcRequest> parse_gc(std::string_view body);
Result<coordinator::RunWish> parse_run(std::string_view body);
Result<NamedRequest> parse_named(std::string_view body, std::string_view key);

std::string encode(const InviteRequest& request);
std::string encode(const RenameRequest& request);
std::string encode(const LeaveRequest& request);
std::string encode(const LoadRequest& request);
std::string encode(const GcRequest& request);
std::string encode(const coordinator::RunWish& request);
std::string encode_named(std::string_view key, const std::string& value);

}  // namespace salvage::admin
