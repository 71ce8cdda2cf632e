// Goal: a closed gate lets nobody in and close() returns only when everybody has left.

#include "base/stop.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace salvage {
namespace {

TEST(Gate, counts_who_is_inside) {
  Gate gate;
  auto first = gate.enter();
  ASSERT_TRUE(first);
  EXPECT_EQ(gate.inside(), 1U);
  Gate::Pass moved = std::move(*first);
  first.reset();
  EXPECT_EQ(gate.inside(), 1U) << "a pass that moved away counts once";
}

TEST(Gate, lets_nobody_in_after_close) {
  Gate gate;
  gate.close();
  EXPECT_FALSE(gate.enter());
}

TEST(Gate, close_waits_for_the_last_one_to_leave) {
  Gate gate;
  std::atomic<bool> left = false;
  std::atomic<bool> closed_too_early = false;
  auto pass = gate.enter();
  ASSERT_TRUE(pass);
  std::thread closer([&] {
    gate.close();
    if (!left) closed_too_early = true;
  });
  while (gate.enter()) std::this_thread::yield();
  left = true;
  pass.reset();
  closer.join();
  EXPECT_FALSE(closed_too_early);
}

}  // namespace
}  // namespace salvage
