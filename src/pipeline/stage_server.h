#pragma once

// The data plane of one stage: receives micro-batches from the stage before it, computes them, and
// sends what leaves to the stage after it (or, from the last stage, results to the coordinator).
//
// Three threads, each doing one thing, so that a stage computes one micro-batch while it receives
// the next and sends the last:
//   receive thread -> [jobs] -> the thread that called run(), the only one that calls the engine
//                  -> [jobs] -> send thread
// and a fourth that reads the credits that come back from the next stage. Jobs are recycled: after
// the first few micro-batches nothing is allocated.
//
// Bytes a token and hop: 4 x row_width (f32) + about 40; one copy from the engine's tensor to the
// job, none after that. Bounds: `credits` micro-batches wait here at most; the stage before us may
// not send more than it was granted. There is a job for each of them, for one with the engine, one
// computed and one being sent.
//
// A skip (wire/skip.h) is heard while a micro-batch computes, however full the stage is. The
// receive thread hands it on itself and shares the next link with the send thread; it may wait
// while one micro-batch is written, and does not read meanwhile. That ends: whoever is sent a
// micro-batch has granted it, and the last stage's receive thread never sends.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "engine/stage_engine.h"
#include "pipeline/running_time.h"
#include "transport/transport.h"
#include "wire/control.h"
#include "wire/micro_batch.h"
#include "wire/skip.h"
#include "wire/step_result.h"

namespace salvage::pipeline {

struct StageServerOptions {
  PlanEpoch epoch;
  StageIndex stage;
  std::uint32_t credits = 2;             // granted to the stage before us
  std::uint32_t downstream_credits = 0;  // granted to us by the stage after us; unused if last
  std::uint32_t rows_max = 0;
  wire::HiddenType outgoing_type = wire::HiddenType::kF32;
};

class StageServer {
 public:
  // All references outlive the object.
  StageServer(engine::StageEngine& engine, transport::Connection& upstream,
              transport::Connection& downstream, const Clock& clock,
              const StageServerOptions& options);
  ~StageServer();
  StageServer(const StageServer&) = delete;
  StageServer& operator=(const StageServer&) = delete;

  // Serves until a link ends, a step fails, or stop(). Returns why; never success. The step that
  // failed is in failed_step() if the reason is about one.
  Error run();
  StepId failed_step() const { return failed_step_; }

  // Any thread. Ends run() with `cancelled`.
  void stop();

  // Any thread. Counters since the start or the last reset; the process's memory is not ours to
  // say.
  wire::Stats stats(bool reset);

 private:
  struct Job;
  using JobQueue = BoundedQueue<std::unique_ptr<Job>>;

  void receive_loop();
  Result<bool> receive_frame(transport::IncomingFrame& frame);
  Result<void> receive_batch(Job& job, const transport::IncomingFrame& frame);
  Result<void> note_skip(const transport::IncomingFrame& frame);
  Result<void> hand_on_skip();
  bool skips(StepId step);
  Result<void> check(const wire::MicroBatch& batch) const;
  void send_loop();
  Result<void> send_one(Job& job);
  void credit_loop();
  Result<void> wait_for_credit();
  Error compute_loop();
  Result<void> compute_one(Job& job);
  Result<void> make_result(Job& job);
  void leave_out(Job& job) const;
  Result<void> send_downstream(const transport::OutgoingFrame& frame) EXCLUDES(downstream_mutex_);
  void end(Error reason);

  engine::StageEngine& engine_;
  transport::Connection& upstream_;
  transport::Connection& downstream_;
  const Clock& clock_;
  const StageServerOptions options_;

  JobQueue free_;
  JobQueue received_;
  JobQueue computed_;
  StepId failed_step_;
  wire::Skip skip_;                   // receive thread
  std::vector<std::byte> skip_body_;  // receive thread
  Mutex downstream_mutex_;            // one frame at a time: micro-batches and skips

  Mutex mutex_;
  std::vector<Error> reasons_ GUARDED_BY(mutex_);  // the first one is why we ended
  std::uint32_t downstream_credits_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false;
  std::vector<StepId> to_skip_ GUARDED_BY(mutex_);  // rising
  StepId last_begun_ GUARDED_BY(mutex_);
  Condition credit_arrived_;

  struct Counters {
    std::atomic<std::uint64_t> steps{0};
    std::atomic<std::uint64_t> rows{0};
    RunningTime busy;  // computing a step
    RunningTime idle;  // waiting for one, or for the next stage
    std::atomic<std::uint64_t> queue_us{0};
    std::atomic<std::uint32_t> last_send_us{0};
  };
  Counters counters_;
};

}  // namespace salvage::pipeline
