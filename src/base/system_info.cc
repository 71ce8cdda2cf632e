#include "base/system_info.h"

#include <array>
#include <fstream>
#include <limits>
#include <string>

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

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

// The value of the first "name : value" line.
std::optional<std::string> text_field(const std::filesystem::path& file, const std::string& name) {
  std::ifstream stream(file);
  std::string line;
  while (std::getline(stream, line)) {
    if (line.compare(0, name.size(), name) != 0) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.find_first_not_of(" \t", name.size()) != colon) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> memory_total_bytes(const std::filesystem::path& proc) {
  return kib_field(proc / "meminfo", "MemTotal:");
}

std::optional<std::string> processor_name(const std::filesystem::path& proc) {
  for (const char* name : {"model name", "Hardware", "Model"}) {
    if (auto found = text_field(proc / "cpuinfo", name)) return found;
  }
  return std::nullopt;
}

std::optional<double> load_average(const std::filesystem::path& proc) {
  std::ifstream stream(proc / "loadavg");
  double load = 0;
  if (!(stream >> load) || !(load >= 0)) return std::nullopt;
  return load;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

std::string system_name() {
  utsname system{};
  if (::uname(&system) != 0) return {};
  return std::string(system.sysname) + ' ' + system.release + ' ' + system.machine;
}

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
