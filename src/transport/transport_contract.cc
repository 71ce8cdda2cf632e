#include "transport/transport_contract.h"

#include "wire/hidden.h"

namespace salvage::transport {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransportContract);

TEST_P(TransportContract, frames_of_all_sizes_arrive_in_order_and_unchanged) {
  const std::vector<std::pair<std::size_t, std::size_t>> sizes = {
      {0, 0}, {1, 0}, {0, 1}, {24, 16384}, {100000, 3 << 20}, {5, 0}};
  std::thread sender([&] {
    for (const auto& [body_bytes, data_bytes] : sizes) {
      const auto body = bytes(body_bytes, 1);
      const auto data = bytes(data_bytes, 2);
      ASSERT_TRUE(near->send_frame(frame_of(body, data)));
    }
  });
  IncomingFrame frame;
  for (const auto& [body_bytes, data_bytes] : sizes) {
    const auto received = far->receive_frame(frame, soon());
    ASSERT_TRUE(received) << received.error().message();
    EXPECT_EQ(frame.header.type, wire::FrameType::kMicroBatch);
    EXPECT_EQ(frame.header.epoch.value, 3U);
    EXPECT_EQ(frame.header.step.value, body_bytes);
    EXPECT_EQ(frame.body, bytes(body_bytes, 1));
    std::vector<std::byte> data(data_bytes);
    if (data_bytes > 0) {
      ASSERT_TRUE(far->receive_data(data, soon()));
    }
    EXPECT_EQ(data, bytes(data_bytes, 2));
  }
  sender.join();
  EXPECT_EQ(near->bytes().out, far->bytes().in);
  EXPECT_GT(near->bytes().out, std::uint64_t{3} << 20);
}

TEST_P(TransportContract, both_directions_move_at_once) {
  constexpr int kFrames = 50;
  const auto data = bytes(200000, 5);
  const auto send = [&](Connection& connection) {
    for (int i = 0; i < kFrames; ++i) ASSERT_TRUE(connection.send_frame(frame_of({}, data)));
  };
  const auto receive = [&](Connection& connection) {
    IncomingFrame frame;
    std::vector<std::byte> got(data.size());
    for (int i = 0; i < kFrames; ++i) {
      ASSERT_TRUE(connection.receive_frame(frame));
      ASSERT_TRUE(connection.receive_data(got));
      ASSERT_EQ(got, data);
    }
  };
  std::thread a([&] { send(*near); });
  std::thread b([&] { send(*far); });
  std::thread c([&] { receive(*near); });
  receive(*far);
  a.join();
  b.join();
  c.join();
}

TEST_P(TransportContract, a_time_that_is_over_before_a_frame_begins_leaves_the_link_as_it_was) {
  IncomingFrame frame;
  const auto received = far->receive_frame(frame, passed());
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code(), ErrorCode::kDeadlineExceeded);
  const auto body = bytes(3, 1);
  ASSERT_TRUE(near->send_frame(frame_of(body, {})));
  ASSERT_TRUE(far->receive_frame(frame, soon()));
  EXPECT_EQ(frame.body, body);
}

TEST_P(TransportContract, a_sender_whose_peer_does_not_read_gives_up_in_time) {
  const auto data = bytes(1 << 20, 1);
  Result<void> sent;
  for (int i = 0; i < 100 && sent; ++i) {
    sent =
        near->send_frame(frame_of({}, data), SteadyClock().now() + std::chrono::milliseconds(20));
  }
  ASSERT_FALSE(sent);
  const bool in_time = sent.error().code() == ErrorCode::kDeadlineExceeded ||
                       sent.error().code() == ErrorCode::kUnavailable;
  EXPECT_TRUE(in_time) << sent.error().message();
}

TEST_P(TransportContract, shutdown_wakes_a_receiver_that_waits) {
  std::thread waker([&] { far->shutdown(); });
  IncomingFrame frame;
  const auto received = far->receive_frame(frame);
  waker.join();
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code(), ErrorCode::kUnavailable);
}

TEST_P(TransportContract, shutdown_wakes_a_sender_that_waits_for_room) {
  const auto data = bytes(1 << 20, 1);
  Result<void> sent;
  std::thread sender([&] {
    for (int i = 0; i < 1000 && sent; ++i) sent = near->send_frame(frame_of({}, data));
  });
  near->shutdown();
  sender.join();
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code(), ErrorCode::kUnavailable);
}

TEST_P(TransportContract, a_peer_that_leaves_ends_the_link_after_what_it_sent) {
  const auto body = bytes(9, 1);
  ASSERT_TRUE(near->send_frame(frame_of(body, {})));
  near.reset();
  IncomingFrame frame;
  ASSERT_TRUE(far->receive_frame(frame, soon()));
  EXPECT_EQ(frame.body, body);
  const auto received = far->receive_frame(frame, soon());
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code(), ErrorCode::kUnavailable);
}

TEST_P(TransportContract, data_goes_straight_into_the_callers_floats) {
  const std::vector<float> rows = {1.5F, -0.0F, 3e38F};
  OutgoingFrame out = frame_of({}, {});
  out.data = wire::float_bytes(rows);
  ASSERT_TRUE(near->send_frame(out));
  IncomingFrame frame;
  ASSERT_TRUE(far->receive_frame(frame, soon()));
  wire::FloatBuffer buffer;
  ASSERT_TRUE(buffer.resize(rows.size()));
  ASSERT_TRUE(far->receive_data(buffer.bytes(), soon()));
  EXPECT_TRUE(std::equal(rows.begin(), rows.end(), buffer.floats().begin()));
}

TEST_P(TransportContract, unwanted_data_can_be_skipped_but_not_forgotten) {
  const auto data = bytes(100000, 4);
  const auto body = bytes(2, 1);
  ASSERT_TRUE(near->send_frame(frame_of({}, data)));
  ASSERT_TRUE(near->send_frame(frame_of(body, {})));
  IncomingFrame frame;
  ASSERT_TRUE(far->receive_frame(frame, soon()));
  EXPECT_EQ(far->receive_frame(frame, soon()).error().code(), ErrorCode::kInternal);
  std::vector<std::byte> small(5);
  EXPECT_EQ(far->receive_data(small, soon()).error().code(), ErrorCode::kInvalidArgument);
  ASSERT_TRUE(far->skip_data(soon()));
  EXPECT_EQ(far->skip_data(soon()).error().code(), ErrorCode::kInternal);
  ASSERT_TRUE(far->receive_frame(frame, soon()));
  EXPECT_EQ(frame.body, body);
}

TEST_P(TransportContract, a_frame_over_the_limits_is_not_sent) {
  const auto body = bytes(wire::kControlBodyBytesMax + 1, 1);
  OutgoingFrame frame = frame_of(body, {});
  frame.type = wire::FrameType::kPing;
  EXPECT_EQ(near->send_frame(frame).error().code(), ErrorCode::kInvalidArgument);
}

TEST_P(TransportContract, a_listener_keeps_its_deadline_and_wakes_on_shutdown) {
  EXPECT_EQ(listener->accept(passed()).error().code(), ErrorCode::kDeadlineExceeded);
  std::thread waker([&] { listener->shutdown(); });
  EXPECT_EQ(listener->accept().error().code(), ErrorCode::kUnavailable);
  waker.join();
}

TEST_P(TransportContract, nobody_listens_under_the_name_of_a_listener_that_has_gone) {
  const Endpoint endpoint = listener->endpoint();
  listener.reset();
  const auto connected = transport->connect(endpoint, soon());
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code(), ErrorCode::kUnavailable);
}

}  // namespace salvage::transport
