// Goal: every fetch ends, no byte is asked twice while its answer is awaited, all sources work, and
// bad ones cost only themselves. Method: single cases by hand, and thousands of seeded runs against
// sources that stall, cut, lie and vanish, on a clock that the test moves.

#include "store/fetch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "base/random.h"

namespace salvage::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

const NodeId kA{"a"};
const NodeId kB{"b"};
const PieceDigest kOne{"1"};
const PieceDigest kTwo{"2"};

template <typename Action>
std::vector<Action> all(const FetchActions& actions) {
  std::vector<Action> result;
  for (const FetchAction& action : actions) {
    if (const auto* const one = std::get_if<Action>(&action)) result.push_back(*one);
  }
  return result;
}

const FetchEnded* end_of(const FetchActions& actions) {
  for (const FetchAction& action : actions) {
    if (const auto* const end = std::get_if<FetchEnded>(&action)) return end;
  }
  return nullptr;
}

TimePoint at(Duration time) {
  return TimePoint(time);
}

FetchLimits small() {
  FetchLimits limits;
  limits.chunk_bytes = 10;
  limits.requests_per_source = 2;
  limits.window_bytes = 40;
  return limits;
}

TEST(FetchPlan, asks_a_piece_in_order_a_few_requests_ahead) {
  FetchPlan plan({{kOne, "layer 0", 35, 5}}, small());
  auto asked = all<AskRange>(plan.add_source(kA, {kOne}, at({})));
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[0].offset, 5U);
  EXPECT_EQ(asked[0].bytes, 10U);
  EXPECT_EQ(asked[1].offset, 15U);
  asked = all<AskRange>(plan.received(asked[0].request, 10, at({})));
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].offset, 25U);
  EXPECT_EQ(plan.totals().bytes_done, 15U);
  EXPECT_EQ(plan.totals().bytes_resumed, 5U);
}

TEST(FetchPlan, ends_when_every_piece_is_stored) {
  FetchPlan plan({{kOne, "layer 0", 10, 0}, {kTwo, "layer 1", 10, 10}}, small());
  FetchActions actions = plan.add_source(kA, {kOne, kTwo}, at({}));
  EXPECT_EQ(all<FinishPiece>(actions).size(), 1U);  // all of the second was here
  const auto asked = all<AskRange>(actions);
  ASSERT_EQ(asked.size(), 1U);
  actions = plan.received(asked[0].request, 10, at({}));
  ASSERT_EQ(all<FinishPiece>(actions).size(), 1U);
  EXPECT_EQ(end_of(plan.piece_stored(kOne, at({}))), nullptr);
  actions = plan.piece_stored(kTwo, at({}));
  ASSERT_NE(end_of(actions), nullptr);
  EXPECT_FALSE(end_of(actions)->error);
  EXPECT_TRUE(plan.ended());
  EXPECT_TRUE(plan.tick(at(seconds(1))).empty());
}

TEST(FetchPlan, of_nothing_ends_at_once) {
  FetchPlan plan({}, small());
  const auto actions = plan.tick(at({}));
  ASSERT_NE(end_of(actions), nullptr);
  EXPECT_FALSE(end_of(actions)->error);
}

TEST(FetchPlan, takes_what_only_one_source_has_from_it_first) {
  FetchPlan plan({{kOne, "layer 0", 20, 0}, {kTwo, "layer 1", 20, 0}}, small());
  (void)plan.add_source(kB, {kOne}, at({}));
  const auto asked = all<AskRange>(plan.add_source(kA, {kOne, kTwo}, at({})));
  ASSERT_EQ(asked.size(), 2U);
  for (const AskRange& ask : asked) {
    EXPECT_EQ(ask.source, kA);
    EXPECT_EQ(ask.piece, kTwo);
  }
}

TEST(FetchPlan, lets_sources_without_a_piece_of_their_own_help_with_anothers) {
  FetchPlan plan({{kOne, "layer 0", 40, 0}}, small());
  (void)plan.add_source(kA, {kOne}, at({}));
  const auto asked = all<AskRange>(plan.add_source(kB, {kOne}, at({})));
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[0].offset, 20U);
  EXPECT_EQ(asked[1].offset, 30U);
}

TEST(FetchPlan, asks_no_further_ahead_than_the_window) {
  FetchLimits limits = small();
  limits.requests_per_source = 100;
  FetchPlan plan({{kOne, "layer 0", 1000, 0}}, limits);
  auto asked = all<AskRange>(plan.add_source(kA, {kOne}, at({})));
  EXPECT_EQ(asked.size(), 4U);
  // The second answer does not move the front, the first moves it over both.
  EXPECT_TRUE(all<AskRange>(plan.received(asked[1].request, 10, at({}))).empty());
  EXPECT_EQ(all<AskRange>(plan.received(asked[0].request, 10, at({}))).size(), 2U);
}

TEST(FetchPlan, goes_on_from_another_source_at_the_byte_where_a_range_was_cut) {
  FetchPlan plan({{kOne, "layer 0", 20, 0}}, small());
  const auto asked = all<AskRange>(plan.add_source(kA, {kOne}, at({})));
  (void)plan.add_source(kB, {kOne}, at({}));
  (void)plan.received(asked[0].request, 7, at({}));
  const auto again = all<AskRange>(plan.remove_source(kA, at({})));
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].source, kB);
  EXPECT_EQ(again[0].offset, 7U);
  EXPECT_EQ(again[0].bytes + again[1].bytes, 13U);
  // What comes late from the first is of no account.
  EXPECT_TRUE(plan.received(asked[0].request, 3, at({})).empty());
  EXPECT_EQ(plan.totals().bytes_done, 7U);
}

TEST(FetchPlan, a_source_that_stalls_loses_its_requests_and_pauses) {
  FetchPlan plan({{kOne, "layer 0", 20, 0}}, small());
  const auto asked = all<AskRange>(plan.add_source(kA, {kOne}, at({})));
  for (int second = 0; second < 20; ++second) EXPECT_TRUE(plan.tick(at(seconds(second))).empty());
  const auto actions = plan.tick(at(seconds(20)));
  EXPECT_EQ(all<DropRequest>(actions).size(), 2U);
  EXPECT_TRUE(all<AskRange>(actions).empty());
  EXPECT_TRUE(all<AskRange>(plan.tick(at(seconds(20) + milliseconds(499)))).empty());
  EXPECT_EQ(all<AskRange>(plan.tick(at(seconds(20) + milliseconds(500)))).size(), 2U);
}

TEST(FetchPlan, blames_nobody_when_the_caller_itself_was_held_up) {
  FetchPlan plan({{kOne, "layer 0", 20, 0}}, small());
  const auto asked = all<AskRange>(plan.add_source(kA, {kOne}, at({})));
  EXPECT_TRUE(plan.tick(at({})).empty());
  EXPECT_TRUE(all<DropRequest>(plan.tick(at(seconds(60)))).empty());
  EXPECT_TRUE(all<DropRequest>(plan.received(asked[0].request, 10, at(seconds(70)))).empty());
}

TEST(FetchPlan, a_slow_source_that_sends_now_and_then_has_not_stalled) {
  FetchPlan plan({{kOne, "layer 0", 20, 0}}, small());
  const auto asked = all<AskRange>(plan.add_source(kA, {kOne}, at({})));
  for (int second = 1; second < 150; ++second) {
    if (second % 19 == 0) (void)plan.received(asked[0].request, 1, at(seconds(second)));
    EXPECT_TRUE(all<DropRequest>(plan.tick(at(seconds(second)))).empty());
  }
}

TEST(FetchPlan, pauses_longer_after_each_failure_until_the_source_is_given_up) {
  FetchLimits limits = small();
  limits.requests_per_source = 1;
  limits.failures_max = 4;
  FetchPlan plan({{kOne, "layer 0", 10, 0}}, limits);
  TimePoint now = at({});
  auto asked = all<AskRange>(plan.add_source(kA, {kOne}, now));
  for (const int pause_ms : {500, 1000, 2000}) {
    ASSERT_EQ(asked.size(), 1U) << pause_ms;
    EXPECT_TRUE(all<AskRange>(plan.request_failed(asked[0].request, now)).empty());
    EXPECT_TRUE(all<AskRange>(plan.tick(now + milliseconds(pause_ms - 1))).empty());
    now += milliseconds(pause_ms);
    asked = all<AskRange>(plan.tick(now));
  }
  ASSERT_EQ(asked.size(), 1U);
  (void)plan.request_failed(asked[0].request, now);
  EXPECT_EQ(end_of(plan.tick(now + seconds(29))), nullptr);
  const auto actions = plan.tick(now + seconds(30));
  ASSERT_NE(end_of(actions), nullptr);
  ASSERT_TRUE(end_of(actions)->error);
  EXPECT_EQ(end_of(actions)->error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(end_of(actions)->error->message(), HasSubstr("layer 0"));
}

TEST(FetchPlan, a_broken_link_is_one_failure_however_many_requests_were_on_it) {
  FetchLimits limits = small();
  limits.failures_max = 2;
  FetchPlan plan({{kOne, "layer 0", 40, 0}}, limits);
  const auto asked = all<AskRange>(plan.add_source(kA, {kOne}, at({})));
  ASSERT_EQ(asked.size(), 2U);
  for (const AskRange& ask : asked) (void)plan.request_failed(ask.request, at(milliseconds(1)));
  EXPECT_EQ(all<AskRange>(plan.tick(at(seconds(1)))).size(), 2U);
}

TEST(FetchPlan, waits_for_somebody_who_has_what_is_missing) {
  FetchPlan plan({{kOne, "layer 0", 10, 0}}, small());
  EXPECT_EQ(end_of(plan.tick(at({}))), nullptr);
  EXPECT_EQ(end_of(plan.add_source(kA, {kTwo}, at(seconds(10)))), nullptr);
  EXPECT_EQ(all<AskRange>(plan.add_source(kB, {kOne}, at(seconds(29)))).size(), 1U);
  EXPECT_EQ(end_of(plan.tick(at(seconds(31)))), nullptr);
  EXPECT_EQ(end_of(plan.remove_source(kB, at(seconds(32)))), nullptr);
  const auto actions = plan.tick(at(seconds(62)));
  ASSERT_NE(end_of(actions), nullptr);
  EXPECT_TRUE(end_of(actions)->error);
}

// Fetches one piece whole from whoever is asked, and says who that was.
NodeId fetch_once(FetchPlan& plan, FetchActions actions) {
  NodeId who;
  for (int i = 0; i < 100; ++i) {
    if (!all<FinishPiece>(actions).empty()) return who;
    FetchActions next;
    for (const AskRange& ask : all<AskRange>(actions)) {
      EXPECT_TRUE(who.value.empty() || who == ask.source) << "more than one source at once";
      who = ask.source;
      const FetchActions more = plan.received(ask.request, ask.bytes, at({}));
      next.insert(next.end(), more.begin(), more.end());
    }
    actions = next;
  }
  ADD_FAILURE() << "the piece was never complete";
  return who;
}

TEST(FetchPlan, after_damage_asks_one_source_alone_and_then_another) {
  FetchPlan plan({{kOne, "layer 0", 40, 0}}, small());
  FetchActions actions = plan.add_source(kA, {kOne}, at({}));
  // The first time both work on it: nobody can be blamed.
  FetchActions more = plan.add_source(kB, {kOne}, at({}));
  actions.insert(actions.end(), more.begin(), more.end());
  for (const AskRange& ask : all<AskRange>(actions)) {
    more = plan.received(ask.request, ask.bytes, at({}));
  }
  ASSERT_EQ(all<FinishPiece>(more).size(), 1U);
  const NodeId first = fetch_once(plan, plan.piece_rejected(kOne, at({})));
  const NodeId second = fetch_once(plan, plan.piece_rejected(kOne, at({})));
  EXPECT_NE(first, second);
  EXPECT_NE(end_of(plan.piece_stored(kOne, at({}))), nullptr);
}

TEST(FetchPlan, of_what_is_damaged_everywhere_ends_as_corrupt) {
  FetchPlan plan({{kOne, "layer 0", 10, 0}}, small());
  FetchActions actions = plan.add_source(kA, {kOne}, at({}));
  (void)fetch_once(plan, actions);
  (void)fetch_once(plan, plan.piece_rejected(kOne, at({})));
  EXPECT_EQ(end_of(plan.piece_rejected(kOne, at({}))), nullptr);
  actions = plan.tick(at(seconds(30)));
  ASSERT_NE(end_of(actions), nullptr);
  ASSERT_TRUE(end_of(actions)->error);
  EXPECT_EQ(end_of(actions)->error->code(), ErrorCode::kCorrupt);
  EXPECT_EQ(plan.totals().bytes_done, 0U);
}

TEST(FetchPlan, takes_equal_pieces_once_and_ignores_what_it_did_not_ask) {
  FetchPlan plan({{kOne, "layer 0", 10, 0}, {kOne, "layer 1", 10, 0}}, small());
  EXPECT_EQ(plan.totals().pieces_total, 1U);
  EXPECT_EQ(all<AskRange>(plan.add_source(kA, {kOne}, at({}))).size(), 1U);
  EXPECT_TRUE(plan.received(77, 10, at({})).empty());
  EXPECT_TRUE(plan.request_failed(77, at({})).empty());
  EXPECT_TRUE(plan.piece_stored(kTwo, at({})).empty());
  EXPECT_TRUE(plan.piece_rejected(kOne, at({})).empty());
  EXPECT_TRUE(plan.remove_source(kB, at({})).empty());
}

TEST(FetchPlan, never_counts_more_bytes_than_were_asked) {
  FetchPlan plan({{kOne, "layer 0", 10, 0}}, small());
  const auto asked = all<AskRange>(plan.add_source(kA, {kOne}, at({})));
  EXPECT_EQ(all<FinishPiece>(plan.received(asked[0].request, UINT64_MAX, at({}))).size(), 1U);
  EXPECT_EQ(plan.totals().bytes_done, 10U);
}

// A cluster of sources with a random life, and a receiver that checks what it is told to do.
class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed), plan_(make_pieces(), limits()) {
    for (std::uint64_t i = 0; i < 1 + random_.below(4); ++i) add_source(i);
    good_ = NodeId{"good"};
    std::set<PieceDigest> everything;
    for (const auto& [digest, piece] : pieces_) everything.insert(digest);
    apply(plan_.add_source(good_, everything, now_));
  }

  // The last source is honest and stays, so the fetch must succeed.
  void run() {
    for (int step = 0; step < 20'000 && !plan_.ended(); ++step) {
      now_ += milliseconds(random_.below(400));
      switch (random_.below(12)) {
        case 0:
          remove_source();
          break;
        case 1:
          add_source(random_.below(5));
          break;
        case 2:
          fail_a_request();
          break;
        case 3:
        case 4:
          apply(plan_.tick(now_));
          break;
        default:
          answer();
      }
      verify_pieces();
    }
    ASSERT_TRUE(plan_.ended());
    ASSERT_FALSE(error_) << error_->message();
    EXPECT_EQ(plan_.totals().pieces_stored, pieces_.size());
    EXPECT_EQ(plan_.totals().bytes_done, plan_.totals().bytes_total);
    for (const auto& [digest, piece] : pieces_) EXPECT_TRUE(piece.stored);
  }

 private:
  struct Piece {
    std::uint64_t bytes = 0;
    std::vector<bool> here;   // each byte
    std::vector<bool> wrong;  // came from a liar
    std::vector<bool> awaited;
    bool finishing = false;
    bool stored = false;
  };
  struct Asked {
    AskRange ask;
    std::uint64_t done = 0;
  };

  static FetchLimits limits() {
    FetchLimits limits = small();
    limits.rejections_max = 1000;  // liars come and go here, without end
    return limits;
  }

  std::vector<WantedPiece> make_pieces() {
    std::vector<WantedPiece> wanted;
    for (std::uint64_t i = 0; i < 1 + random_.below(6); ++i) {
      const PieceDigest digest{std::to_string(i)};
      const std::uint64_t bytes = 1 + random_.below(200);
      const std::uint64_t have = random_.below(3) == 0 ? random_.below(bytes + 1) : 0;
      Piece& piece = pieces_[digest];
      piece.bytes = bytes;
      piece.here.assign(bytes, false);
      piece.wrong.assign(bytes, false);
      piece.awaited.assign(bytes, false);
      std::fill_n(piece.here.begin(), have, true);
      wanted.push_back({digest, "piece " + digest.value, bytes, have});
    }
    return wanted;
  }

  void add_source(std::uint64_t number) {
    std::set<PieceDigest> has;
    for (const auto& [digest, piece] : pieces_) {
      if (random_.below(2) == 0) has.insert(digest);
    }
    apply(plan_.add_source(NodeId{std::to_string(number)}, has, now_));
  }

  void remove_source() {
    const NodeId source{std::to_string(random_.below(5))};
    apply(plan_.remove_source(source, now_));
    for (const auto& [request, asked] : asked_) ASSERT_NE(asked.ask.source, source);
  }

  // Node 3 lies about one byte in ten, node 4 never answers.
  void answer() {
    if (asked_.empty()) return;
    auto chosen =
        std::next(asked_.begin(), static_cast<std::ptrdiff_t>(random_.below(asked_.size())));
    Asked& asked = chosen->second;
    if (asked.ask.source.value == "4") return;
    const std::uint64_t request = chosen->first;
    const std::uint64_t count = 1 + random_.below(asked.ask.bytes - asked.done);
    Piece& piece = pieces_.at(asked.ask.piece);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::size_t byte = asked.ask.offset + asked.done + i;
      ASSERT_FALSE(piece.here[byte]) << "byte " << byte << " came twice";
      piece.here[byte] = true;
      piece.awaited[byte] = false;
      piece.wrong[byte] = asked.ask.source.value == "3" && random_.below(10) == 0;
    }
    asked.done += count;
    if (asked.done == asked.ask.bytes) asked_.erase(chosen);
    apply(plan_.received(request, count, now_));
  }

  void fail_a_request() {
    if (asked_.empty()) return;
    const auto chosen = asked_.begin();
    if (chosen->second.ask.source == good_) return;
    const std::uint64_t request = chosen->first;
    forget(request);
    apply(plan_.request_failed(request, now_));
  }

  void verify_pieces() {
    for (auto& [digest, piece] : pieces_) {
      if (!piece.finishing || random_.below(2) == 0) continue;
      piece.finishing = false;
      const bool good =
          std::find(piece.wrong.begin(), piece.wrong.end(), true) == piece.wrong.end();
      piece.stored = good;
      if (!good) piece.here.assign(piece.bytes, false);
      if (!good) piece.wrong.assign(piece.bytes, false);
      apply(good ? plan_.piece_stored(digest, now_) : plan_.piece_rejected(digest, now_));
    }
  }

  void forget(std::uint64_t request) {
    const auto found = asked_.find(request);
    ASSERT_NE(found, asked_.end()) << "a request that isn't there";
    const Asked& asked = found->second;
    Piece& piece = pieces_.at(asked.ask.piece);
    for (std::uint64_t i = asked.done; i < asked.ask.bytes; ++i) {
      piece.awaited[asked.ask.offset + i] = false;
    }
    asked_.erase(found);
  }

  void apply(const FetchActions& actions) {
    for (const FetchAction& action : actions) {
      ASSERT_FALSE(ended_) << "something after the end";
      std::visit([this](const auto& one) { carry_out(one); }, action);
    }
  }
  void carry_out(const AskRange& ask) {
    Piece& piece = pieces_.at(ask.piece);
    ASSERT_GT(ask.bytes, 0U);
    ASSERT_LE(ask.bytes, limits().chunk_bytes);
    ASSERT_LE(ask.offset + ask.bytes, piece.bytes);
    const auto front = static_cast<std::uint64_t>(
        std::find(piece.here.begin(), piece.here.end(), false) - piece.here.begin());
    ASSERT_LE(ask.offset + ask.bytes, front + limits().window_bytes);
    std::size_t in_flight = 1;
    for (const auto& [request, other] : asked_) in_flight += other.ask.source == ask.source;
    ASSERT_LE(in_flight, limits().requests_per_source);
    for (std::uint64_t i = ask.offset; i < ask.offset + ask.bytes; ++i) {
      ASSERT_FALSE(piece.awaited[i]) << "byte " << i << " is asked twice";
      ASSERT_FALSE(piece.here[i]) << "byte " << i << " is here already";
      piece.awaited[i] = true;
    }
    ASSERT_TRUE(asked_.emplace(ask.request, Asked{ask, 0}).second);
  }
  void carry_out(const DropRequest& drop) { forget(drop.request); }
  void carry_out(const FinishPiece& finish) {
    Piece& piece = pieces_.at(finish.piece);
    ASSERT_EQ(std::find(piece.here.begin(), piece.here.end(), false), piece.here.end());
    ASSERT_FALSE(piece.finishing || piece.stored);
    piece.finishing = true;
  }
  void carry_out(const FetchEnded& end) {
    ended_ = true;
    error_ = end.error;
  }

  Random random_;
  std::map<PieceDigest, Piece> pieces_;
  FetchPlan plan_;
  std::map<std::uint64_t, Asked> asked_;
  NodeId good_;
  TimePoint now_{};
  bool ended_ = false;
  std::optional<Error> error_;
};

TEST(FetchPlan, ends_well_with_one_good_source_whatever_the_others_do) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    World world(seed);
    world.run();
    if (::testing::Test::HasFatalFailure() || ::testing::Test::HasNonfatalFailure()) break;
  }
}

}  // namespace
}  // namespace salvage::store
