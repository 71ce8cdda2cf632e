// What TLS adds to a hop: round trips of a frame of 16 KiB, one row of 4,096 values, and the rate
// of large frames as weights travel, over TLS and over plain loopback, in turns within one run,
// since machines change their speed from minute to minute. Run it by hand.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
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

// Of the clock on the wall, and of both ends' CPU together, which other work on the machine leaves
// alone.
struct Cost {
  double wall = 1e9;
  double cpu = 1e9;
};

// Keeps the best of all rounds.
void measure(Cost& best, const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t cpu_begin = std::clock();
  work();
  const double cpu = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  best.wall = std::min(best.wall, wall.count());
  best.cpu = std::min(best.cpu, cpu);
}

void exchange(Link& link, std::size_t data_bytes, int times) {
  const std::vector<std::byte> data(data_bytes);
  std::vector<std::byte> back;
  for (int i = 0; i < times; ++i) {
    if (!send(*link.near, data) || !receive(*link.near, back)) return;
  }
}

void print(const char* what, const Cost& plain, const Cost& tls, int times) {
  std::printf("%s  wall: plain %8.1f us, TLS %8.1f us, ratio %.2f   CPU: %8.1f, %8.1f, %.2f\n",
              what, plain.wall / times * 1e6, tls.wall / times * 1e6, tls.wall / plain.wall,
              plain.cpu / times * 1e6, tls.cpu / times * 1e6, tls.cpu / plain.cpu);
}

void compare(Link& plain, Link& tls) {
  Cost plain_trip, tls_trip, plain_blob, tls_blob;
  for (int round = 0; round < kRounds; ++round) {
    measure(plain_trip, [&] { exchange(plain, kRowBytes, kTrips); });
    measure(tls_trip, [&] { exchange(tls, kRowBytes, kTrips); });
    measure(plain_blob, [&] { exchange(plain, kBlobBytes, kBlobs); });
    measure(tls_blob, [&] { exchange(tls, kBlobBytes, kBlobs); });
  }
  print("16 KiB there and back", plain_trip, tls_trip, kTrips);
  print("4 MiB there          ", plain_blob, tls_blob, kBlobs);
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
  compare(plain, tls);
  plain.near->shutdown();
  tls.near->shutdown();
  plain_echo.join();
  tls_echo.join();
  return 0;
}
