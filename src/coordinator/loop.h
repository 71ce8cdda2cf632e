#pragma once

// The coordinator's loop: one thread that owns the state machines and runs what others post, in
// order. Once a `tick_period` it runs the tick. Thread rule: post() and call() from any thread;
// call() not from the loop itself. Outlives whoever posts.

#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/bounded_queue.h"
#include "base/clock.h"

namespace salvage::coordinator {

class Loop {
 public:
  // More work than this waiting means that the loop is stuck; posters then wait.
  static constexpr std::size_t kWaitingMax = 4096;

  Loop(const Clock& clock, Duration tick_period, std::function<void()> tick)
      : clock_(clock), tick_period_(tick_period), tick_(std::move(tick)) {}
  ~Loop() { stop(); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void start() {
    thread_ = std::thread([this] { run(); });
  }
  // What was posted before still runs; what comes later doesn't.
  void stop() {
    work_.close();
    if (thread_.joinable()) thread_.join();
  }

  // False once the loop has stopped: the work is lost.
  bool post(std::function<void()> work) { return work_.push(std::move(work)); }

  // Runs `work` on the loop and waits for its result; `otherwise` once the loop has stopped.
  template <typename Work, typename Value = std::invoke_result_t<Work>>
  Value call(Work work, Value otherwise) {
    const auto promise = std::make_shared<std::promise<Value>>();
    auto result = promise->get_future();
    const bool posted =
        post([promise, work = std::move(work)]() mutable { promise->set_value(work()); });
    return posted ? result.get() : std::move(otherwise);
  }

 private:
  void run() {
    TimePoint next_tick = clock_.now();
    for (;;) {
      auto work = work_.pop(next_tick);
      if (work) (*work)();
      if (!work && work_.closed()) return;
      if (clock_.now() < next_tick) continue;
      tick_();
      next_tick = deadline_after(clock_.now(), tick_period_);
    }
  }

  const Clock& clock_;
  const Duration tick_period_;
  const std::function<void()> tick_;
  BoundedQueue<std::function<void()>> work_{kWaitingMax};
  std::thread thread_;
};

}  // namespace salvage::coordinator
