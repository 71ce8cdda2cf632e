#pragma once

// What the standard streams are connected to.

namespace salvage {

enum class Stream { kInput, kOutput, kError };

bool is_terminal(Stream stream);

// Opens /dev/null for each of them that is closed. Else the next file or socket of ours would get
// its number, and with it what is meant for the stream. First thing in main().
void occupy_closed_streams();

}  // namespace salvage
