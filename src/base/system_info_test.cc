// Goal: figures of this machine are read right, and what cannot be read is unknown, never 0.
// Method: a recorded /proc tree in a temporary folder.

#include "base/system_info.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace salvage {
namespace {

class Proc : public ::testing::Test {
 protected:
  Proc() {
    std::string name = (std::filesystem::temp_directory_path() / "salvage-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    std::filesystem::create_directory(root_ / "self");
  }
  ~Proc() override { std::filesystem::remove_all(root_); }
  void record(const std::string& file, const std::string& text) {
    std::ofstream(root_ / file) << text;
  }
  std::filesystem::path root_;
};

TEST_F(Proc, available_memory_is_not_free_memory) {
  record("meminfo",
         "MemTotal:       16309248 kB\nMemFree:          612340 kB\n"
         "MemAvailable:    9876543 kB\nBuffers:          1234 kB\nHugePages_Total:       0\n");
  EXPECT_EQ(memory_available_bytes(root_), std::uint64_t{9876543} * 1024);
}

TEST_F(Proc, what_an_old_kernel_does_not_say_is_unknown) {
  record("meminfo", "MemTotal:       16309248 kB\nMemFree:          612340 kB\n");
  EXPECT_EQ(memory_available_bytes(root_), std::nullopt);
}

TEST_F(Proc, a_missing_or_garbled_file_is_unknown) {
  EXPECT_EQ(memory_available_bytes(root_), std::nullopt);
  record("meminfo", "MemAvailable: much\n");
  EXPECT_EQ(memory_available_bytes(root_), std::nullopt);
}

TEST_F(Proc, all_memory_is_not_available_memory) {
  record("meminfo", "MemTotal:       16309248 kB\nMemAvailable:    9876543 kB\n");
  EXPECT_EQ(memory_total_bytes(root_), std::uint64_t{16309248} * 1024);
}

TEST_F(Proc, the_processor_is_named_as_its_kernel_names_it) {
  EXPECT_EQ(processor_name(root_), std::nullopt);
  record("cpuinfo", "processor\t: 0\nmodel\t\t: 142\nmodel name\t: Intel(R) Core(TM) i5-8350U\n");
  EXPECT_EQ(processor_name(root_), "Intel(R) Core(TM) i5-8350U");
  record("cpuinfo", "processor\t: 0\nBogoMIPS\t: 108.00\n\nModel\t\t: Raspberry Pi 4 Model B\n");
  EXPECT_EQ(processor_name(root_), "Raspberry Pi 4 Model B");
}

TEST_F(Proc, load_is_the_mean_of_the_last_minute) {
  EXPECT_EQ(load_average(root_), std::nullopt);
  record("loadavg", "0.75 0.50 0.25 2/345 6789\n");
  EXPECT_EQ(load_average(root_), 0.75);
}

TEST_F(Proc, resident_memory_and_its_peak) {
  record("self/status",
         "Name:\tsalvage\nUmask:\t0022\nState:\tR (running)\nVmPeak:\t  999999 kB\n"
         "VmHWM:\t  120004 kB\nVmRSS:\t   96000 kB\nThreads:\t4\n");
  const auto memory = process_memory(root_);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->resident_bytes, 96000U * 1024);
  EXPECT_EQ(memory->resident_peak_bytes, 120004U * 1024);
}

TEST_F(Proc, half_a_status_is_unknown) {
  record("self/status", "Name:\tsalvage\nVmRSS:\t   96000 kB\n");
  EXPECT_FALSE(process_memory(root_));
}

TEST(SystemInfo, this_machine_has_memory_and_ascending_cores) {
  EXPECT_TRUE(memory_available_bytes());
  EXPECT_TRUE(process_memory());
  const auto cores = usable_cores();
  ASSERT_FALSE(cores.empty());
  for (std::size_t i = 1; i < cores.size(); ++i) EXPECT_LT(cores[i - 1], cores[i]);
}

}  // namespace
}  // namespace salvage
