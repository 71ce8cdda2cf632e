// Goal: each shard is made once, a damaged one again, and a full cache loses what was used longest
// ago. Method: models of a few kilobytes, a temporary folder.

#include "store/shard_cache.h"

#include <chrono>
#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"
#include "model/gguf_writer.h"
#include "model/shard.h"
#include "model/tiny_model.h"

namespace salvage::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

const std::vector<LayerRange> kHalves = {{0, 2}, {2, 4}};
constexpr std::uint64_t kPlenty = std::uint64_t{1} << 30;

class Shards : public ::testing::Test {
 protected:
  Shards() {
    std::string name = (fs::temp_directory_path() / "salvage-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
  }
  ~Shards() override { fs::remove_all(root_); }

  // Models of different names have different digests.
  static model::Gguf model_named(const std::string& name) {
    model::TinyModel tiny = model::tiny_model("llama", 4);
    tiny.metadata.set("general.name", model::Value::string(name));
    auto opened = tiny.open();
    CHECK(opened.has_value());
    return std::move(*opened);
  }
  ModelFiles prepare(const model::Gguf& model, std::uint64_t bytes_max = kPlenty,
                     const std::vector<LayerRange>& stages = kHalves) {
    made_.clear();
    ShardCache cache(root_, bytes_max);
    auto files = cache.prepare(model, stages, [this](const std::string& file, double) {
      if (made_.empty() || made_.back() != file) made_.push_back(file);
      return true;
    });
    EXPECT_TRUE(files) << files.error().message();
    return files ? *files : ModelFiles{};
  }
  static void used_hours_ago(const ModelFiles& files, int hours) {
    fs::last_write_time(files.vocabulary.parent_path(),
                        fs::file_time_type::clock::now() - std::chrono::hours(hours));
  }

  fs::path root_;
  std::vector<std::string> made_;  // by the last prepare()
};

TEST_F(Shards, are_made_with_all_that_a_pipeline_needs) {
  const ModelFiles files = prepare(model_named("a"));
  EXPECT_THAT(made_, ElementsAre("layers-0-2.gguf", "layers-2-4.gguf"));
  ASSERT_EQ(files.shards.size(), 2U);
  for (std::size_t i = 0; i < kHalves.size(); ++i) {
    const auto shard = model::Gguf::open(files.shards[i]);
    ASSERT_TRUE(shard) << shard.error().message();
    const auto facts = model::read_shard_facts(*shard);
    ASSERT_TRUE(facts && *facts);
    EXPECT_EQ((*facts)->layers, kHalves[i]);
  }
  EXPECT_TRUE(model::Gguf::open(files.embedding_table));
  EXPECT_TRUE(model::Gguf::open(files.vocabulary));
  EXPECT_GT(files.made_bytes, 0U);
}

// The size stays the same and the metadata whole: only the content tells.
TEST_F(Shards, with_changed_weights_are_made_again) {
  const ModelFiles files = prepare(model_named("a"));
  const fs::path shard = files.shards[1];
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-8, std::ios::end);
  file.write("damaged!", 8);
  file.close();
  fs::last_write_time(shard, fs::last_write_time(shard) + std::chrono::seconds(1));
  prepare(model_named("a"));
  EXPECT_THAT(made_, ElementsAre("layers-2-4.gguf"));
  prepare(model_named("a"));
  EXPECT_TRUE(made_.empty());
}

TEST_F(Shards, that_were_only_touched_stay) {
  const ModelFiles files = prepare(model_named("a"));
  fs::last_write_time(files.shards[0], fs::file_time_type::clock::now());
  prepare(model_named("a"));
  EXPECT_TRUE(made_.empty());
}

TEST_F(Shards, without_a_seal_are_made_again) {
  const ModelFiles files = prepare(model_named("a"));
  fs::remove(files.shards[0].string() + ".seal");
  prepare(model_named("a"));
  EXPECT_THAT(made_, ElementsAre("layers-0-2.gguf"));
}

TEST_F(Shards, are_made_once) {
  const model::Gguf model = model_named("a");
  const ModelFiles first = prepare(model);
  const auto time = fs::last_write_time(first.shards[0]);
  const ModelFiles second = prepare(model);
  EXPECT_THAT(made_, ElementsAre());
  EXPECT_EQ(second.made_bytes, 0U);
  EXPECT_EQ(second.shards, first.shards);
  EXPECT_EQ(fs::last_write_time(second.shards[0]), time);
}

TEST_F(Shards, that_another_split_shares_are_not_made_again) {
  const model::Gguf model = model_named("a");
  prepare(model);
  prepare(model, kPlenty, {{0, 2}, {2, 3}, {3, 4}});
  EXPECT_THAT(made_, ElementsAre("layers-2-3.gguf", "layers-3-4.gguf"));
}

TEST_F(Shards, that_are_damaged_are_made_again) {
  const model::Gguf model = model_named("a");
  const ModelFiles files = prepare(model);
  const auto whole = fs::file_size(files.shards[1]);
  fs::resize_file(files.shards[1], whole / 2);
  fs::resize_file(files.embedding_table, 10);
  fs::resize_file(files.vocabulary, 0);
  const ModelFiles again = prepare(model);
  EXPECT_THAT(made_, ElementsAre("layers-2-4.gguf"));
  EXPECT_EQ(fs::file_size(again.shards[1]), whole);
  EXPECT_TRUE(model::Gguf::open(again.embedding_table));
  EXPECT_TRUE(model::Gguf::open(again.vocabulary));
}

TEST_F(Shards, under_a_wrong_name_are_made_again) {
  const model::Gguf model = model_named("a");
  const ModelFiles files = prepare(model);
  fs::copy_file(files.shards[1], files.shards[0], fs::copy_options::overwrite_existing);
  prepare(model);
  EXPECT_THAT(made_, ElementsAre("layers-0-2.gguf"));
}

TEST_F(Shards, that_another_version_treated_otherwise_are_made_again) {
  const model::Gguf model = model_named("a");
  const ModelFiles files = prepare(model);
  {
    const auto made = model::Gguf::open(files.shards[1]);
    ASSERT_TRUE(made);
    model::Metadata metadata = made->metadata();
    metadata.set("llama.embedding_scale", model::Value::f32(0.0F));
    std::vector<model::OutputTensor> tensors;
    for (const model::TensorInfo& tensor : made->tensors()) {
      tensors.push_back(model::copy_of(*made, tensor, tensor.name));
    }
    auto file = AtomicFile::create(files.shards[1], 0);
    ASSERT_TRUE(file);
    ASSERT_TRUE(model::write_gguf(metadata, tensors, *file, {}));
    ASSERT_TRUE(file->commit());
  }
  prepare(model);
  EXPECT_THAT(made_, ElementsAre("layers-2-4.gguf"));
}

TEST_F(Shards, of_different_models_have_folders_of_their_own) {
  const ModelFiles a = prepare(model_named("a"));
  const ModelFiles b = prepare(model_named("b"));
  EXPECT_NE(a.vocabulary.parent_path(), b.vocabulary.parent_path());
  EXPECT_TRUE(fs::exists(a.shards[0]));
}

TEST_F(Shards, of_a_full_cache_go_by_their_last_use) {
  const ModelFiles a = prepare(model_named("a"));
  std::uint64_t one = 0;
  for (const auto& file : fs::directory_iterator(a.vocabulary.parent_path())) {
    one += file.file_size();
  }
  const ModelFiles b = prepare(model_named("b"));
  const ModelFiles c = prepare(model_named("c"));
  used_hours_ago(a, 3);
  used_hours_ago(b, 2);
  used_hours_ago(c, 1);
  prepare(model_named("a"), 2 * one + one / 2);  // three do not fit; a has just been used
  EXPECT_TRUE(fs::exists(a.shards[0]));
  EXPECT_FALSE(fs::exists(b.vocabulary.parent_path()));
  EXPECT_TRUE(fs::exists(c.shards[0]));
}

TEST_F(Shards, that_are_asked_for_stay_whatever_the_limit) {
  const ModelFiles a = prepare(model_named("a"), 1);
  const ModelFiles again = prepare(model_named("a"), 1);
  EXPECT_EQ(again.made_bytes, 0U);
  EXPECT_TRUE(fs::exists(a.shards[0]));
}

TEST_F(Shards, are_not_half_made_when_somebody_stops) {
  ShardCache cache(root_, kPlenty);
  const auto files =
      cache.prepare(model_named("a"), kHalves, [](const std::string&, double) { return false; });
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().code(), ErrorCode::kCancelled);
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    EXPECT_EQ(entry.path().filename().string().find("layers-"), std::string::npos);
  }
}

TEST_F(Shards, need_a_folder_that_can_be_made) {
  std::ofstream(root_ / "file") << "x";
  ShardCache cache(root_ / "file" / "cache", kPlenty);
  const auto files = cache.prepare(model_named("a"), kHalves, {});
  ASSERT_FALSE(files);
  EXPECT_THAT(files.error().message(), ::testing::HasSubstr("SALVAGE_CACHE"));
}

TEST(DefaultRoot, follows_the_environment_the_most_special_first) {
  for (const char* name : {"SALVAGE_CACHE", "XDG_CACHE_HOME", "HOME"}) ::unsetenv(name);
  EXPECT_EQ(ShardCache::default_root(), "/var/cache/salvage/shards");
  ::setenv("HOME", "/h", 1);
  EXPECT_EQ(ShardCache::default_root(), "/h/.cache/salvage/shards");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(ShardCache::default_root(), "/x/salvage/shards");
  ::setenv("SALVAGE_CACHE", "/s", 1);
  EXPECT_EQ(ShardCache::default_root(), "/s/shards");
}

}  // namespace
}  // namespace salvage::store
