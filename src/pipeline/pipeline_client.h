#pragma once

// The coordinator's end of a pipeline: takes requests, feeds the first stage, hears from the last,
// samples, and reports tokens. It holds no weights and no KV cache; a request's tokens are all that
// is needed to compute it again.
//
// Threads: generate(), cancel(), fail_all(), replay() from any thread. One thread of its own reads
// results, samples and sends what comes next: a token costs one receive, one sample, one send and
// an uncontended lock. Events are delivered one at a time in the order in which they happened, by
// that thread or by one whose call caused some, never with the lock held. A handler may call
// generate() and cancel(); it must not block for long, for it holds up the pipeline.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "engine/text.h"
#include "pipeline/scheduler.h"
#include "transport/transport.h"
#include "wire/micro_batch.h"
#include "wire/skip.h"
#include "wire/step_result.h"

namespace salvage::pipeline {

enum class FinishReason { kStop, kLength, kContextFull, kCancelled };
std::string_view finish_reason_name(FinishReason reason);

struct RequestStats {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t reused_tokens = 0;  // of the prompt, found in the KV cache
  std::uint32_t answer_tokens = 0;
  double queue_seconds = 0;   // submitted until it had a sequence
  double ttft_seconds = 0;    // submitted until the first token was known
  double decode_seconds = 0;  // first token until the last
};

// What a request's owner hears. All are called in order; exactly one of done and failed ends it.
struct RequestHandler {
  // It waits for a sequence: 1, it is the next to get one. Told whenever that changes; never to
  // who needn't wait. May be empty.
  std::function<void(std::uint32_t place)> queued;
  // So many of the prompt's tokens are read; `reused` of them were in the KV cache. The first time
  // when it has got its sequence and only these are. May be empty.
  std::function<void(std::uint32_t done, std::uint32_t total, std::uint32_t reused)> progress;
  std::function<void(TokenId)> token;
  // Just before the token that it is about, if the sampler reports any.
  std::function<void(const engine::Logprobs&)> logprobs;
  // Every row of logits that came back whole, by position; set it with `wants_all_logits`. A replay
  // reports a position again.
  std::function<void(std::uint32_t position, std::span<const float>)> logits;
  std::function<void(FinishReason, const RequestStats&)> done;
  std::function<void(const Error&)> failed;
};

struct GenerateRequest {
  std::vector<TokenId> prompt;
  std::uint32_t answer_tokens_max = 0;  // 0: the prompt is only read (with logits_for_prompt)
  std::unique_ptr<engine::Sampler> sampler;
  std::function<bool(TokenId)> ends;  // such a token ends the answer and is not reported
  bool wants_all_logits = false;
  bool logits_for_prompt = false;  // implies wants_all_logits
  std::int32_t priority = 0;       // the higher goes first (scheduler.h)
  std::uint32_t turn = 0;          // tokens before the answer's turn, 0: not known (scheduler.h)
  bool reuse_prefix = true;        // false: nothing of the KV cache is used again
  RequestHandler handler;
};

struct PipelineClientOptions {
  PlanEpoch epoch;
  SchedulerLimits limits;
  std::uint32_t position_planes = 1;
  std::uint32_t vocabulary_size = 0;
  // Turns "the link ended" into why it ended, by whoever knows the processes behind it.
  std::function<Error(Error)> explain;
};

// Where the time of one step went, for statistics: called on the result thread.
using StepObserver = std::function<void(const wire::StepResult&)>;

class PipelineClient {
 public:
  // `first` leads to the first stage, `results` comes from the last. References outlive the object.
  PipelineClient(transport::Connection& first, transport::Connection& results, const Clock& clock,
                 const PipelineClientOptions& options);
  ~PipelineClient();  // Ends what is live with `cancelled`.
  PipelineClient(const PipelineClient&) = delete;
  PipelineClient& operator=(const PipelineClient&) = delete;

  // Before the first request.
  void observe(StepObserver observer) { observer_ = std::move(observer); }
  Result<RequestId> generate(GenerateRequest request);
  void cancel(RequestId request);
  // The pipeline is broken: every live request, and every later one, fails with this.
  void fail_all(const Error& error);
  // Computes every live request again from its tokens; the answers go on where they were.
  void replay();

  std::vector<SequenceUse> sequences() EXCLUDES(mutex_);
  std::size_t request_count() EXCLUDES(mutex_);                 // that have not ended
  std::uint32_t queued_count() const { return queued_count_; }  // who waits for one
  std::uint64_t step_count() const { return step_count_; }      // that came back
  // For how long, in all, at least one step was under way. Never waits.
  std::uint64_t working_us() const;

 private:
  struct Live {
    GenerateRequest request;
    RequestStats stats;
    TimePoint submitted;
    TimePoint first_token;
    std::uint32_t place = 0;  // in the line, as it was told
    bool begun = false;       // has got a sequence
  };
  std::shared_ptr<Live> make_live(GenerateRequest request);
  void result_loop();
  void credit_loop();
  Result<void> receive_result(transport::IncomingFrame& frame);
  void break_down(Error error) EXCLUDES(mutex_);
  Result<void> take_result() EXCLUDES(mutex_);
  void take_progress(const PromptProgress& progress) REQUIRES(mutex_);
  void take_row(const ResultRow& row) REQUIRES(mutex_);
  TokenId sample(Live& live, std::uint32_t index);
  std::span<const float> logits_row(std::uint32_t index) const;
  void accept(RequestId id, Live& live, TokenId token) REQUIRES(mutex_);
  void end(RequestId id, FinishReason reason) REQUIRES(mutex_);
  void let_go(RequestId id) REQUIRES(mutex_);
  void end_without_token(RequestId id) REQUIRES(mutex_);
  Result<void> pump() REQUIRES(mutex_);
  Result<void> send_steps() REQUIRES(mutex_);
  void tell_line() REQUIRES(mutex_);
  void begin_reading(RequestId id, const std::shared_ptr<Live>& live) REQUIRES(mutex_);
  void note_work() REQUIRES(mutex_);
  wire::LogitsRequest logits_for(const PlannedStep& step) REQUIRES(mutex_);
  void deliver() EXCLUDES(mutex_);
  void deliver_all() EXCLUDES(mutex_);

  transport::Connection& first_;
  transport::Connection& results_;
  const Clock& clock_;
  const PipelineClientOptions options_;
  StepObserver observer_;

  // Result thread only.
  wire::StepResult result_;
  wire::FloatBuffer logits_;

  Mutex mutex_;
  Scheduler scheduler_ GUARDED_BY(mutex_);
  std::map<RequestId, std::shared_ptr<Live>> live_ GUARDED_BY(mutex_);  // shared with queued events
  std::vector<Error> broken_ GUARDED_BY(mutex_);  // empty or why no request can run any more
  std::uint64_t next_request_ GUARDED_BY(mutex_) = 1;
  // What handlers have yet to hear. Whoever adds some and finds nobody delivering, delivers.
  std::deque<std::function<void()>> events_ GUARDED_BY(mutex_);
  bool delivering_ GUARDED_BY(mutex_) = false;
  Condition delivered_;
  std::uint64_t line_told_ GUARDED_BY(mutex_) = 0;  // its version
  std::atomic<std::uint32_t> queued_count_ = 0;
  std::atomic<std::uint64_t> step_count_ = 0;
  std::atomic<std::uint64_t> worked_us_ = 0;        // until all had come back last
  std::atomic<std::int64_t> working_since_us_ = 0;  // on the clock; 0: nothing is under way
  wire::MicroBatch batch_ GUARDED_BY(mutex_);
  wire::Skip skip_ GUARDED_BY(mutex_);
  std::vector<std::byte> body_ GUARDED_BY(mutex_);

  std::thread result_thread_;
  std::thread credit_thread_;
};

}  // namespace salvage::pipeline
