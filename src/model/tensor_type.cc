#include "model/tensor_type.h"

#include <array>

namespace salvage::model {
namespace {

// Index = number in the file; no elements = not readable. Bytes of a block are its scales and
// minimums plus its packed values: q4_1 is two f16 and 32 x 4 bits, 2 x 2 + 16 = 20.
constexpr std::array<TensorTypeFacts, 43> kTypes = {{
    {"f32", 1, 4},         // 0
    {"f16", 1, 2},         // 1
    {"q4_0", 32, 18},      // 2
    {"q4_1", 32, 20},      // 3
    {"", 0, 0},            // 4, removed
    {"", 0, 0},            // 5, removed
    {"q5_0", 32, 22},      // 6
    {"q5_1", 32, 24},      // 7
    {"q8_0", 32, 34},      // 8
    {"q8_1", 32, 36},      // 9
    {"q2_K", 256, 84},     // 10
    {"q3_K", 256, 110},    // 11
    {"q4_K", 256, 144},    // 12
    {"q5_K", 256, 176},    // 13
    {"q6_K", 256, 210},    // 14
    {"q8_K", 256, 292},    // 15
    {"iq2_xxs", 256, 66},  // 16
    {"iq2_xs", 256, 74},   // 17
    {"iq3_xxs", 256, 98},  // 18
    {"iq1_s", 256, 50},    // 19
    {"iq4_nl", 32, 18},    // 20
    {"iq3_s", 256, 110},   // 21
    {"iq2_s", 256, 82},    // 22
    {"iq4_xs", 256, 136},  // 23
    {"i8", 1, 1},          // 24
    {"i16", 1, 2},         // 25
    {"i32", 1, 4},         // 26
    {"i64", 1, 8},         // 27
    {"f64", 1, 8},         // 28
    {"iq1_m", 256, 56},    // 29
    {"bf16", 1, 2},        // 30
    {"", 0, 0},            // 31, removed
    {"", 0, 0},            // 32, removed
    {"", 0, 0},            // 33, removed
    {"tq1_0", 256, 54},    // 34
    {"tq2_0", 256, 66},    // 35
    {"", 0, 0},            // 36, removed
    {"", 0, 0},            // 37, removed
    {"", 0, 0},            // 38, removed
    {"mxfp4", 32, 17},     // 39
    {"nvfp4", 64, 36},     // 40
    {"q1_0", 128, 18},     // 41
    {"q2_0", 64, 18},      // 42
}};

}  // namespace

std::optional<TensorTypeFacts> tensor_type_facts(std::uint32_t number) {
  if (number >= kTypes.size() || kTypes[number].block_elements == 0) return std::nullopt;
  return kTypes[number];
}

std::string_view tensor_type_name(TensorType type) {
  const auto facts = tensor_type_facts(static_cast<std::uint32_t>(type));
  return facts ? facts->name : "unknown";
}

}  // namespace salvage::model
