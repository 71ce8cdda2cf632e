#pragma once

// Numbers as people read them: SI units, for memory binary ones, one decimal.

#include <cstdint>
#include <string>

#include "base/ids.h"

namespace salvage::app {

std::string format_bytes(std::uint64_t bytes);      // "98.4 MB"; below 1000 "512 B"
std::string format_memory(std::uint64_t bytes);     // "13.1 GiB", "512 MiB"
std::string format_layers(LayerRange layers);       // "0-9" : first and last layer, as people count
std::string format_seconds(double seconds);         // "12.3 ms", "4.56 s"
std::string format_rate(double tokens_per_second);  // "41.2 tok/s"

}  // namespace salvage::app
