#pragma once

// Decides from which machine which bytes of which piece are asked, so that all sources work at once
// and a cut range goes on where it stopped. A pure state machine: events in, actions out, no clock,
// no sockets, no disk. One FetchPlan is one fetch; the caller carries its actions out and reports.
//
// Thread rule: one thread. Failure: the fetch always ends, as FetchEnded says: all pieces stored,
// `unavailable` when nobody left has a piece, `corrupt` when nobody's bytes verify.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"

namespace salvage::store {

struct WantedPiece {
  PieceDigest digest;
  std::string name;  // for messages: "layer 7"
  std::uint64_t bytes = 0;
  std::uint64_t have = 0;  // bytes from its beginning that are on disk
};

struct FetchLimits {
  // One request: a tenth of a second on a 100 Mbit/s link, so that other traffic gets its turn.
  std::uint64_t chunk_bytes = std::uint64_t{1} << 20;
  std::uint32_t requests_per_source = 4;  // enough to keep a link busy over any LAN's delay
  // How far ahead of a piece's first missing byte is asked; what comes early waits in memory
  // (store/piece_writer.h).
  std::uint64_t window_bytes = std::uint64_t{16} << 20;
  Duration stall = std::chrono::seconds(20);              // without a byte: the source has stalled
  Duration pause_first = std::chrono::milliseconds(500);  // after a failure, doubled each time
  Duration pause_max = std::chrono::seconds(15);
  std::uint32_t failures_max = 8;                   // in a row: the source is given up
  std::uint32_t rejections_max = 5;                 // of one piece: the fetch is given up
  Duration source_wait = std::chrono::seconds(30);  // for somebody who has what is missing
};

// Request ids never repeat within a plan. An answer to a dropped request is ignored.
struct AskRange {
  std::uint64_t request = 0;
  NodeId source;
  PieceDigest piece;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
struct DropRequest {
  std::uint64_t request = 0;
  NodeId source;
};
// All bytes are there: verify, and report piece_stored() or piece_rejected().
struct FinishPiece {
  PieceDigest piece;
};
struct FetchEnded {
  std::optional<Error> error;  // none: every piece is stored
};
using FetchAction = std::variant<AskRange, DropRequest, FinishPiece, FetchEnded>;
using FetchActions = std::vector<FetchAction>;

struct FetchTotals {
  std::uint64_t bytes_total = 0;
  std::uint64_t bytes_done = 0;     // of bytes_total; falls when a piece is rejected
  std::uint64_t bytes_resumed = 0;  // were here at the beginning
  std::uint32_t pieces_total = 0;
  std::uint32_t pieces_stored = 0;
  std::map<NodeId, std::uint64_t> bytes_by_source;  // received, rejected ones included
};

class FetchPlan {
 public:
  explicit FetchPlan(std::vector<WantedPiece> wanted, FetchLimits limits = {});

  // --- events ---
  // A source, or what a known one has now. One that was removed or given up starts anew.
  FetchActions add_source(const NodeId& source, const std::set<PieceDigest>& has, TimePoint now);
  FetchActions remove_source(const NodeId& source, TimePoint now);  // it is gone for now
  // The next bytes of a request have come and are with the writer.
  FetchActions received(std::uint64_t request, std::uint64_t bytes, TimePoint now);
  FetchActions request_failed(std::uint64_t request, TimePoint now);
  FetchActions piece_stored(const PieceDigest& piece, TimePoint now);
  FetchActions piece_rejected(const PieceDigest& piece, TimePoint now);  // it starts from 0 again
  FetchActions tick(TimePoint now);                                      // once a second or so

  bool ended() const { return ended_; }
  const FetchTotals& totals() const { return totals_; }

 private:
  enum class Phase { kOpen, kFinishing, kStored, kGivenUp };
  struct PieceState {
    WantedPiece wanted;
    Phase phase = Phase::kOpen;
    std::uint64_t joined = 0;                        // everything before it has come
    std::map<std::uint64_t, std::uint64_t> early;    // [begin, end) that came before their turn
    std::map<std::uint64_t, std::uint64_t> unasked;  // [begin, end)
    std::map<NodeId, std::uint32_t> workers;         // requests in flight by source
    std::set<NodeId> contributors;                   // of the bytes since the last start from 0
    std::set<NodeId> distrusted;                     // sent it alone, and it did not verify
    std::uint32_t rejections = 0;
  };
  struct SourceState {
    std::set<PieceDigest> has;
    std::set<std::uint64_t> requests;
    std::uint32_t failures = 0;  // in a row
    bool given_up = false;
    TimePoint paused_until{};
    TimePoint heard{};  // the last byte, or the first request after none
    PieceDigest current;
  };
  struct Request {
    NodeId source;
    PieceDigest piece;
    std::uint64_t next = 0;
    std::uint64_t end = 0;
  };

  void schedule(TimePoint now, FetchActions& out);
  void finish_complete(FetchActions& out);
  void fill(const NodeId& id, SourceState& source, TimePoint now, FetchActions& out);
  PieceState* choose(const NodeId& id, const SourceState& source);
  bool askable(const NodeId& id, const SourceState& source, const PieceState& piece) const;
  bool belongs_to_another(const NodeId& id, const PieceState& piece) const;
  bool may_serve(const NodeId& id, const SourceState& source, const PieceState& piece) const;
  void ask(const NodeId& id, SourceState& source, PieceState& piece, FetchActions& out);
  void give_back(std::uint64_t request);
  void drop_requests(const NodeId& id, SourceState& source, FetchActions& out);
  void forgive_own_pause(TimePoint now);
  void count_failure(SourceState& source, TimePoint now) const;
  void check_end(TimePoint now, FetchActions& out);
  void end(std::optional<Error> error, FetchActions& out);
  Error hopeless() const;
  static void put_back(std::map<std::uint64_t, std::uint64_t>& ranges, std::uint64_t begin,
                       std::uint64_t end);

  FetchLimits limits_;
  std::vector<PieceDigest> order_;
  std::map<PieceDigest, PieceState> pieces_;
  std::map<NodeId, SourceState> sources_;
  std::map<std::uint64_t, Request> requests_;
  std::uint64_t next_request_ = 1;
  std::optional<TimePoint> last_event_;
  std::optional<TimePoint> stuck_since_;
  bool ended_ = false;
  FetchTotals totals_;
};

}  // namespace salvage::store
