#include "base/system_info.h"

#include <fstream>
#include <limits>
#include <string>

#include <sched.h>

namespace salvage {
namespace {

// Reads "Name:   1234 kB" from a /proc file of such lines.
std::optional<std::uint64_t> kib_field(const std::filesystem::path& file, const std::string& name) {
  std::ifstream stream(file);
  std::string word;
  while (stream >> word) {
    std::uint64_t value = 0;
    if (word == name && stream >> value) return value * 1024;
    stream.clear();
    stream.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> memory_available_bytes(const std::filesystem::path& proc) {
  return kib_field(proc / "meminfo", "MemAvailable:");
}

std::optional<ProcessMemory> process_memory(const std::filesystem::path& proc) {
  const auto resident = kib_field(proc / "self/status", "VmRSS:");
  const auto peak = kib_field(proc / "self/status", "VmHWM:");
  if (!resident || !peak) return std::nullopt;
  return ProcessMemory{*resident, *peak};
}

std::vector<std::uint32_t> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<std::uint32_t> cores;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (std::uint32_t core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

}  // namespace salvage
