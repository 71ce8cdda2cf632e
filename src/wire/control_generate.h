#pragma once

// Messages at random for tests and fuzzers, made by walking the same field lists as the codec. The
// same seed gives the same message.

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/random.h"
#include "wire/cluster_fields.h"

namespace salvage::wire {

inline void generate_field(Random& random, bool& value) {
  value = random.below(2) == 1;
}
inline void generate_field(Random& random, std::uint32_t& value) {
  value = static_cast<std::uint32_t>(random() >> random.below(64));
}
inline void generate_field(Random& random, std::uint64_t& value) {
  value = random() >> random.below(64);
}
inline void generate_field(Random& random, double& value) {
  value = random.unit() * 1e6;
}
inline void generate_field(Random& random, std::string& value) {
  // Any bytes: paths need not be UTF-8.
  value.resize(random.below(4) == 0 ? random.below(300) : random.below(12));
  for (char& c : value) c = static_cast<char>(random());
}
inline void generate_field(Random& random, HiddenType& value) {
  value = static_cast<HiddenType>(random.below(3));
}
inline void generate_field(Random& random, LinkRole& value) {
  value = static_cast<LinkRole>(random.below(5));
}
template <typename Item>
void generate_field(Random& random, std::vector<Item>& value);
template <typename Record>
requires std::is_class_v<Record>
void generate_field(Random& random, Record& record) {
  visit_fields(Of<Record>{}, [&](const char*, auto member, FieldTraits) {
    generate_field(random, record.*member);
  });
}
template <typename Item>
void generate_field(Random& random, std::vector<Item>& value) {
  value.resize(random.below(std::is_class_v<Item> ? 4 : 40));
  for (auto& item : value) generate_field(random, item);
}

template <typename Message>
Message generate_control(std::uint64_t seed) {
  Random random(seed);
  Message message;
  visit_fields(Of<Message>{}, [&](const char*, auto member, FieldTraits) {
    generate_field(random, message.*member);
  });
  return message;
}

}  // namespace salvage::wire
