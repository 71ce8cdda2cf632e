// What TLS adds to a hop: round trips of a frame of 16 KiB, one row of 4,096 values, and the rate
// of large frames as weights travel, over TLS and over plain loopback, in turns within one run,
// since machines change their speed from minute to minute. Run it by hand.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "identity/authority.h"
#include "transport/tcp/local_transport.h"
#include "transport/tls/tls_transport.h"

using namespace salvage;

namespace {

constexpr int kRounds = 9;
constexpr int kTrips = 1000;
constexpr std::size_t kRowBytes = 16384;
constexpr std::size_t kBlobBytes = std::size_t{4} << 20;
constexpr int kBlobs = 40;

struct Link {
  std::unique_ptr<transport::Transport> transport;
  std::unique_ptr<transport::Connection> near;
  std::unique_ptr<transport::Connection> far;
};

bool send(transport::Connection& link, const std::vector<std::byte>& data) {
  transport::OutgoingFrame frame;
  frame.type = wire::FrameType::kMicroBatch;
  frame.data = data;
  return link.send_frame(frame).has_value();
}

bool receive(transport::Connection& link, std::vector<std::byte>& data) {
  transport::IncomingFrame frame;
  if (!link.receive_frame(frame)) return false;
  data.resize(frame.header.data_bytes);
  return link.receive_data(data).has_value();
}

bool open(Link& link, const char* endpoint) {
  auto listener = link.transport->listen(*transport::parse_endpoint(endpoint));
  if (!listener) return false;
  std::thread connecting([&] {
    auto connected = link.transport->connect((*listener)->endpoint(), kNoDeadline);
    if (connected) link.near = std::move(*connected);
    if (connected) (void)send(*link.near, std::vector<std::byte>(1));
  });
  auto accepted = (*listener)->accept();
  std::vector<std::byte> data;
  if (accepted) link.far = std::move(*accepted);
  const bool greeted = link.far != nullptr && receive(*link.far, data);
  connecting.join();
  return greeted && link.near != nullptr;
}

// Answers each frame: a row with a row, a blob with a byte.
void echo(transport::Connection& link) {
  const std::vector<std::byte> byte(1);
  std::vector<std::byte> data;
  while (receive(link, data)) {
    if (!send(link, data.size() > kRowBytes ? byte : data)) return;
  }
}

double seconds(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double trip_us(Link& link) {
  const std::vector<std::byte> row(kRowBytes);
  std::vector<std::byte> back;
  return seconds([&] {
           for (int i = 0; i < kTrips; ++i) {
             if (!send(*link.near, row) || !receive(*link.near, back)) return;
           }
         }) /
         kTrips * 1e6;
}

double mib_a_second(Link& link) {
  const std::vector<std::byte> blob(kBlobBytes);
  std::vector<std::byte> back;
  const double took = seconds([&] {
    for (int i = 0; i < kBlobs; ++i) {
      if (!send(*link.near, blob) || !receive(*link.near, back)) return;
    }
  });
  return static_cast<double>(kBlobs) * static_cast<double>(kBlobBytes >> 20) / took;
}

void measure(Link& plain, Link& tls) {
  double plain_us = 1e9, tls_us = 1e9, plain_rate = 0, tls_rate = 0;
  for (int round = 0; round < kRounds; ++round) {
    plain_us = std::min(plain_us, trip_us(plain));
    tls_us = std::min(tls_us, trip_us(tls));
    plain_rate = std::max(plain_rate, mib_a_second(plain));
    tls_rate = std::max(tls_rate, mib_a_second(tls));
  }
  std::printf("round trip of 16 KiB   plain %7.1f us    TLS %7.1f us    ratio %.2f\n", plain_us,
              tls_us, tls_us / plain_us);
  std::printf("frames of 4 MiB        plain %7.0f MiB/s TLS %7.0f MiB/s ratio %.2f\n", plain_rate,
              tls_rate, tls_rate / plain_rate);
}

Result<std::unique_ptr<transport::SecureTransport>> member() {
  ASSIGN_OR_RETURN(const auto authority, identity::make_authority());
  ASSIGN_OR_RETURN(const auto key, identity::make_node_key());
  transport::TlsOptions options;
  options.identity.key_pem = key.key_pem;
  options.identity.id = key.id;
  options.identity.authority_pem = authority.certificate_pem;
  ASSIGN_OR_RETURN(
      options.identity.certificate_pem,
      identity::issue_certificate(authority, key.public_key_pem, identity::NodeRole::kNode));
  return transport::make_tls_transport(options);
}

}  // namespace

int main() {
  Link plain;
  Link tls;
  plain.transport = transport::make_local_transport();
  auto made = member();
  if (!made) return 1;
  tls.transport = std::move(*made);
  if (!open(plain, "tcp:127.0.0.1:0") || !open(tls, "tls:127.0.0.1:0")) return 1;
  std::thread plain_echo([&] { echo(*plain.far); });
  std::thread tls_echo([&] { echo(*tls.far); });
  measure(plain, tls);
  plain.near->shutdown();
  tls.near->shutdown();
  plain_echo.join();
  tls_echo.join();
  return 0;
}
