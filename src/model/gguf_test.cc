// Goal: the reader takes what libllama takes and refuses everything else with a sentence, whatever
// bytes it gets. Method: tiny files made by the writer, then cut, changed and joined in memory.

#include "model/gguf.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "model/tiny_model.h"

namespace salvage::model {
namespace {

using ::testing::HasSubstr;

std::string message_of(const Result<Gguf>& result) {
  return result ? "no error" : result.error().message();
}

template <typename T>
std::string with_number(std::string bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  return bytes;
}

constexpr std::size_t kVersionOffset = 4;
constexpr std::size_t kTensorCountOffset = 8;
constexpr std::size_t kKeyCountOffset = 16;

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "salvage-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

TEST(Gguf, what_the_writer_wrote_is_read_back) {
  const TinyModel tiny = tiny_model("llama", 2);
  const auto gguf = tiny.open();
  ASSERT_TRUE(gguf) << message_of(gguf);
  EXPECT_EQ(gguf->metadata().entries(), tiny.metadata.entries());
  ASSERT_EQ(gguf->tensors().size(), tiny.tensors.size());
  for (std::size_t i = 0; i < tiny.tensors.size(); ++i) {
    const TensorInfo& tensor = gguf->tensors()[i];
    EXPECT_EQ(tensor.name, tiny.tensors[i].name);
    std::string data(tensor.bytes, '\0');
    ASSERT_TRUE(gguf->read(tensor, 0, std::as_writable_bytes(std::span(data))));
    EXPECT_EQ(data, std::get<GivenData>(tiny.tensors[i].data).bytes);
  }
}

TEST(Gguf, a_file_cut_at_any_byte_is_refused) {
  const std::string whole = tiny_model("llama", 2).bytes();
  // The last tensor ends at the file's end: 4 rows of 32 floats need no padding.
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto gguf = TinyModel::open_bytes(whole.substr(0, length));
    ASSERT_FALSE(gguf) << "at " << length;
    EXPECT_EQ(gguf.error().code() == ErrorCode::kCorrupt ||
                  gguf.error().code() == ErrorCode::kUnsupported,
              true)
        << gguf.error().message();
  }
}

TEST(Gguf, a_truncated_file_names_the_tensor_and_the_missing_bytes) {
  std::string bytes = tiny_model("llama", 1).bytes();
  bytes.resize(bytes.size() - 600);
  const auto gguf = TinyModel::open_bytes(bytes);
  EXPECT_THAT(message_of(gguf), HasSubstr("600 bytes are missing"));
  EXPECT_THAT(message_of(gguf), HasSubstr("blk.0.attn_norm.weight"));
}

TEST(Gguf, files_that_are_something_else_are_called_by_name) {
  const auto said = [](const std::string& bytes) {
    return message_of(TinyModel::open_bytes(bytes));
  };
  EXPECT_THAT(said(""), HasSubstr("empty"));
  EXPECT_THAT(said("\n<!DOCTYPE html><html>"), HasSubstr("web page"));
  EXPECT_THAT(said("version https://git-lfs.github.com/spec/v1"), HasSubstr("git lfs pull"));
  EXPECT_THAT(said("PK\3\4abcdefgh"), HasSubstr("zip"));
  EXPECT_THAT(said("hello"), HasSubstr("does not begin with the letters GGUF"));
}

TEST(Gguf, other_versions_and_byte_orders_are_refused) {
  const std::string good = tiny_model("llama", 1).bytes();
  const auto said = [&](std::uint32_t version) {
    return message_of(TinyModel::open_bytes(with_number(good, kVersionOffset, version)));
  };
  EXPECT_EQ(said(2), "no error");
  EXPECT_THAT(said(1), HasSubstr("version 1"));
  EXPECT_THAT(said(4), HasSubstr("version 4"));
  EXPECT_THAT(said(0x03000000), HasSubstr("big-endian"));
}

TEST(Gguf, absurd_counts_are_refused_without_allocating) {
  const std::string good = tiny_model("llama", 1).bytes();
  for (const std::uint64_t count : {std::uint64_t{1} << 17, std::uint64_t{1} << 40, UINT64_MAX}) {
    EXPECT_FALSE(TinyModel::open_bytes(with_number(good, kTensorCountOffset, count)));
    EXPECT_FALSE(TinyModel::open_bytes(with_number(good, kKeyCountOffset, count)));
  }
}

TEST(Gguf, any_changed_byte_of_the_header_gives_an_answer) {
  const std::string good = tiny_model("llama", 1).bytes();
  for (std::size_t i = 0; i < 1200; ++i) {
    for (const char value : {'\0', '\x7f', '\xff'}) {
      std::string bytes = good;
      bytes[i] = value;
      (void)TinyModel::open_bytes(bytes);  // Must not crash; sanitizers watch.
    }
  }
}

TEST(Gguf, an_array_longer_than_the_file_is_refused) {
  TinyModel tiny = tiny_model("llama", 1);
  tiny.metadata.set("z", Value::from_file(ValueType::kF64, true, 1U << 20, ""));
  const auto gguf = tiny.open();
  EXPECT_THAT(message_of(gguf), HasSubstr("key \"z\""));
  tiny.metadata.set("z", Value::from_file(ValueType::kString, true, UINT64_MAX, ""));
  EXPECT_THAT(message_of(tiny.open()), HasSubstr("the limit is"));
}

TEST(Gguf, duplicate_tensors_and_keys_are_refused) {
  TinyModel tiny = tiny_model("llama", 1);
  tiny.add("output_norm.weight", 32, 1);
  EXPECT_THAT(message_of(tiny.open()), HasSubstr("\"output_norm.weight\" appears twice"));

  TinyModel keys = tiny_model("llama", 1);
  keys.metadata.set("same.a", Value::u32(1));
  keys.metadata.set("same.b", Value::u32(1));
  std::string bytes = keys.bytes();
  bytes[bytes.find("same.b") + 5] = 'a';
  EXPECT_THAT(message_of(TinyModel::open_bytes(bytes)), HasSubstr("\"same.a\" appears twice"));
}

TEST(Gguf, tensors_that_overlap_are_refused) {
  std::string bytes = tiny_model("llama", 1).bytes();
  // The second tensor's record: name, dimensions, one length, type, offset.
  const std::size_t record = bytes.find("output_norm.weight") + 18 + 4 + 8 + 4;
  EXPECT_THAT(message_of(TinyModel::open_bytes(with_number(bytes, record, std::uint64_t{64}))),
              HasSubstr("overlaps"));
}

TEST(Gguf, wrong_types_shapes_and_alignments_are_refused) {
  TinyModel tiny = tiny_model("llama", 1);
  tiny.metadata.set("general.alignment", Value::u32(48));
  EXPECT_THAT(message_of(tiny.open()), HasSubstr("power of two"));

  const std::string bytes = tiny_model("llama", 1).bytes();
  const std::size_t dimensions = bytes.find("output_norm.weight") + 18;
  const std::size_t type = dimensions + 4 + 8;
  const auto said = [&](std::size_t offset, auto value) {
    return message_of(TinyModel::open_bytes(with_number(bytes, offset, value)));
  };
  EXPECT_THAT(said(dimensions, std::uint32_t{5}), HasSubstr("dimensions"));
  EXPECT_THAT(said(dimensions + 4, UINT64_MAX), HasSubstr("63 bits"));
  EXPECT_THAT(said(dimensions + 4, std::uint64_t{0}), HasSubstr("no length"));
  EXPECT_THAT(said(type, std::uint32_t{4}), HasSubstr("type 4"));
  EXPECT_THAT(said(type, std::uint32_t{12}), HasSubstr("whole blocks"));
}

TEST(Gguf, joined_files_are_recognised) {
  const std::string one = tiny_model("llama", 1).bytes();
  EXPECT_THAT(message_of(TinyModel::open_bytes(one + one)), HasSubstr("joined"));
  EXPECT_EQ(message_of(TinyModel::open_bytes(one + std::string(100, '\0'))), "no error");
}

// A two-part model: the second part holds the layers.
struct Parts {
  TinyModel first = tiny_model("llama", 2);
  TinyModel second;
  Parts() {
    for (TinyModel* const part : {&first, &second}) {
      part->metadata.set("split.count", Value::u32(2));
      part->metadata.set("split.no", Value::u32(part == &second ? 1 : 0));
      part->metadata.set("split.tensors.count", Value::u32(7));
    }
    for (const std::string name : {"blk.1.attn_norm.weight", "blk.1.ffn_up.weight"}) {
      first.remove(name);
      second.add(name, 32, name.find("norm") == std::string::npos ? 4 : 1);
    }
  }
};

TEST(Gguf, parts_are_found_whichever_is_named) {
  const Parts parts;
  const Folder folder;
  const auto one = folder.write("m-00001-of-00002.gguf", parts.first.bytes());
  const auto two = folder.write("m-00002-of-00002.gguf", parts.second.bytes());
  for (const auto& path : {one, two}) {
    const auto gguf = Gguf::open(path);
    ASSERT_TRUE(gguf) << message_of(gguf);
    EXPECT_EQ(gguf->part_count(), 2);
    EXPECT_EQ(gguf->tensors().size(), 7);
    const TensorInfo* const tensor = gguf->find_tensor("blk.1.ffn_up.weight");
    ASSERT_NE(tensor, nullptr);
    float value = 0;
    ASSERT_TRUE(gguf->read(*tensor, 4, std::as_writable_bytes(std::span(&value, 1))));
    EXPECT_EQ(value, 1.0F + 1.0F / 1024.0F);
  }
}

TEST(Gguf, a_missing_or_mixed_up_part_is_named) {
  const Parts parts;
  const Folder folder;
  const auto one = folder.write("m-00001-of-00002.gguf", parts.first.bytes());
  EXPECT_THAT(message_of(Gguf::open(one)), HasSubstr("m-00002-of-00002.gguf"));
  EXPECT_THAT(message_of(Gguf::open(one)), HasSubstr("part 2 of 2 is missing"));
  folder.write("m-00002-of-00002.gguf", parts.first.bytes());
  EXPECT_THAT(message_of(Gguf::open(one)), HasSubstr("its content part 1 of 2"));
  const auto renamed = folder.write("renamed.gguf", parts.first.bytes());
  EXPECT_THAT(message_of(Gguf::open(renamed)),
              HasSubstr("part 1 of 2 of a model but not named so"));
}

TEST(Gguf, a_missing_file_or_a_folder_is_an_error_with_the_path) {
  EXPECT_EQ(Gguf::open("/nowhere/m.gguf").error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(message_of(Gguf::open("/nowhere/m.gguf")), HasSubstr("/nowhere/m.gguf"));
  EXPECT_THAT(message_of(Gguf::open("/")), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace salvage::model
