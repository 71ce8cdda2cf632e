#pragma once

// What `salvage top` shows, from the two answers that it asks for (metrics/glance_json.h):
// machines, models, and requests with the way that each has come:
//   queued 2nd
//   queued 3.2 s -> reading prompt 812/2048 (41.0 tok/s)
//   queued 3.2 s -> read 2048 (41.0 tok/s) -> 120 tokens, 3.1 tok/s
// Lines are as wide as the terminal at most, whatever stands in names. Pure, any thread; throws
// what nlohmann throws for another form, which app/ask.h catches.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace salvage::app {

struct TopSize {
  std::size_t columns = 0;  // 0: no bound
  std::size_t rows = 0;
};

std::vector<std::string> top_lines(const nlohmann::ordered_json& cluster,
                                   const nlohmann::ordered_json& requests, TopSize size);

// The beginning of a text that fits into so many columns, without control characters.
std::string fitted(std::string_view text, std::size_t columns);
// "2nd"; in Chinese the number.
std::string ordinal(unsigned number);

}  // namespace salvage::app
