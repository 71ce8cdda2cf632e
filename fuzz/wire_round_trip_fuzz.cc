// Valid messages from a seed, there and back, then the same bytes damaged at one place: never a
// crash, and what was not damaged is equal.

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "wire/control_generate.h"
#include "wire/data_generate.h"

using namespace salvage::wire;

namespace {

struct Damage {
  std::uint32_t offset = 0;
  std::byte bits{};
};

void apply(const Damage& damage, std::vector<std::byte>& bytes) {
  if (!bytes.empty()) bytes[damage.offset % bytes.size()] ^= damage.bits;
}

template <typename Message>
FrameHeader header_of(const Message& message, std::uint64_t data_bytes) {
  FrameHeader header;
  header.epoch = message.epoch;
  header.step = message.step;
  header.data_bytes = data_bytes;
  return header;
}

template <typename Message>
void data_round(const Message& message, FrameHeader header, const Damage& damage) {
  std::vector<std::byte> body;
  if (!encode(message, body)) std::abort();
  Message back;
  if (!decode(header, body, back) || !(back == message)) std::abort();
  apply(damage, body);
  (void)decode(header, body, back).has_value();
}

template <typename Message>
void control_round(std::uint64_t seed, const Damage& damage) {
  const auto message = generate_control<Message>(seed);
  std::vector<std::byte> body;
  if (!encode_control(message, body)) std::abort();
  const auto back = decode_control<Message>(body);
  if (!back || !(*back == message)) std::abort();
  apply(damage, body);
  (void)decode_control<Message>(body).has_value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 14) return 0;
  std::uint64_t seed = 0;
  Damage damage;
  std::memcpy(&seed, data, 8);
  std::memcpy(&damage.offset, data + 8, 4);
  damage.bits = static_cast<std::byte>(data[12]);
  const int choice = data[13] % 15;
  if (choice == 12) {
    const MicroBatch batch = generate_micro_batch(seed);
    data_round(batch, header_of(batch, hidden_bytes(batch.hidden)), damage);
  } else if (choice == 13) {
    const StepResult result = generate_step_result(seed);
    data_round(result, header_of(result, result.data_bytes()), damage);
  } else if (choice == 14) {
    data_round(generate_skip(seed), {}, damage);
  }
  int index = 0;
  visit_control_messages([&]<typename Message>(Of<Message>) {
    if (index++ == choice) control_round<Message>(seed, damage);
  });
  return 0;
}
