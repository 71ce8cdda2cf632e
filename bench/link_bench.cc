// What a link between two stages costs: round trips of one row and throughput of 64-row
// micro-batches of f32 hidden states, 4,096 wide, over a Unix socket and loopback; and converting
// them to f16 and q8. Best of several rounds, since other work on the machine only ever makes it
// slower.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include <unistd.h>

#include "base/random.h"
#include "transport/tcp/local_transport.h"
#include "wire/micro_batch.h"
#include "wire/step_result.h"

using namespace salvage;

namespace {

constexpr std::uint32_t kWidth = 4096;
constexpr int kRounds = 7;

double seconds_best(const std::function<void()>& work) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

wire::MicroBatch batch_of(std::uint32_t rows) {
  wire::MicroBatch batch;
  batch.tokens.assign(rows, 1);
  batch.positions.assign(rows, 2);
  batch.sequences.assign(rows, SequenceId{0});
  batch.wants_logits.assign(rows, 0);
  batch.hidden = {rows, kWidth, wire::HiddenType::kF32};
  return batch;
}

bool send(transport::Connection& link, const wire::MicroBatch& batch, std::span<const float> rows,
          std::vector<std::byte>& body) {
  if (!wire::encode(batch, body)) return false;
  transport::OutgoingFrame frame;
  frame.type = wire::FrameType::kMicroBatch;
  frame.body = body;
  frame.data = wire::float_bytes(rows);
  return link.send_frame(frame).has_value();
}

// Everything a stage does to take a micro-batch: head, decode, floats in place.
struct Receiver {
  transport::IncomingFrame frame;
  wire::MicroBatch batch;
  wire::FloatBuffer rows;
  bool receive(transport::Connection& link) {
    return link.receive_frame(frame) && wire::decode(frame.header, frame.body, batch) &&
           rows.resize(std::uint64_t{batch.hidden.row_count} * batch.hidden.row_width) &&
           link.receive_data(rows.bytes());
  }
};

void echo(transport::Connection& link) {
  Receiver receiver;
  std::vector<std::byte> body;
  while (receiver.receive(link) && send(link, receiver.batch, receiver.rows.floats(), body)) {
  }
}

void drain(transport::Connection& link) {
  Receiver receiver;
  while (receiver.receive(link)) {
    if (receiver.batch.causal) continue;
    std::vector<std::byte> body;
    if (!send(link, batch_of(1), std::vector<float>(kWidth), body)) return;
  }
}

void measure(const std::string& endpoint_text) {
  const auto transport = transport::make_local_transport();
  auto listener = transport->listen(*transport::parse_endpoint(endpoint_text));
  if (!listener) return;
  const std::vector<float> one(kWidth, 0.5F);
  const std::vector<float> many(std::size_t{64} * kWidth, 0.5F);
  const auto run = [&](void (*far_end)(transport::Connection&), const auto& work) {
    auto near = std::move(*transport->connect((*listener)->endpoint(), kNoDeadline));
    auto far = std::move(*(*listener)->accept());
    std::thread peer([&] { far_end(*far); });
    work(*near);
    near->shutdown();
    peer.join();
  };
  run(echo, [&](transport::Connection& near) {
    Receiver receiver;
    std::vector<std::byte> body;
    const wire::MicroBatch batch = batch_of(1);
    constexpr int kTrips = 2000;
    const double best = seconds_best([&] {
      for (int i = 0; i < kTrips; ++i) {
        if (!send(near, batch, one, body) || !receiver.receive(near)) return;
      }
    });
    std::printf("%-5s round trip of 1 row f32     %8.1f us\n",
                endpoint_text.substr(0, endpoint_text.find(':')).c_str(), best / kTrips * 1e6);
  });
  run(drain, [&](transport::Connection& near) {
    Receiver receiver;
    std::vector<std::byte> body;
    constexpr int kFrames = 200;
    const double best = seconds_best([&] {
      wire::MicroBatch batch = batch_of(64);
      for (int i = 0; i < kFrames; ++i) {
        batch.causal = i + 1 < kFrames;  // The last one asks for an answer.
        if (!send(near, batch, many, body)) return;
      }
      (void)receiver.receive(near);
    });
    std::printf("%-5s 64 rows f32                %8.1f MiB/s, %.0f us each\n",
                endpoint_text.substr(0, endpoint_text.find(':')).c_str(), kFrames / best,
                best / kFrames * 1e6);
  });
}

void measure_conversions() {
  std::vector<float> rows(std::size_t{64} * kWidth);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i % 977) - 488.0F;
  std::vector<float> back(rows.size());
  std::vector<std::byte> bytes;
  for (const auto type : {wire::HiddenType::kF16, wire::HiddenType::kQ8}) {
    const double encode = seconds_best([&] { wire::encode_hidden(rows, kWidth, type, bytes); });
    const double decode = seconds_best([&] {
      (void)wire::decode_hidden(bytes, {64, kWidth, type}, back).has_value();
    });
    std::printf("%-5s encode, decode              %8.0f, %.0f Mvalues/s\n",
                std::string(wire::hidden_type_name(type)).c_str(),
                static_cast<double>(rows.size()) / encode / 1e6,
                static_cast<double>(rows.size()) / decode / 1e6);
  }
}

void measure_reduction() {
  constexpr std::uint32_t kVocabulary = 151936;
  std::vector<float> logits(kVocabulary);
  Random random(1);
  for (float& logit : logits) logit = static_cast<float>(random.unit() + random.unit()) * 10 - 10;
  wire::StepResult result;
  result.row_count = 1;
  result.vocabulary_size = kVocabulary;
  result.form = wire::LogitsForm::kTopK;
  const double best = seconds_best([&] {
    result.top_k = 1024;
    wire::reduce_logits(logits, result);
  });
  std::printf("top-1024 with log-sum-exp of %u logits  %.0f us\n", kVocabulary, best * 1e6);
}

}  // namespace

int main() {
  const auto name = "salvage-link-bench-" + std::to_string(::getpid());
  measure("unix:" + (std::filesystem::temp_directory_path() / name).string());
  measure("tcp:127.0.0.1:0");
  measure_conversions();
  measure_reduction();
  return 0;
}
