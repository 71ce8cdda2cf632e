#pragma once

// The scheduler decides what the pipeline computes next. It is a pure state machine: events in
// (a request, a result, a token), planned micro-batches out; no clock, no thread, no socket, so its
// whole behaviour is tested in microseconds. One thread owns it.
//
// Rules, in this order:
//  1. At most `in_flight_max` steps are under way: more would only wait in queues.
//  2. Decode goes first. With S stages, at most S decode groups are under way, each of
//     ceil(D / S) rows for D decoding requests, so that every stage has a group to work on and no
//     group is needlessly small.
//  3. Prompts fill the rest, in chunks that may all be under way at once; while somebody
//     decodes, at most S chunks, so that a token never waits for more than one chunk a stage. The
//     highest priority goes first, of equals the one with the least left to read, so that a short
//     question doesn't wait for long documents; but younger ones pass nobody over more than
//     kPassedMax times.
//  4. Who waits for a sequence gets one by priority, then age, with the same bound.
//  5. A request computes only what no sequence holds of its prompt, as far as that can be kept
//     (prefix_cache.h).
//  6. Chunks under way of a request that is over are of no use but to a later prompt that begins
//     alike: stages that can leave them out do so, if nobody's sequence was begun with them.
//
// All stages see steps in the order in which next() gave them, and results come back in that order.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/stage_engine.h"
#include "pipeline/prefix_cache.h"

namespace salvage::pipeline {

struct SchedulerLimits {
  std::uint32_t stage_count = 1;
  std::uint32_t sequence_count = 1;
  std::uint32_t context_per_sequence = 4096;  // tokens
  std::uint32_t rows_max = 128;               // rows of one micro-batch
  std::uint32_t logit_rows_max = 16;          // rows of one micro-batch that may want logits
  std::uint32_t in_flight_max = 4;            // steps; at least stage_count
  std::uint32_t chunk_rows = 0;               // 0 = chosen from prompt length and stages
  bool can_trim = true;                       // False: recurrent state, no cutting back
  std::uint32_t checkpoint_count = 0;         // states that every stage has room for, if so
  bool reuse_prefix = true;
  bool can_skip = false;  // Every stage leaves out steps that it is told of in time.
};

// How often younger ones may go before a request that could have gone: chunks of prompts, or
// sequences.
inline constexpr std::uint32_t kPassedMax = 8;

struct Submission {
  RequestId request;
  std::vector<TokenId> prompt;     // not empty
  bool logits_for_prompt = false;  // Every prompt row's logits come back, not the last row's only.
  std::int32_t priority = 0;       // The higher goes first.
  // Tokens of the prompt before the answer's turn: what a template may write differently next time
  // comes behind them. 0: not known.
  std::uint32_t turn = 0;
  bool reuse_prefix = true;  // False: every token of the prompt is computed.
};

// One micro-batch to send, rows in order. `requests[i]` is whose row i is.
struct PlannedStep {
  StepId step;
  std::vector<engine::SequenceOp> ops;
  std::vector<TokenId> tokens;
  std::vector<std::int32_t> positions;
  std::vector<SequenceId> sequences;
  std::vector<std::uint8_t> wants_logits;
  std::vector<RequestId> requests;
};

// A row whose logits have come back.
struct ResultRow {
  RequestId request;
  std::uint32_t position = 0;
  std::uint32_t index = 0;  // among all rows of the step that wanted logits
  bool samples = false;     // The request waits for its next token from these logits.
};

// A chunk of a prompt is through all stages. Both count what was found in the KV cache too.
struct PromptProgress {
  RequestId request;
  std::uint32_t done = 0;   // tokens
  std::uint32_t total = 0;  // of the prompt
};

// What a sequence of the KV cache holds, and for whom.
struct SequenceUse {
  std::uint32_t tokens = 0;          // held, or on their way
  std::optional<RequestId> request;  // unset: idle; the rest then is 0
  std::uint32_t prompt_tokens = 0;
  std::uint32_t read_tokens = 0;    // of the prompt, given to the stages or reused
  std::uint32_t reused_tokens = 0;  // of these
  std::uint32_t answer_tokens = 0;
};

struct StepOutcome {
  std::vector<ResultRow> rows;
  std::optional<PromptProgress> progress;  // of a request that still lives
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  // Queues a request. Fails if its prompt is empty, does not fit the context, or the id is in use.
  Result<void> submit(Submission submission);
  // The next micro-batch, if one may be sent now. Each one returned is under way from here on.
  std::optional<PlannedStep> next();
  // A step's result arrived, or that a stage left it out. Rows whose request is gone are not in the
  // outcome. Out of order, or left out though somebody needs it: `internal`.
  Result<StepOutcome> on_result(StepId step, bool skipped = false);
  // The token chosen for a request; it is computed next. The request must be waiting for it.
  void on_token(RequestId request, TokenId token);
  // The request is over (done, cancelled, failed); its sequence becomes idle and keeps its prefix,
  // as far as all stages have it or will have.
  // Returns the steps under way that stages may now leave out, in order; usually none.
  std::vector<StepId> finish(RequestId request);
  // Forgets every stage's KV cache and all steps under way, then computes every live request again
  // from its tokens (prompt and answer so far). What was sent to the client stays sent.
  void replay();

  // Tokens of prompt and answer so far; 0 if unknown.
  std::uint32_t token_count(RequestId request) const;
  // Prompt tokens that were already in the KV cache when the request started.
  std::uint32_t reused_count(RequestId request) const;
  // Whether it has a sequence, so that its prompt is being read, or read.
  bool has_sequence(RequestId request) const;
  // Who waits for a sequence, in the order in which they would get one as things are. Those for
  // whom one is idle wait for nobody and aren't listed.
  std::vector<RequestId> line() const;
  // Another one whenever line() or has_sequence() may have changed.
  std::uint64_t line_version() const { return line_version_; }
  std::vector<SequenceUse> sequences() const;
  bool has_room(RequestId request) const {
    return token_count(request) < limits_.context_per_sequence;
  }
  std::size_t live_count() const { return requests_.size(); }
  std::size_t in_flight() const { return in_flight_.size(); }
  const SchedulerLimits& limits() const { return limits_; }

 private:
  struct Request {
    std::vector<TokenId> tokens;
    std::uint32_t prompt_count = 0;
    std::uint32_t sent = 0;  // tokens[0 .. sent) are in the KV cache or on their way there
    std::uint32_t reused = 0;
    std::uint32_t chunk_rows = 0;
    std::uint32_t passed = 0;  // times that others went before, in this state
    std::int32_t priority = 0;
    bool logits_for_prompt = false;
    bool waiting = false;  // the logits of its last token are under way
    bool reuse_prefix = true;
    std::uint32_t turn = 0;
    std::optional<std::uint32_t> lane;
    std::deque<std::uint32_t> checkpoints;  // where its state is to be saved, by rising position
    std::uint32_t unsent() const { return static_cast<std::uint32_t>(tokens.size()) - sent; }
    bool decodes() const { return waiting || (unsent() == 1 && sent > 0); }
  };
  struct SentStep {
    StepId step;
    bool decode = false;
    bool forgotten = false;   // replay() made it meaningless
    bool expendable = false;  // stages were told that they may leave it out
    // If it is about one sequence: tokens [begin, end) of that, until that is somebody else's.
    std::optional<std::uint32_t> lane;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::vector<ResultRow> rows;
    std::optional<PromptProgress> progress;
  };

  void admit();
  std::deque<RequestId>::iterator next_in_queue();
  std::optional<RequestId> next_prompt();
  std::uint32_t keep_max(const Request& request) const;
  void place(Request& request, const PrefixStart& start);
  void plan_checkpoints(Request& request, const PrefixStart& start) const;
  std::uint32_t rows_of_chunk(const Request& request) const;
  void save_if_wanted(Request& request);
  std::optional<PlannedStep> next_decode();
  std::optional<PlannedStep> next_chunk();
  void add_row(PlannedStep& step, SentStep& sent, RequestId id, Request& request);
  PlannedStep send(PlannedStep step, SentStep sent);
  std::uint32_t in_flight_of(bool decode) const;
  std::vector<StepId> give_up_steps(RequestId id, std::uint32_t lane);
  bool serves_others(const SentStep& sent, RequestId gone, std::uint32_t lane) const;

  SchedulerLimits limits_;
  std::map<RequestId, Request> requests_;  // by id = by age
  std::deque<RequestId> queue_;            // no lane yet
  PrefixCache cache_;
  std::vector<engine::SequenceOp> ops_;  // to go before the rows of the next step
  std::deque<SentStep> in_flight_;
  std::uint64_t next_step_ = 1;
  std::uint64_t line_version_ = 0;
};

}  // namespace salvage::pipeline
