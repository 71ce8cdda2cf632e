// Goal: the queue keeps its bound and its order, and close() wakes both sides (run under the preset
// `tsan` too). Method: real threads that can only end if they are woken; no sleeps, so a lost
// wake-up shows as a test that times out.

#include "base/bounded_queue.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage {
namespace {

TEST(BoundedQueue, keeps_the_order_of_one_producer) {
  BoundedQueue<int> queue(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.push(i));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.pop(), i);
}

TEST(BoundedQueue, refuses_what_does_not_fit_and_leaves_it_to_the_caller) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  auto first = std::make_unique<int>(1);
  auto second = std::make_unique<int>(2);
  EXPECT_TRUE(queue.try_push(first));
  EXPECT_FALSE(queue.try_push(second));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(*second, 2);
  EXPECT_EQ(queue.size(), 1U);
}

TEST(BoundedQueue, push_and_pop_give_up_at_a_deadline_that_has_passed) {
  BoundedQueue<int> queue(1);
  const TimePoint passed = SteadyClock().now();
  EXPECT_EQ(queue.pop(passed), std::nullopt);
  EXPECT_TRUE(queue.push(1, passed)) << "there is room: no reason to wait";
  EXPECT_FALSE(queue.push(2, passed));
  EXPECT_EQ(queue.pop(passed), 1);
}

TEST(BoundedQueue, close_wakes_a_consumer_that_waits_for_an_item) {
  BoundedQueue<int> queue(1);
  std::optional<int> got = 1;
  std::thread consumer([&] { got = queue.pop(); });
  queue.close();
  consumer.join();
  EXPECT_EQ(got, std::nullopt);
}

TEST(BoundedQueue, close_wakes_a_producer_that_waits_for_room) {
  BoundedQueue<int> queue(1);
  ASSERT_TRUE(queue.push(1));
  bool pushed = true;
  std::thread producer([&] { pushed = queue.push(2); });
  queue.close();
  producer.join();
  EXPECT_FALSE(pushed);
}

TEST(BoundedQueue, what_is_inside_at_close_can_still_be_taken_out) {
  BoundedQueue<int> queue(2);
  ASSERT_TRUE(queue.push(1));
  ASSERT_TRUE(queue.push(2));
  queue.close();
  int late = 3;
  EXPECT_FALSE(queue.try_push(late));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.try_pop(), 2);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, many_producers_and_consumers_lose_and_double_nothing) {
  constexpr int kThreads = 3;
  constexpr int kItems = 2000;
  BoundedQueue<int> queue(4);
  std::vector<std::atomic<int>> seen(kThreads * kItems);
  std::atomic<bool> over_bound = false;
  std::vector<std::thread> consumers;
  for (int t = 0; t < kThreads; ++t) {
    consumers.emplace_back([&] {
      while (const auto item = queue.pop()) {
        ++seen[static_cast<std::size_t>(*item)];
        if (queue.size() > queue.capacity()) over_bound = true;
      }
    });
  }
  std::vector<std::thread> producers;
  for (int t = 0; t < kThreads; ++t) {
    producers.emplace_back([&, t] {
      for (int i = 0; i < kItems; ++i) queue.push(t * kItems + i);
    });
  }
  for (auto& thread : producers) thread.join();
  queue.close();
  for (auto& thread : consumers) thread.join();
  for (const auto& count : seen) ASSERT_EQ(count, 1);
  EXPECT_FALSE(over_bound);
}

}  // namespace
}  // namespace salvage
