// Goal: so many answers and no more, and every place comes back. Method: values.

#include "gateway/admission.h"

#include <memory>

#include <gtest/gtest.h>

namespace salvage::gateway {
namespace {

TEST(Admission, lets_in_what_fits_and_takes_places_back) {
  Admission admission(3);
  auto two = admission.enter(2);
  ASSERT_TRUE(two);
  EXPECT_FALSE(admission.enter(2)) << "only one place is left";
  auto one = admission.enter(1);
  EXPECT_TRUE(one);
  EXPECT_FALSE(admission.enter(1));
  EXPECT_EQ(admission.live(), 3U);
  two.reset();
  EXPECT_EQ(admission.live(), 1U);
  EXPECT_TRUE(admission.enter(2));
  EXPECT_EQ(admission.live(), 1U) << "a ticket that is dropped is a place that is free";
}

TEST(Admission, a_ticket_that_was_moved_counts_once) {
  Admission admission(1);
  {
    auto ticket = admission.enter(1);
    const Admission::Ticket moved = std::move(*ticket);
    ticket.reset();
    EXPECT_EQ(admission.live(), 1U);
  }
  EXPECT_EQ(admission.live(), 0U);
}

TEST(Admission, a_ticket_may_outlive_it) {
  auto admission = std::make_unique<Admission>(1);
  auto ticket = admission->enter(1);
  admission.reset();
  ticket.reset();
  EXPECT_FALSE(ticket);
}

}  // namespace
}  // namespace salvage::gateway
