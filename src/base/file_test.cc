// Goal: a file appears under its name only when it is whole, and errors say what to do. Method: a
// temporary folder.

#include "base/file.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace salvage {
namespace {

using ::testing::HasSubstr;

class File : public ::testing::Test {
 protected:
  File() {
    std::string name = (std::filesystem::temp_directory_path() / "salvage-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~File() override { std::filesystem::remove_all(folder_); }
  std::size_t file_count() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  std::filesystem::path folder_;
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST_F(File, is_there_only_after_commit) {
  const auto path = folder_ / "out";
  {
    auto file = AtomicFile::create(path, 100);
    ASSERT_TRUE(file && file->write(bytes_of("hello ")) && file->write(bytes_of("world")));
    EXPECT_FALSE(std::filesystem::exists(path));
    ASSERT_TRUE(file->commit());
  }
  EXPECT_EQ(std::filesystem::file_size(path), 11);
  EXPECT_EQ(file_count(), 1);
}

TEST_F(File, that_was_not_committed_leaves_the_old_one) {
  std::ofstream(folder_ / "out") << "old";
  {
    auto file = AtomicFile::create(folder_ / "out", 0);
    ASSERT_TRUE(file && file->write(bytes_of("half")));
  }
  EXPECT_EQ(std::filesystem::file_size(folder_ / "out"), 3);
  EXPECT_EQ(file_count(), 1);
}

TEST_F(File, more_than_any_disk_holds_is_refused_before_writing) {
  const auto file = AtomicFile::create(folder_ / "out", std::uint64_t{1} << 60);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(file.error().message(), HasSubstr((folder_ / "out").string()));
  EXPECT_EQ(file_count(), 0);
}

TEST_F(File, reads_stay_within_the_file) {
  std::ofstream(folder_ / "in") << "abcdef";
  const auto file = ReadOnlyFile::open(folder_ / "in");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size(), 6);
  std::string text(3, ' ');
  ASSERT_TRUE(file->read_at(2, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "cde");
  EXPECT_EQ(file->read_at(4, std::as_writable_bytes(std::span(text))).error().code(),
            ErrorCode::kCorrupt);
  EXPECT_FALSE(file->read_at(UINT64_MAX, std::as_writable_bytes(std::span(text))));
}

TEST_F(File, that_cannot_be_opened_says_which) {
  EXPECT_EQ(ReadOnlyFile::open(folder_ / "none").error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(ReadOnlyFile::open(folder_).error().message(), HasSubstr("not a regular file"));
  EXPECT_EQ(AtomicFile::create(folder_ / "no" / "out", 0).error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace salvage
