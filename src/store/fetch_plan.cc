// Problem: pieces of very different sizes (a layer, a vocabulary's matrix) lie on machines of very
// different speeds, which come, stall and go. All of them should work until the end, nothing should
// be asked twice, and one bad machine must not keep the rest waiting.
//
// Method. Each source works through one piece at a time, a few requests ahead, so that pieces get
// finished one after another and not all at once. It takes a piece that nobody works on, the rarest
// first: what only one machine has is on the critical path, and that machine should not spend its
// link on what others have too. When no such piece is left it helps with one that others work on;
// then every source is busy until the end. Ranges of a piece are asked in order, within a window
// behind its first missing byte, because the disk file grows at its end and what comes early waits
// in memory. A source that fails or stalls gives its ranges back and pauses, longer each time.
//
// A piece that does not verify says nothing about who sent the wrong byte. So it is fetched again
// from one source alone; if that fails as well the culprit is known, and not asked for it again.
//
// Rejected: assigning ranges to sources beforehand by their speed (it changes while we plan), and
// asking two sources for the same range near the end (on one LAN both share the receiver's link).

#include "store/fetch_plan.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace salvage::store {

FetchPlan::FetchPlan(std::vector<WantedPiece> wanted, FetchLimits limits) : limits_(limits) {
  CHECK(limits_.chunk_bytes > 0 && limits_.window_bytes >= limits_.chunk_bytes);
  for (WantedPiece& piece : wanted) {
    // Two layers may be equal to the bit; they are one piece then.
    if (pieces_.contains(piece.digest)) continue;
    piece.have = std::min(piece.have, piece.bytes);
    totals_.bytes_total += piece.bytes;
    totals_.bytes_done += piece.have;
    totals_.bytes_resumed += piece.have;
    PieceState state;
    state.joined = piece.have;
    if (piece.have < piece.bytes) state.unasked.emplace(piece.have, piece.bytes);
    order_.push_back(piece.digest);
    const PieceDigest digest = piece.digest;
    state.wanted = std::move(piece);
    pieces_.emplace(digest, std::move(state));
  }
  totals_.pieces_total = static_cast<std::uint32_t>(order_.size());
}

FetchActions FetchPlan::add_source(const NodeId& source, const std::set<PieceDigest>& has,
                                   TimePoint now) {
  FetchActions out;
  SourceState& state = sources_[source];
  state.has = has;
  if (state.given_up) {
    state.given_up = false;
    state.failures = 0;
  }
  schedule(now, out);
  return out;
}

FetchActions FetchPlan::remove_source(const NodeId& source, TimePoint now) {
  FetchActions out;
  const auto found = sources_.find(source);
  if (found == sources_.end()) return out;
  drop_requests(source, found->second, out);
  sources_.erase(found);
  schedule(now, out);
  return out;
}

FetchActions FetchPlan::received(std::uint64_t request, std::uint64_t bytes, TimePoint now) {
  FetchActions out;
  forgive_own_pause(now);
  const auto found = requests_.find(request);
  if (found == requests_.end()) return out;
  Request& asked = found->second;
  PieceState& piece = pieces_.at(asked.piece);
  SourceState& source = sources_.at(asked.source);
  const std::uint64_t count = std::min(bytes, asked.end - asked.next);
  put_back(piece.early, asked.next, asked.next + count);
  asked.next += count;
  // What is at the front joins on to the rest.
  if (const auto first = piece.early.begin();
      first != piece.early.end() && first->first == piece.joined) {
    piece.joined = first->second;
    piece.early.erase(first);
  }
  totals_.bytes_done += count;
  totals_.bytes_by_source[asked.source] += count;
  if (count > 0) {
    piece.contributors.insert(asked.source);
    source.heard = now;
    source.failures = 0;
  }
  if (asked.next == asked.end) give_back(request);
  schedule(now, out);
  return out;
}

FetchActions FetchPlan::request_failed(std::uint64_t request, TimePoint now) {
  FetchActions out;
  const auto found = requests_.find(request);
  if (found == requests_.end()) return out;
  SourceState& source = sources_.at(found->second.source);
  // A link that breaks fails all its requests; that is one failure.
  if (now >= source.paused_until) count_failure(source, now);
  give_back(request);
  schedule(now, out);
  return out;
}

FetchActions FetchPlan::piece_stored(const PieceDigest& piece, TimePoint now) {
  FetchActions out;
  const auto found = pieces_.find(piece);
  if (found == pieces_.end() || found->second.phase != Phase::kFinishing) return out;
  found->second.phase = Phase::kStored;
  totals_.pieces_stored += 1;
  schedule(now, out);
  return out;
}

FetchActions FetchPlan::piece_rejected(const PieceDigest& piece, TimePoint now) {
  FetchActions out;
  const auto found = pieces_.find(piece);
  if (found == pieces_.end() || found->second.phase != Phase::kFinishing) return out;
  PieceState& state = found->second;
  // Bytes of an earlier run have no sender here.
  const bool one_sender = state.contributors.size() == 1 && state.rejections > 0;
  if (one_sender) state.distrusted.insert(*state.contributors.begin());
  state.rejections += 1;
  state.contributors.clear();
  state.early.clear();
  state.joined = 0;
  state.unasked = {{0, state.wanted.bytes}};
  totals_.bytes_done -= state.wanted.bytes;
  state.phase = state.rejections >= limits_.rejections_max ? Phase::kGivenUp : Phase::kOpen;
  schedule(now, out);
  return out;
}

// Who calls may have been held up itself, hashing a large piece or asleep with its machine. Answers
// then wait unread, so nobody has stalled.
void FetchPlan::forgive_own_pause(TimePoint now) {
  if (last_event_ && now - *last_event_ > limits_.stall / 2) {
    for (auto& [id, source] : sources_) source.heard = now;
  }
  last_event_ = now;
}

FetchActions FetchPlan::tick(TimePoint now) {
  FetchActions out;
  forgive_own_pause(now);
  for (auto& [id, source] : sources_) {
    if (source.requests.empty() || now - source.heard < limits_.stall) continue;
    drop_requests(id, source, out);
    count_failure(source, now);
  }
  schedule(now, out);
  return out;
}

// What follows from every event: complete pieces, new requests, the end.
void FetchPlan::schedule(TimePoint now, FetchActions& out) {
  if (ended_) return;
  finish_complete(out);
  // In turns, so that the first source doesn't take all there is.
  for (std::uint32_t round = 0; round < limits_.requests_per_source; ++round) {
    for (auto& [id, source] : sources_) {
      if (source.requests.size() <= round) fill(id, source, now, out);
    }
  }
  check_end(now, out);
}

void FetchPlan::finish_complete(FetchActions& out) {
  for (const PieceDigest& digest : order_) {
    PieceState& piece = pieces_.at(digest);
    if (piece.phase != Phase::kOpen || piece.joined < piece.wanted.bytes) continue;
    piece.phase = Phase::kFinishing;
    out.emplace_back(FinishPiece{digest});
  }
}

// One more request for a source, if it may have one.
void FetchPlan::fill(const NodeId& id, SourceState& source, TimePoint now, FetchActions& out) {
  if (source.given_up || now < source.paused_until) return;
  PieceState* const piece = choose(id, source);
  if (piece == nullptr) return;
  if (source.requests.empty()) source.heard = now;
  ask(id, source, *piece, out);
}

FetchPlan::PieceState* FetchPlan::choose(const NodeId& id, const SourceState& source) {
  if (const auto current = pieces_.find(source.current);
      current != pieces_.end() && askable(id, source, current->second)) {
    return &current->second;
  }
  PieceState* best = nullptr;
  std::pair<bool, std::size_t> best_rank;
  for (const PieceDigest& digest : order_) {
    PieceState& piece = pieces_.at(digest);
    if (!askable(id, source, piece)) continue;
    const auto holders =
        static_cast<std::size_t>(std::count_if(sources_.begin(), sources_.end(), [&](auto& other) {
          return may_serve(other.first, other.second, piece);
        }));
    const std::pair rank = {!piece.workers.empty(), holders};
    if (best == nullptr || rank < best_rank) std::tie(best, best_rank) = std::pair(&piece, rank);
  }
  return best;
}

bool FetchPlan::may_serve(const NodeId& id, const SourceState& source,
                          const PieceState& piece) const {
  return !source.given_up && source.has.contains(piece.wanted.digest) &&
         !piece.distrusted.contains(id);
}

// After a rejection one source alone, as long as it can.
bool FetchPlan::belongs_to_another(const NodeId& id, const PieceState& piece) const {
  const auto working = [&](const auto& worker) { return worker.first != id; };
  if (std::any_of(piece.workers.begin(), piece.workers.end(), working)) return true;
  return std::any_of(
      piece.contributors.begin(), piece.contributors.end(), [&](const NodeId& other) {
        const auto source = sources_.find(other);
        return other != id && source != sources_.end() && may_serve(other, source->second, piece);
      });
}

bool FetchPlan::askable(const NodeId& id, const SourceState& source,
                        const PieceState& piece) const {
  if (piece.phase != Phase::kOpen || piece.unasked.empty()) return false;
  if (!may_serve(id, source, piece)) return false;
  if (piece.rejections > 0 && belongs_to_another(id, piece)) return false;
  return piece.unasked.begin()->first - piece.joined < limits_.window_bytes;
}

void FetchPlan::ask(const NodeId& id, SourceState& source, PieceState& piece, FetchActions& out) {
  const auto [begin, free_end] = *piece.unasked.begin();
  const std::uint64_t bytes = std::min(
      {free_end - begin, limits_.chunk_bytes, piece.joined + limits_.window_bytes - begin});
  piece.unasked.erase(piece.unasked.begin());
  if (begin + bytes < free_end) piece.unasked.emplace(begin + bytes, free_end);
  const std::uint64_t request = next_request_++;
  requests_.emplace(request, Request{id, piece.wanted.digest, begin, begin + bytes});
  source.requests.insert(request);
  source.current = piece.wanted.digest;
  piece.workers[id] += 1;
  out.emplace_back(AskRange{request, id, piece.wanted.digest, begin, bytes});
}

// Ends a request; what it didn't bring may be asked again.
void FetchPlan::give_back(std::uint64_t request) {
  const auto found = requests_.find(request);
  const Request& asked = found->second;
  PieceState& piece = pieces_.at(asked.piece);
  if (asked.next < asked.end) put_back(piece.unasked, asked.next, asked.end);
  const auto worker = piece.workers.find(asked.source);
  if (--worker->second == 0) piece.workers.erase(worker);
  sources_.at(asked.source).requests.erase(request);
  requests_.erase(found);
}

void FetchPlan::drop_requests(const NodeId& id, SourceState& source, FetchActions& out) {
  const std::set<std::uint64_t> requests = source.requests;
  for (const std::uint64_t request : requests) {
    out.emplace_back(DropRequest{request, id});
    give_back(request);
  }
}

void FetchPlan::count_failure(SourceState& source, TimePoint now) const {
  constexpr std::uint32_t kDoublingsMax = 16;
  const std::uint32_t doublings = std::min(source.failures, kDoublingsMax);
  source.failures += 1;
  const Duration pause =
      std::min<Duration>(limits_.pause_first * (std::int64_t{1} << doublings), limits_.pause_max);
  source.paused_until = deadline_after(now, pause);
  source.given_up = source.failures >= limits_.failures_max;
}

void FetchPlan::check_end(TimePoint now, FetchActions& out) {
  if (totals_.pieces_stored == totals_.pieces_total) return end(std::nullopt, out);
  bool moving = !requests_.empty();
  bool possible = false;
  for (const auto& [digest, piece] : pieces_) {
    moving = moving || piece.phase == Phase::kFinishing;
    if (piece.phase != Phase::kOpen) continue;
    for (const auto& [id, source] : sources_) {
      possible = possible || may_serve(id, source, piece);
    }
  }
  if (moving || possible) {
    stuck_since_.reset();
    return;
  }
  const bool given_up = std::any_of(pieces_.begin(), pieces_.end(), [](const auto& piece) {
    return piece.second.phase == Phase::kGivenUp;
  });
  if (!stuck_since_) stuck_since_ = now;
  if (given_up || now - *stuck_since_ >= limits_.source_wait) end(hopeless(), out);
}

Error FetchPlan::hopeless() const {
  std::string names;
  std::size_t count = 0;
  bool rejected = false;
  constexpr std::size_t kNamesMax = 5;
  for (const PieceDigest& digest : order_) {
    const PieceState& piece = pieces_.at(digest);
    if (piece.phase == Phase::kStored) continue;
    rejected = rejected || piece.phase == Phase::kGivenUp || !piece.distrusted.empty();
    if (++count <= kNamesMax) names += (names.empty() ? "" : ", ") + piece.wanted.name;
  }
  if (count > kNamesMax) names += fmt::format(" and {} more", count - kNamesMax);
  if (rejected) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} came damaged from every machine that has it; run `salvage verify` "
                             "there",
                             names));
  }
  return Error(ErrorCode::kUnavailable,
               fmt::format("no machine that can be reached has {}; start one that does, or load "
                           "the model again from its file",
                           names));
}

void FetchPlan::end(std::optional<Error> error, FetchActions& out) {
  ended_ = true;
  out.emplace_back(FetchEnded{std::move(error)});
}

// Adds [begin, end), which touches nothing in `ranges` but may join on to its neighbours.
void FetchPlan::put_back(std::map<std::uint64_t, std::uint64_t>& ranges, std::uint64_t begin,
                         std::uint64_t end) {
  if (begin == end) return;
  const auto after = ranges.upper_bound(begin);
  std::uint64_t joined_end = end;
  if (after != ranges.end() && after->first == end) {
    joined_end = after->second;
    ranges.erase(after);
  }
  if (const auto next = ranges.upper_bound(begin); next != ranges.begin()) {
    const auto before = std::prev(next);
    if (before->second == begin) {
      before->second = joined_end;
      return;
    }
  }
  ranges.emplace(begin, joined_end);
}

}  // namespace salvage::store
