// Goal: a model put together from a skeleton and pieces reads like the model itself, down to the
// bits of every file that is made of it; what is missing is named; hostile skeletons are refused.
// Method: tiny models in memory, files in a temporary folder, every truncation and many bit flips.

#include "model/skeleton.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/random.h"
#include "model/digest.h"
#include "model/manifest.h"
#include "model/piece.h"
#include "model/shard.h"
#include "model/tiny_model.h"

namespace salvage::model {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string skeleton_of(const TinyModel& tiny) {
  const auto model = tiny.open();
  CHECK(model.has_value());
  auto skeleton = make_skeleton(*model);
  CHECK(skeleton.has_value());
  return std::move(*skeleton);
}

// The pieces as a machine has them: bytes of their own.
PieceContents contents_of(const Gguf& model) {
  const auto pieces = list_pieces(model);
  CHECK(pieces.has_value());
  const std::shared_ptr<const Gguf> borrowed(std::shared_ptr<const Gguf>(), &model);
  PieceContents contents;
  for (const Piece& piece : *pieces) {
    const PieceContent content(piece, borrowed, piece.tensors);
    std::string bytes(content.size(), '\0');
    CHECK(content.read_at(0, std::as_writable_bytes(std::span(bytes))).has_value());
    contents.push_back(std::make_unique<MemorySource>(std::move(bytes)));
  }
  return contents;
}

std::string read_file(const fs::path& path) {
  const auto file = ReadOnlyFile::open(path);
  CHECK(file.has_value());
  std::string bytes(file->size(), '\0');
  CHECK(file->read_at(0, std::as_writable_bytes(std::span(bytes))).has_value());
  return bytes;
}

class PiecedModel : public ::testing::Test {
 protected:
  PiecedModel() {
    std::string name = (fs::temp_directory_path() / "salvage-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~PiecedModel() override { fs::remove_all(folder_); }

  // The three kinds of files, made from the model and made from its pieces.
  void expect_equal_files(const TinyModel& tiny, const std::vector<LayerRange>& stages) {
    const auto model = tiny.open();
    ASSERT_TRUE(model);
    const auto pieced = open_skeleton(skeleton_of(tiny), contents_of(*model));
    ASSERT_TRUE(pieced) << pieced.error().message();
    const auto digest = model_digest(*model);
    ASSERT_TRUE(digest);
    const fs::path a = folder_ / "a.gguf";
    const fs::path b = folder_ / "b.gguf";
    for (const LayerRange layers : stages) {
      ASSERT_TRUE(write_shard(*model, layers, a));
      const auto made = write_shard(*pieced, layers, b, {.model_digest = *digest});
      ASSERT_TRUE(made) << made.error().message();
      EXPECT_EQ(read_file(a), read_file(b)) << layers.begin << "-" << layers.end;
    }
    ASSERT_TRUE(write_embedding_table(*model, a));
    ASSERT_TRUE(write_embedding_table(*pieced, b, {.model_digest = *digest}));
    EXPECT_EQ(read_file(a), read_file(b));
    ASSERT_TRUE(write_vocabulary(*model, a));
    ASSERT_TRUE(write_vocabulary(*pieced, b));
    EXPECT_EQ(read_file(a), read_file(b));
  }

  fs::path folder_;
};

TEST_F(PiecedModel, makes_the_same_bits_as_the_model) {
  expect_equal_files(tiny_model("llama", 4), {{0, 1}, {1, 3}, {2, 4}, {3, 4}, {0, 4}});
}

TEST_F(PiecedModel, makes_the_same_bits_if_its_head_is_tied) {
  TinyModel tiny = tiny_model("llama", 3);
  tiny.remove("output.weight");
  expect_equal_files(tiny, {{0, 1}, {1, 3}, {0, 3}});
}

TEST_F(PiecedModel, makes_the_same_bits_with_tensors_in_any_order_and_another_alignment) {
  TinyModel tiny = tiny_model("llama", 12);
  tiny.metadata.set("general.alignment", Value::u32(64));
  tiny.add("rope_freqs.weight", 5, 1);
  Random random(3);
  for (std::size_t i = tiny.tensors.size(); i > 1; --i) {
    std::swap(tiny.tensors[i - 1], tiny.tensors[random.below(i)]);
  }
  expect_equal_files(tiny, {{0, 11}, {9, 12}});
}

TEST_F(PiecedModel, makes_a_stage_from_the_pieces_it_needs_alone) {
  const TinyModel tiny = tiny_model("llama", 4);
  const auto model = tiny.open();
  ASSERT_TRUE(model);
  const auto pieces = list_pieces(*model);
  const auto digest = model_digest(*model);
  ASSERT_TRUE(pieces && digest);
  for (const LayerRange layers : {LayerRange{0, 2}, {1, 3}, {2, 4}}) {
    const auto needed = needed_pieces(*model, *pieces, layers);
    ASSERT_TRUE(needed);
    PieceContents all = contents_of(*model);
    PieceContents some(all.size());
    for (const std::size_t index : *needed) some[index] = std::move(all[index]);
    const auto pieced = open_skeleton(skeleton_of(tiny), std::move(some));
    ASSERT_TRUE(pieced);
    const fs::path path = folder_ / "shard.gguf";
    EXPECT_TRUE(write_shard(*pieced, layers, path, {.model_digest = *digest}));
    if (layers.begin == 0) {
      EXPECT_TRUE(write_embedding_table(*pieced, path, {.model_digest = *digest}));
    }
  }
}

TEST_F(PiecedModel, names_the_piece_that_is_missing) {
  const TinyModel tiny = tiny_model("llama", 4);
  const auto model = tiny.open();
  ASSERT_TRUE(model);
  PieceContents contents = contents_of(*model);
  contents[2].reset();
  const auto pieced = open_skeleton(skeleton_of(tiny), std::move(contents), "my model");
  ASSERT_TRUE(pieced);
  const auto made =
      write_shard(*pieced, {0, 2}, folder_ / "a.gguf", {.model_digest = std::string(64, 'd')});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(made.error().message(), HasSubstr("my model"));
  EXPECT_THAT(made.error().message(), HasSubstr("layer 1 is not on this machine"));
  EXPECT_FALSE(fs::exists(folder_ / "a.gguf"));
}

TEST_F(PiecedModel, refuses_a_piece_of_another_size) {
  const TinyModel tiny = tiny_model("llama", 1);
  const auto model = tiny.open();
  ASSERT_TRUE(model);
  PieceContents contents = contents_of(*model);
  contents[1] = std::make_unique<MemorySource>("short");
  const auto pieced = open_skeleton(skeleton_of(tiny), std::move(contents));
  ASSERT_FALSE(pieced);
  EXPECT_EQ(pieced.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(pieced.error().message(), HasSubstr("layer 0"));
}

TEST(Skeleton, tells_the_same_of_a_model_as_its_file) {
  const TinyModel tiny = tiny_model("llama", 4);
  const auto model = tiny.open();
  const auto bare = open_skeleton(skeleton_of(tiny));
  ASSERT_TRUE(model && bare);
  EXPECT_EQ(bare->metadata().entries(), model->metadata().entries());
  ASSERT_EQ(bare->tensors().size(), model->tensors().size());
  for (std::size_t i = 0; i < model->tensors().size(); ++i) {
    EXPECT_EQ(bare->tensors()[i].name, model->tensors()[i].name);
    EXPECT_EQ(bare->tensors()[i].bytes, model->tensors()[i].bytes);
  }
  const auto from_file = read_manifest(*model);
  const auto from_skeleton = read_manifest(*bare);
  ASSERT_TRUE(from_file && from_skeleton);
  EXPECT_EQ(from_skeleton->stage_bytes({1, 3}), from_file->stage_bytes({1, 3}));
  EXPECT_EQ(from_skeleton->output_bytes, from_file->output_bytes);
  EXPECT_LT(skeleton_of(tiny).size(), tiny.bytes().size());
}

TEST(Skeleton, keeps_nothing_of_parts_and_of_our_own_keys) {
  const TinyModel tiny = tiny_model("llama", 1);
  TinyModel marked = tiny;
  marked.metadata.set("split.count", Value::u32(1));
  marked.metadata.set("salvage.note", Value::string("x"));
  EXPECT_EQ(skeleton_of(marked), skeleton_of(tiny));
  MemorySink sink;
  ASSERT_TRUE(write_gguf_header(marked.metadata, marked.tensors, sink));
  const auto opened = open_skeleton(sink.bytes());
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message(), HasSubstr("no place in a skeleton"));
}

TEST(Skeleton, that_is_cut_or_continued_anywhere_is_refused) {
  const std::string bytes = skeleton_of(tiny_model("llama", 2));
  ASSERT_TRUE(open_skeleton(bytes));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto opened = open_skeleton(bytes.substr(0, length));
    ASSERT_FALSE(opened) << length;
  }
  EXPECT_FALSE(open_skeleton(bytes + '\0'));
  EXPECT_FALSE(open_skeleton(bytes + bytes));
}

TEST(Skeleton, with_any_bit_flipped_is_an_error_or_another_skeleton) {
  const std::string bytes = skeleton_of(tiny_model("llama", 1));
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    const auto opened = open_skeleton(changed);
    refused += opened ? 0 : 1;
    if (!opened) continue;
    // It reads, so it must say what it says consistently.
    const auto pieces = list_pieces(*opened);
    ASSERT_TRUE(pieces) << bit;
    (void)read_manifest(*opened);
  }
  EXPECT_GT(refused, bytes.size());
}

TEST(Skeleton, over_the_limit_is_refused_on_both_sides) {
  TinyModel tiny = tiny_model("llama", 1);
  tiny.metadata.set("tokenizer.chat_template", Value::string(std::string(kStringBytesMax, 'x')));
  const auto model = tiny.open();
  ASSERT_TRUE(model);
  const auto skeleton = make_skeleton(*model);
  ASSERT_FALSE(skeleton);
  EXPECT_EQ(skeleton.error().code(), ErrorCode::kUnsupported);
  const auto opened = open_skeleton(std::string(kSkeletonBytesMax + 1, 'G'));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace salvage::model
