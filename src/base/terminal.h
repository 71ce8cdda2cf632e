#pragma once

// What the standard streams are connected to.

namespace salvage {

enum class Stream { kInput, kOutput, kError };

bool is_terminal(Stream stream);

}  // namespace salvage
