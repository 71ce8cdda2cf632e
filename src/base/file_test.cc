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

TEST_F(File, that_grows_goes_on_where_it_stopped) {
  const auto part = folder_ / "a.part";
  {
    auto file = AppendFile::open(part, 1000);
    ASSERT_TRUE(file) << file.error().message();
    EXPECT_EQ(file->size(), 0U);
    ASSERT_TRUE(file->write(bytes_of("one ")));
  }
  EXPECT_EQ(std::filesystem::file_size(part), 4U);
  auto file = AppendFile::open(part, 1000);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size(), 4U);
  ASSERT_TRUE(file->write(bytes_of("two")));
  EXPECT_EQ(file->size(), 7U);
  ASSERT_TRUE(file->publish(folder_ / "a"));
  EXPECT_FALSE(std::filesystem::exists(part));
  std::ifstream in(folder_ / "a");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "one two");
}

TEST_F(File, that_grows_is_a_regular_file_in_a_folder_that_exists) {
  const auto folder = AppendFile::open(folder_, 0);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code(), ErrorCode::kInvalidArgument);
  const auto nowhere = AppendFile::open(folder_ / "nowhere" / "a", 0);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code(), ErrorCode::kNotFound);
}

TEST_F(File, takes_room_on_the_disk_from_the_moment_it_was_reserved) {
  EXPECT_EQ(disk_bytes(folder_ / "none"), 0U);
  auto file = AppendFile::open(folder_ / "a.part", 0);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->write(std::vector<std::byte>(100'000, std::byte{1})));
  ASSERT_TRUE(file->publish(folder_ / "a"));
  EXPECT_GE(disk_bytes(folder_ / "a"), 100'000U);
}

}  // namespace
}  // namespace salvage
