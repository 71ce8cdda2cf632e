#pragma once

// What every Transport must do, as tests: memory and sockets pass the same ones. A test program
// says which transports there are with INSTANTIATE_TEST_SUITE_P(..., TransportContract, ...).

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "transport/transport.h"

namespace salvage::transport {

struct TransportCase {
  std::string name;
  std::function<std::unique_ptr<Transport>()> make;
  std::function<Endpoint()> endpoint;  // a fresh one each time
};

class TransportContract : public testing::TestWithParam<TransportCase> {
 protected:
  void SetUp() override {
    transport = GetParam().make();
    auto listening = transport->listen(GetParam().endpoint());
    ASSERT_TRUE(listening) << listening.error().message();
    listener = std::move(*listening);
    // At once from both sides, and with a first frame: a secure link proves itself on its way.
    std::thread connecting([&] {
      auto connected = transport->connect(listener->endpoint(), soon());
      ASSERT_TRUE(connected) << connected.error().message();
      near = std::move(*connected);
      ASSERT_TRUE(near->send_frame({}, soon()));
    });
    auto accepted = listener->accept(soon());
    if (accepted) far = std::move(*accepted);
    IncomingFrame first;
    const auto received = far == nullptr ? Result<void>() : far->receive_frame(first, soon());
    connecting.join();
    ASSERT_TRUE(accepted) << accepted.error().message();
    ASSERT_TRUE(received) << received.error().message();
    ASSERT_NE(near, nullptr);
  }

  // Far enough away that only a hang reaches it.
  static TimePoint soon() { return deadline_after(SteadyClock().now(), std::chrono::seconds(20)); }
  static TimePoint passed() { return SteadyClock().now() - std::chrono::milliseconds(1); }

  static std::vector<std::byte> bytes(std::size_t count, unsigned seed) {
    std::vector<std::byte> made(count);
    for (std::size_t i = 0; i < count; ++i)
      made[i] = static_cast<std::byte>(i * 7 + seed + i / 256);
    return made;
  }
  static OutgoingFrame frame_of(const std::vector<std::byte>& body,
                                const std::vector<std::byte>& data) {
    OutgoingFrame frame;
    frame.type = wire::FrameType::kMicroBatch;
    frame.epoch.value = 3;
    frame.step.value = body.size();
    frame.body = body;
    frame.data = data;
    return frame;
  }

  std::unique_ptr<Transport> transport;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Connection> near;
  std::unique_ptr<Connection> far;
};

}  // namespace salvage::transport
