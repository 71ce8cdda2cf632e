#pragma once

// What this machine and this process have: memory, cores. Figures that cannot be read are
// std::nullopt, never 0. Every probe takes the root of /proc so that it is tested on recorded
// trees.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace salvage {

// MemAvailable of /proc/meminfo, in bytes: what can be used without swapping.
std::optional<std::uint64_t> memory_available_bytes(const std::filesystem::path& proc = "/proc");

// MemTotal, in bytes.
std::optional<std::uint64_t> memory_total_bytes(const std::filesystem::path& proc = "/proc");

// The first "model name" of /proc/cpuinfo; machines without one call it "Hardware" or "Model".
std::optional<std::string> processor_name(const std::filesystem::path& proc = "/proc");

// Runnable threads, the mean of the last minute.
std::optional<double> load_average(const std::filesystem::path& proc = "/proc");

std::string host_name();    // empty if it has none
std::string system_name();  // "Linux 6.1.0 x86_64"

struct ProcessMemory {
  std::uint64_t resident_bytes = 0;       // VmRSS
  std::uint64_t resident_peak_bytes = 0;  // VmHWM
};
std::optional<ProcessMemory> process_memory(const std::filesystem::path& proc = "/proc");

// The cores that this process may run on, in ascending order.
std::vector<std::uint32_t> usable_cores();

}  // namespace salvage
