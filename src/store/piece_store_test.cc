// Goal: a machine fetches what it lacks and nothing else, what is made of pieces is bit for bit
// what is made of the model, and no kill, damage or full disk leaves more to do than to fetch a
// piece again. Method: stores of several machines in temporary folders, models of a few kilobytes,
// files damaged by hand, children killed at every step.

#include "store/piece_store.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "model/shard.h"
#include "model/tiny_model.h"
#include "store/store_state.h"

namespace salvage::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// As a disk does it: nobody wrote, so the time of change stays.
void flip_silently(const fs::path& path, std::uint64_t at) {
  const auto time = fs::last_write_time(path);
  std::string bytes = read_file(path);
  bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
  write_file(path, bytes);
  fs::last_write_time(path, time);
}

// As a repair tool or a bad copy does it.
void flip_with_notice(const fs::path& path, std::uint64_t at) {
  const auto time = fs::last_write_time(path);
  flip_silently(path, at);
  fs::last_write_time(path, time + std::chrono::seconds(1));
}

std::uint64_t offset_of(const fs::path& file, const std::string& tensor) {
  const auto gguf = model::Gguf::open(file);
  CHECK(gguf.has_value() && gguf->find_tensor(tensor) != nullptr);
  return gguf->find_tensor(tensor)->offset;
}

std::string bytes_of(const ByteSource& source) {
  std::string bytes(source.size(), '\0');
  const auto done = source.read_at(0, std::as_writable_bytes(std::span(bytes)));
  EXPECT_TRUE(done) << done.error().message();
  return bytes;
}

std::vector<std::string> names_of(const std::vector<model::PieceEntry>& pieces) {
  std::vector<std::string> names;
  for (const model::PieceEntry& piece : pieces) names.push_back(piece.name);
  return names;
}

std::vector<std::string> names_of(const std::vector<DamagedPiece>& pieces) {
  std::vector<std::string> names;
  for (const DamagedPiece& piece : pieces) names.push_back(piece.piece);
  return names;
}

Result<void> fail_of(const Result<std::unique_ptr<PieceWriter>>& writer) {
  return fail(writer.error());
}

std::unique_ptr<PieceStore> open_store(const fs::path& root, StoreOptions options = {}) {
  auto store = PieceStore::open(root, std::move(options));
  EXPECT_TRUE(store) << store.error().message();
  CHECK(store.has_value());
  return std::move(*store);
}

Result<void> fetch_piece(const PieceStore& from, PieceStore& to, const PieceDigest& digest) {
  ASSIGN_OR_RETURN(const auto reader, from.reader(digest));
  const std::string bytes = bytes_of(*reader);
  ASSIGN_OR_RETURN(const auto writer, to.begin_fetch(digest));
  const auto rest = std::as_bytes(std::span(bytes)).subspan(writer->offset());
  RETURN_IF_ERROR(writer->write(writer->offset(), rest));
  return writer->finish();
}

Result<void> announce(const PieceStore& from, PieceStore& to, const ModelId& id) {
  ASSIGN_OR_RETURN(const model::CatalogueEntry entry, from.entry(id));
  ASSIGN_OR_RETURN(const std::string skeleton, from.skeleton(id));
  return to.put_model(entry, skeleton);
}

// What an agent does: says what was fetched.
Result<std::vector<std::string>> fetch_stage(const PieceStore& from, PieceStore& to,
                                             const StageOrder& order) {
  ASSIGN_OR_RETURN(const StageNeeds needs, to.stage_needs(order.model, order.layers));
  RETURN_IF_ERROR(to.check_room(order.model, order.layers));
  for (const model::PieceEntry& piece : needs.missing) {
    RETURN_IF_ERROR(fetch_piece(from, to, piece.digest));
  }
  RETURN_IF_ERROR(to.make_stage(order, {}));
  return names_of(needs.missing);
}

class Store : public ::testing::Test {
 protected:
  Store() {
    set_log({.level = LogLevel::kError});  // damage is what most of these tests are about
    write_file(file_, model::tiny_model("llama", 4).bytes());
    source_ = open_store(root_ / "source");
    const auto id = source_->import_model(file_, "tiny", {});
    EXPECT_TRUE(id) << id.error().message();
    id_ = *id;
    node_ = open_store(node_root_);
    EXPECT_TRUE(announce(*source_, *node_, id_));
  }
  ~Store() override {
    node_.reset();
    source_.reset();
    fs::remove_all(root_);
  }

  void reopen() {
    node_.reset();
    node_ = open_store(node_root_);
  }
  std::vector<std::string> fetch(LayerRange layers, std::set<PieceDigest> spares = {}) {
    const auto fetched = fetch_stage(*source_, *node_, {id_, layers, std::move(spares)});
    EXPECT_TRUE(fetched) << fetched.error().message();
    return fetched ? *fetched : std::vector<std::string>{"failed"};
  }
  Result<void> fetch_raw(LayerRange layers) {
    ASSIGN_OR_RETURN(const StageNeeds needs, node_->stage_needs(id_, layers));
    for (const model::PieceEntry& piece : needs.missing) {
      RETURN_IF_ERROR(fetch_piece(*source_, *node_, piece.digest));
    }
    return {};
  }
  PieceDigest digest(const std::string& name) const {
    const auto entry = source_->entry(id_);
    for (const model::PieceEntry& piece : entry->pieces) {
      if (piece.name == name) return piece.digest;
    }
    ADD_FAILURE() << name;
    return {};
  }
  std::vector<std::string> missing(LayerRange layers) {
    const auto needs = node_->stage_needs(id_, layers);
    EXPECT_TRUE(needs) << needs.error().message();
    return needs ? names_of(needs->missing) : std::vector<std::string>{"failed"};
  }
  // What write_shard() makes of the model itself.
  std::string shard_from_model(LayerRange layers) const {
    const auto model = model::Gguf::open(file_);
    CHECK(model.has_value());
    CHECK(model::write_shard(*model, layers, root_ / "wanted.gguf").has_value());
    return read_file(root_ / "wanted.gguf");
  }
  void expect_stage_is_right(LayerRange layers) {
    const auto files = node_->make_stage({id_, layers, {}}, {});
    ASSERT_TRUE(files) << files.error().message();
    EXPECT_EQ(read_file(files->shard), shard_from_model(layers));
    EXPECT_EQ(files->embedding_table.empty(), layers.begin != 0);
    if (layers.begin != 0) return;
    const auto model = model::Gguf::open(file_);
    CHECK(model::write_embedding_table(*model, root_ / "wanted.gguf").has_value());
    EXPECT_EQ(read_file(files->embedding_table), read_file(root_ / "wanted.gguf"));
  }
  fs::path model_folder() const { return node_root_ / "models" / id_.value.substr(0, 32); }
  fs::path shard_path(const std::string& layers) const {
    return model_folder() / "shards" / ("layers-" + layers + ".gguf");
  }
  fs::path raw_path(const std::string& piece) const {
    return model_folder() / "pieces" / digest(piece).value;
  }
  fs::path part_path(const std::string& piece) const { return raw_path(piece).native() + ".part"; }

  static fs::path make_root() {
    std::string name = (fs::temp_directory_path() / "salvage-XXXXXX").string();
    return ::mkdtemp(name.data());
  }

  const fs::path root_ = make_root();
  const fs::path file_ = root_ / "tiny.gguf";
  const fs::path node_root_ = root_ / "node";
  ModelId id_;
  std::unique_ptr<PieceStore> source_;  // has the model's file
  std::unique_ptr<PieceStore> node_;    // begins with nothing
};

// --- models and pieces ---

TEST_F(Store, hashes_a_model_where_it_lies_and_copies_nothing) {
  EXPECT_EQ(source_->inventory(id_).size(), 7U);
  const StoreUsage usage = source_->usage();
  ASSERT_EQ(usage.models.size(), 1U);
  EXPECT_EQ(usage.models[0].raw_bytes + usage.models[0].shard_bytes, 0U);
  EXPECT_GT(usage.models[0].other_bytes, 0U);
  EXPECT_EQ(source_->entry(id_)->name, "tiny");
}

TEST_F(Store, hashes_a_model_once_until_its_file_changes) {
  int steps = 0;
  const StoreProgress count = [&](std::string_view, double) { return ++steps > 0; };
  const auto again = source_->import_model(file_, "tiny", count);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, id_);
  EXPECT_EQ(steps, 0);
  fs::last_write_time(file_, fs::last_write_time(file_) + std::chrono::seconds(1));
  EXPECT_EQ(source_->import_model(file_, "tiny", count).value(), id_);
  EXPECT_GT(steps, 0);
}

TEST_F(Store, a_file_names_the_model_that_was_imported_from_it) {
  EXPECT_EQ(source_->model_of(file_).value(), id_);
  EXPECT_EQ(source_->model_of(root_ / "source" / ".." / file_.filename()).value(), id_);
  EXPECT_EQ(source_->model_of(root_ / "other.gguf").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(node_->model_of(file_).error().code(), ErrorCode::kNotFound) << "it only heard of it";
  // Another model under the same name: what the file holds now is meant.
  write_file(file_, model::tiny_model("llama", 5).bytes());
  EXPECT_EQ(source_->model_of(file_).value(), id_) << "the new one is not known yet";
  const auto other = source_->import_model(file_, "larger", {});
  ASSERT_TRUE(other) << other.error().message();
  EXPECT_EQ(source_->model_of(file_).value(), *other);
  flip_with_notice(file_, fs::file_size(file_) - 1);
  EXPECT_EQ(source_->model_of(file_).error().code(), ErrorCode::kInvalidArgument);
  fs::remove(file_);
  EXPECT_FALSE(source_->model_of(file_)) << "which of the two it was nobody can tell";
}

TEST_F(Store, knows_its_models_again_after_a_restart) {
  fetch({1, 3});
  source_.reset();
  source_ = open_store(root_ / "source");
  const auto known_since = node_->known_since_s(id_);
  reopen();
  EXPECT_EQ(source_->inventory(id_).size(), 7U);
  ASSERT_TRUE(known_since);
  EXPECT_GT(*known_since, 1'700'000'000);
  EXPECT_EQ(*node_->known_since_s(id_), *known_since) << "a restart makes no model new";
  EXPECT_FALSE(node_->known_since_s(ModelId{std::string(64, '0')}));
  EXPECT_THAT(missing({1, 3}), IsEmpty());
  ASSERT_EQ(node_->models().size(), 1U);
  EXPECT_EQ(node_->models()[0], *source_->entry(id_));
}

TEST_F(Store, is_of_one_process_at_a_time) {
  const auto second = PieceStore::open(node_root_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().message(), HasSubstr(std::to_string(::getpid())));
}

TEST_F(Store, refuses_a_skeleton_that_the_entry_does_not_name) {
  const auto store = open_store(root_ / "third");
  const auto entry = source_->entry(id_);
  std::string skeleton = *source_->skeleton(id_);
  skeleton.back() = static_cast<char>(skeleton.back() ^ 1);
  const auto put = store->put_model(*entry, skeleton);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code(), ErrorCode::kCorrupt);
  model::CatalogueEntry lying = *entry;
  lying.pieces[1].bytes += 1;
  EXPECT_FALSE(store->put_model(lying, *source_->skeleton(id_)));
  EXPECT_TRUE(store->models().empty());
}

TEST_F(Store, takes_a_file_of_the_same_model_as_another_source) {
  const fs::path copy = root_ / "copy.gguf";
  fs::copy_file(file_, copy);
  const auto added = node_->add_source(id_, copy, {});
  ASSERT_TRUE(added) << added.error().message();
  EXPECT_THAT(missing({0, 4}), IsEmpty());
  expect_stage_is_right({0, 4});
  reopen();
  EXPECT_EQ(node_->inventory(id_).size(), 7U);
}

TEST_F(Store, refuses_a_file_of_another_model_as_a_source) {
  model::TinyModel other = model::tiny_model("llama", 4);
  std::get<model::GivenData>(other.tensors[5].data).bytes[3] ^= 1;
  write_file(root_ / "other.gguf", other.bytes());
  const auto added = node_->add_source(id_, root_ / "other.gguf", {});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(added.error().message(), HasSubstr("layer 1"));
  EXPECT_TRUE(node_->inventory(id_).empty());
}

TEST_F(Store, refuses_a_shard_as_a_model) {
  fetch({1, 3});
  const auto imported = source_->import_model(shard_path("1-3"), "", {});
  ASSERT_FALSE(imported);
  EXPECT_EQ(imported.error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(Store, no_longer_serves_from_a_model_file_that_changed) {
  flip_with_notice(file_, offset_of(file_, "blk.2.ffn_up.weight"));
  EXPECT_TRUE(source_->stage_needs(id_, {0, 4}));
  EXPECT_TRUE(source_->inventory(id_).empty());
}

TEST_F(Store, gives_out_bytes_that_hash_to_their_name) {
  fetch({1, 3});
  for (const PieceStore* const store : {source_.get(), node_.get()}) {
    for (const PieceDigest& held : store->inventory(id_)) {
      const auto reader = store->reader(held);
      ASSERT_TRUE(reader) << reader.error().message();
      EXPECT_EQ(model::hash_content(**reader)->value, held.value);
    }
  }
  EXPECT_EQ(node_->inventory(id_).size(), 3U);
  const auto unknown = node_->reader(PieceDigest{std::string(64, '0')});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), ErrorCode::kNotFound);
}

// --- fetching ---

TEST_F(Store, a_piece_may_come_in_any_order_and_over_several_runs) {
  const PieceDigest piece = digest("layer 1");
  const std::string bytes = bytes_of(**source_->reader(piece));
  const auto view = std::as_bytes(std::span(bytes));
  {
    const auto writer = node_->begin_fetch(piece);
    ASSERT_TRUE(writer);
    ASSERT_TRUE((*writer)->write(20, view.subspan(20, 30)));
    ASSERT_TRUE((*writer)->write(90, view.subspan(90, 10)));
    EXPECT_EQ((*writer)->offset(), 0U);
    ASSERT_TRUE((*writer)->write(0, view.first(25)));  // overlaps
    EXPECT_EQ((*writer)->offset(), 50U);
    EXPECT_FALSE((*writer)->finish());
  }
  reopen();
  EXPECT_FALSE(node_->has(piece));
  EXPECT_EQ(node_->stage_needs(id_, {1, 3})->resumed_bytes, 50U);
  {
    const auto writer = node_->begin_fetch(piece);
    ASSERT_TRUE(writer);
    EXPECT_EQ((*writer)->offset(), 50U);
    ASSERT_TRUE((*writer)->write(50, view.subspan(50)));
    ASSERT_TRUE((*writer)->complete());
    const auto finished = (*writer)->finish();
    ASSERT_TRUE(finished) << finished.error().message();
  }
  EXPECT_TRUE(node_->has(piece));
  EXPECT_EQ(read_file(raw_path("layer 1")), bytes);
  EXPECT_FALSE(fs::exists(part_path("layer 1")));
}

TEST_F(Store, a_piece_with_any_byte_wrong_is_thrown_away_by_name) {
  const PieceDigest piece = digest("layer 2");
  const std::string good = bytes_of(**source_->reader(piece));
  for (std::size_t at = 0; at < good.size(); at += 37) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    const auto writer = node_->begin_fetch(piece);
    ASSERT_TRUE(writer);
    ASSERT_TRUE((*writer)->write(0, std::as_bytes(std::span(bad))));
    const auto finished = (*writer)->finish();
    ASSERT_FALSE(finished);
    EXPECT_EQ(finished.error().code(), ErrorCode::kCorrupt);
    EXPECT_THAT(finished.error().message(), HasSubstr("layer 2 of tiny"));
    EXPECT_EQ((*writer)->offset(), 0U);
    if (at > 0) continue;
    // The same writer takes the right bytes.
    ASSERT_TRUE((*writer)->write(0, std::as_bytes(std::span(good))));
    EXPECT_TRUE((*writer)->finish());
    fs::remove(raw_path("layer 2"));
    EXPECT_THAT(missing({1, 3}), ElementsAre("layer 1", "layer 2", "shared"));
  }
}

TEST_F(Store, goes_on_after_a_cut_at_every_byte) {
  const PieceDigest piece = digest("shared");
  const std::string bytes = bytes_of(**source_->reader(piece));
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    write_file(part_path("shared"), bytes.substr(0, cut));
    ASSERT_TRUE(fetch_piece(*source_, *node_, piece)) << cut;
    ASSERT_EQ(read_file(raw_path("shared")), bytes);
    fs::remove(raw_path("shared"));
    ASSERT_THAT(missing({1, 3}), ElementsAre("layer 1", "layer 2", "shared"));
  }
}

TEST_F(Store, begins_again_if_what_was_begun_is_longer_than_the_piece) {
  const std::string bytes = bytes_of(**source_->reader(digest("shared")));
  write_file(part_path("shared"), bytes + "x");
  ASSERT_TRUE(fetch_piece(*source_, *node_, digest("shared")));
  EXPECT_EQ(read_file(raw_path("shared")), bytes);
}

TEST_F(Store, finds_damage_in_what_an_earlier_run_began) {
  std::string bytes = bytes_of(**source_->reader(digest("shared")));
  bytes[3] = static_cast<char>(bytes[3] ^ 1);
  write_file(part_path("shared"), bytes.substr(0, 40));
  const auto first = fetch_piece(*source_, *node_, digest("shared"));
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code(), ErrorCode::kCorrupt);
  EXPECT_TRUE(fetch_piece(*source_, *node_, digest("shared")));
}

TEST_F(Store, refuses_pieces_it_does_not_know_and_bytes_that_have_no_place) {
  const auto unknown = node_->begin_fetch(PieceDigest{std::string(64, '0')});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), ErrorCode::kNotFound);
  EXPECT_FALSE(node_->begin_fetch(PieceDigest{"../../evil"}));
  const auto writer = node_->begin_fetch(digest("layer 0"));
  ASSERT_TRUE(writer);
  const auto second = node_->begin_fetch(digest("layer 0"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), ErrorCode::kUnavailable);
  const std::string bytes((*writer)->bytes() + 1, 'x');
  EXPECT_FALSE((*writer)->write(0, std::as_bytes(std::span(bytes))));
  EXPECT_FALSE((*writer)->write(UINT64_MAX, std::as_bytes(std::span(bytes))));
}

TEST_F(Store, keeps_no_more_than_a_window_in_memory) {
  model::TinyModel big = model::tiny_model("llama", 2);
  big.add("blk.0.big.weight", 1024, (kAheadBytesMax >> 12) + 1024);
  write_file(root_ / "big.gguf", big.bytes());
  const auto id = source_->import_model(root_ / "big.gguf", "big", {});
  ASSERT_TRUE(id);
  ASSERT_TRUE(announce(*source_, *node_, *id));
  const auto writer = node_->begin_fetch(node_->entry(*id)->pieces[1].digest);
  ASSERT_TRUE(writer);
  ASSERT_GT((*writer)->bytes(), kAheadBytesMax + 2);
  const std::string bytes(kAheadBytesMax, 'x');
  EXPECT_TRUE((*writer)->write(1, std::as_bytes(std::span(bytes))));
  const auto more = (*writer)->write(kAheadBytesMax + 1, std::as_bytes(std::span(bytes)).first(1));
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE((*writer)->write(0, std::as_bytes(std::span(bytes)).first(1)));
  EXPECT_EQ((*writer)->offset(), kAheadBytesMax + 1);
}

// --- stages ---

TEST_F(Store, a_stage_fetches_its_pieces_and_is_bit_for_bit_the_models) {
  EXPECT_THAT(fetch({1, 3}), ElementsAre("layer 1", "layer 2", "shared"));
  expect_stage_is_right({1, 3});
  EXPECT_THAT(fetch({0, 1}), ElementsAre("embedding", "layer 0"));
  expect_stage_is_right({0, 1});
  EXPECT_THAT(fetch({3, 4}), ElementsAre("layer 3", "output"));
  expect_stage_is_right({3, 4});
}

TEST_F(Store, a_stage_of_a_tied_model_works_too) {
  model::TinyModel tied = model::tiny_model("llama", 2);
  tied.remove("output.weight");
  write_file(root_ / "tied.gguf", tied.bytes());
  const auto id = source_->import_model(root_ / "tied.gguf", "tied", {});
  ASSERT_TRUE(id);
  ASSERT_TRUE(announce(*source_, *node_, *id));
  const auto fetched = fetch_stage(*source_, *node_, {*id, {1, 2}, {}});
  ASSERT_TRUE(fetched) << fetched.error().message();
  EXPECT_THAT(*fetched, ElementsAre("embedding", "layer 1", "shared"));
  const auto first = fetch_stage(*source_, *node_, {*id, {0, 1}, {}});
  ASSERT_TRUE(first);
  EXPECT_THAT(*first, ElementsAre("layer 0"));  // the last shard has the table
}

TEST_F(Store, a_stage_is_made_once_and_its_raw_pieces_go) {
  fetch({1, 3});
  const auto again = node_->make_stage({id_, {1, 3}, {}}, {});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->made_bytes, 0U);
  EXPECT_EQ(node_->usage().models[0].raw_bytes, 0U);
  EXPECT_TRUE(node_->stage_needs(id_, {1, 3})->nothing());
}

TEST_F(Store, spare_pieces_stay_raw) {
  fetch({1, 3}, {digest("layer 1")});
  EXPECT_TRUE(fs::exists(raw_path("layer 1")));
  EXPECT_FALSE(fs::exists(raw_path("layer 2")));
  ASSERT_TRUE(fetch_piece(*source_, *node_, digest("layer 3")));
  ASSERT_TRUE(node_->make_stage({id_, {1, 3}, {digest("layer 1")}}, {}));
  EXPECT_TRUE(fs::exists(raw_path("layer 3")));
}

TEST_F(Store, another_split_fetches_only_the_difference) {
  EXPECT_THAT(fetch({0, 2}), ElementsAre("embedding", "layer 0", "layer 1", "shared"));
  EXPECT_THAT(fetch({0, 1}), IsEmpty());
  expect_stage_is_right({0, 1});
  EXPECT_THAT(fetch({0, 3}), ElementsAre("layer 2"));
  expect_stage_is_right({0, 3});
  EXPECT_THAT(fetch({2, 4}), ElementsAre("layer 3", "output"));
  expect_stage_is_right({2, 4});
}

TEST_F(Store, a_node_that_has_shards_only_serves_others) {
  fetch({1, 3});
  const auto third = open_store(root_ / "third");
  ASSERT_TRUE(announce(*node_, *third, id_));
  const auto fetched = fetch_stage(*node_, *third, {id_, {1, 2}, {}});
  ASSERT_TRUE(fetched) << fetched.error().message();
  EXPECT_THAT(*fetched, ElementsAre("layer 1", "shared"));
  const auto files = third->make_stage({id_, {1, 2}, {}}, {});
  ASSERT_TRUE(files);
  EXPECT_EQ(read_file(files->shard), shard_from_model({1, 2}));
}

TEST_F(Store, the_machine_with_the_file_makes_its_stage_from_it) {
  EXPECT_TRUE(source_->stage_needs(id_, {0, 2})->missing.empty());
  const auto files = source_->make_stage({id_, {0, 2}, {}}, {});
  ASSERT_TRUE(files) << files.error().message();
  EXPECT_EQ(read_file(files->shard), shard_from_model({0, 2}));
}

TEST_F(Store, a_stage_without_its_pieces_names_them) {
  ASSERT_TRUE(fetch_piece(*source_, *node_, digest("layer 1")));
  const auto made = node_->make_stage({id_, {1, 3}, {}}, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(made.error().message(), HasSubstr("layer 2, shared of tiny"));
}

TEST_F(Store, layers_that_may_not_be_a_stage_are_refused) {
  for (const LayerRange layers : {LayerRange{2, 2}, {3, 9}}) {
    EXPECT_FALSE(node_->stage_needs(id_, layers));
    EXPECT_FALSE(node_->make_stage({id_, layers, {}}, {}));
  }
  const auto unknown = node_->make_stage({ModelId{std::string(64, 'f')}, {0, 1}, {}}, {});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), ErrorCode::kNotFound);
}

TEST_F(Store, a_stage_that_is_stopped_leaves_nothing_half_made) {
  ASSERT_TRUE(fetch_raw({1, 3}));
  const auto made =
      node_->make_stage({id_, {1, 3}, {}}, [](std::string_view, double) { return false; });
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), ErrorCode::kCancelled);
  EXPECT_TRUE(fs::is_empty(model_folder() / "shards"));
  expect_stage_is_right({1, 3});
}

TEST_F(Store, the_vocabulary_is_the_models) {
  const auto path = node_->vocabulary(id_);
  ASSERT_TRUE(path);
  const auto model = model::Gguf::open(file_);
  ASSERT_TRUE(model::write_vocabulary(*model, root_ / "wanted.gguf"));
  EXPECT_EQ(read_file(*path), read_file(root_ / "wanted.gguf"));
  flip_with_notice(*path, 40);
  ASSERT_TRUE(node_->vocabulary(id_));
  EXPECT_EQ(read_file(*path), read_file(root_ / "wanted.gguf"));
}

TEST_F(Store, room_on_the_disk_is_looked_at_first) {
  node_.reset();
  std::uint64_t free = 1000;
  node_ = open_store(node_root_, {.free_bytes = [&](const fs::path&) { return free; }});
  const auto needs = node_->stage_needs(id_, {1, 3});
  ASSERT_TRUE(needs);
  const std::uint64_t wanted = needs->missing_bytes() + needs->make_bytes;
  const auto short_of = node_->check_room(id_, {1, 3});
  ASSERT_FALSE(short_of);
  EXPECT_EQ(short_of.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(short_of.error().message(), HasSubstr((node_root_ / "models").native()));
  EXPECT_THAT(short_of.error().message(), HasSubstr(size_text(wanted - free) + " are short"));
  free = wanted;
  EXPECT_TRUE(node_->check_room(id_, {1, 3}));
  free = wanted - 1;
  EXPECT_FALSE(node_->check_room(id_, {1, 3}));
}

TEST_F(Store, a_stage_that_finds_no_room_is_not_made) {
  ASSERT_TRUE(fetch_raw({1, 3}));
  node_.reset();
  node_ = open_store(node_root_, {.free_bytes = [](const fs::path&) { return 10U; }});
  const auto made = node_->make_stage({id_, {1, 3}, {}}, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(fs::exists(raw_path("layer 1")));
}

// A limit on the size of files stands for a disk that fills up in the middle.
TEST_F(Store, a_disk_that_fills_up_costs_nothing_that_was_there) {
  const std::string bytes = bytes_of(**source_->reader(digest("layer 1")));
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  {
    struct rlimit tight = before;
    tight.rlim_cur = 100;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
    const auto writer = node_->begin_fetch(digest("layer 1"));
    const auto wrote =
        writer ? (*writer)->write(0, std::as_bytes(std::span(bytes))) : fail_of(writer);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_FALSE(wrote);
    EXPECT_EQ(wrote.error().code(), ErrorCode::kResourceExhausted);
  }
  std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(node_->has(digest("layer 1")));
  ASSERT_TRUE(fetch_piece(*source_, *node_, digest("layer 1")));
  EXPECT_EQ(read_file(raw_path("layer 1")), bytes);
}

// --- damage ---

TEST_F(Store, finds_a_damaged_layer_when_the_stage_is_asked_for_and_wants_it_alone) {
  fetch({0, 3});
  flip_with_notice(shard_path("0-3"), offset_of(shard_path("0-3"), "blk.1.ffn_up.weight") + 9);
  EXPECT_THAT(missing({0, 3}), ElementsAre("layer 1"));
  EXPECT_THAT(names_of(node_->take_damage()), ElementsAre("layer 1"));
  EXPECT_TRUE(node_->take_damage().empty());
  const auto made = node_->make_stage({id_, {0, 3}, {}}, {});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message(), HasSubstr("layer 1 of tiny"));
  reopen();
  EXPECT_THAT(fetch({0, 3}), ElementsAre("layer 1"));
  expect_stage_is_right({0, 3});
  reopen();
  EXPECT_TRUE(node_->stage_needs(id_, {0, 3})->nothing());
  EXPECT_TRUE(node_->take_damage().empty());
}

TEST_F(Store, finds_a_damaged_layer_at_the_start) {
  fetch({0, 3});
  node_.reset();
  flip_with_notice(shard_path("0-3"), offset_of(shard_path("0-3"), "blk.2.attn_norm.weight"));
  node_ = open_store(node_root_);
  EXPECT_THAT(names_of(node_->take_damage()), ElementsAre("layer 2"));
  EXPECT_FALSE(node_->has(digest("layer 2")));
  EXPECT_THAT(fetch({0, 3}), ElementsAre("layer 2"));
  expect_stage_is_right({0, 3});
}

TEST_F(Store, a_damaged_shard_still_gives_what_is_whole_to_the_next_split) {
  fetch({0, 3});
  flip_with_notice(shard_path("0-3"), offset_of(shard_path("0-3"), "blk.1.ffn_up.weight"));
  EXPECT_THAT(missing({0, 1}), IsEmpty());
  expect_stage_is_right({0, 1});
  EXPECT_THAT(missing({1, 3}), ElementsAre("layer 1"));
}

TEST_F(Store, a_shard_cut_at_any_point_loses_only_what_was_cut) {
  fetch({1, 4});
  const std::string whole = read_file(shard_path("1-4"));
  const std::string seal = read_file(shard_path("1-4").native() + ".seal");
  std::size_t most_kept = 0;
  for (std::size_t length = 0; length < whole.size(); length += 211) {
    node_.reset();
    write_file(shard_path("1-4"), whole.substr(0, length));
    write_file(shard_path("1-4").native() + ".seal", seal);
    node_ = open_store(node_root_);
    most_kept = std::max(most_kept, node_->inventory(id_).size());
    const auto fetched = fetch({1, 4});
    ASSERT_FALSE(fetched.empty()) << length;
    ASSERT_EQ(read_file(shard_path("1-4")), whole) << length;
  }
  EXPECT_GE(most_kept, 3U);
}

TEST_F(Store, a_shard_with_any_byte_changed_is_made_right_again) {
  fetch({1, 3});
  const std::string whole = read_file(shard_path("1-3"));
  std::set<std::string> fetched;
  for (std::size_t at = 0; at < whole.size(); at += 127) {
    flip_with_notice(shard_path("1-3"), at);
    for (const std::string& piece : fetch({1, 3})) fetched.insert(piece);
    ASSERT_EQ(read_file(shard_path("1-3")), whole) << at;
  }
  EXPECT_THAT(fetched, ElementsAre("layer 1", "layer 2", "shared"));
}

TEST_F(Store, a_shard_that_was_only_touched_stays) {
  fetch({1, 3});
  const fs::path shard = shard_path("1-3");
  fs::last_write_time(shard, fs::last_write_time(shard) + std::chrono::seconds(9));
  EXPECT_TRUE(node_->stage_needs(id_, {1, 3})->nothing());
}

TEST_F(Store, a_shard_that_lost_its_seal_is_believed_after_its_pieces_were_read) {
  fetch({1, 3});
  node_.reset();
  fs::remove(shard_path("1-3").native() + ".seal");
  node_ = open_store(node_root_);
  EXPECT_TRUE(node_->stage_needs(id_, {1, 3})->nothing());
  EXPECT_TRUE(fs::exists(shard_path("1-3").native() + ".seal"));
}

TEST_F(Store, a_shard_that_cannot_be_opened_at_the_moment_is_not_thrown_away) {
  fetch({1, 3});
  node_.reset();
  // A folder in its place stands for all trouble that isn't the content's.
  const std::string whole = read_file(shard_path("1-3"));
  fs::remove(shard_path("1-3"));
  fs::create_directory(shard_path("1-3"));
  node_ = open_store(node_root_);
  EXPECT_TRUE(fs::exists(shard_path("1-3")));
  node_.reset();
  fs::remove(shard_path("1-3"));
  write_file(shard_path("1-3"), whole);
  node_ = open_store(node_root_);
  EXPECT_TRUE(node_->stage_needs(id_, {1, 3})->nothing());
}

TEST_F(Store, a_shard_that_vanished_is_fetched_again) {
  fetch({1, 3});
  fs::remove(shard_path("1-3"));
  EXPECT_THAT(missing({1, 3}), ElementsAre("layer 1", "layer 2", "shared"));
  fetch({1, 3});
  expect_stage_is_right({1, 3});
}

TEST_F(Store, a_shard_of_another_version_of_the_program_is_made_again_from_itself) {
  fetch({1, 3});
  const std::string wanted = read_file(shard_path("1-3"));
  node_.reset();
  {
    const auto made = model::Gguf::open(shard_path("1-3"));
    ASSERT_TRUE(made);
    model::Metadata metadata = made->metadata();
    metadata.set("llama.embedding_scale", model::Value::f32(0.0F));
    std::vector<model::OutputTensor> tensors;
    for (const model::TensorInfo& tensor : made->tensors()) {
      tensors.push_back(model::copy_of(*made, tensor, tensor.name));
    }
    MemorySink sink;
    ASSERT_TRUE(model::write_gguf(metadata, tensors, sink, {}));
    write_file(shard_path("1-3"), sink.bytes());
  }
  node_ = open_store(node_root_);
  EXPECT_THAT(missing({1, 3}), IsEmpty());
  EXPECT_THAT(fetch({1, 3}), IsEmpty());
  EXPECT_EQ(read_file(shard_path("1-3")), wanted);
}

TEST_F(Store, a_raw_piece_that_was_damaged_since_is_found_before_it_is_used) {
  ASSERT_TRUE(fetch_piece(*source_, *node_, digest("layer 1")));
  ASSERT_TRUE(fetch_piece(*source_, *node_, digest("layer 2")));
  ASSERT_TRUE(fetch_piece(*source_, *node_, digest("shared")));
  reopen();
  flip_silently(raw_path("layer 2"), 100);
  const auto made = node_->make_stage({id_, {1, 3}, {}}, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(made.error().message(), HasSubstr("layer 2"));
  EXPECT_THAT(names_of(node_->take_damage()), ElementsAre("layer 2"));
  EXPECT_THAT(fetch({1, 3}), ElementsAre("layer 2"));
  expect_stage_is_right({1, 3});
}

TEST_F(Store, a_raw_piece_of_another_length_is_no_piece) {
  ASSERT_TRUE(fetch_piece(*source_, *node_, digest("layer 1")));
  fs::resize_file(raw_path("layer 1"), 10);
  EXPECT_THAT(missing({1, 2}), ElementsAre("layer 1", "shared"));
  ASSERT_TRUE(fetch_piece(*source_, *node_, digest("layer 1")));
  node_.reset();
  fs::resize_file(raw_path("layer 1"), 10);
  node_ = open_store(node_root_);
  EXPECT_THAT(missing({1, 2}), ElementsAre("layer 1", "shared"));
}

TEST_F(Store, verify_finds_what_no_seal_can_tell) {
  fetch({0, 3}, {digest("layer 0")});
  EXPECT_TRUE(node_->verify(id_, {})->empty());
  flip_silently(shard_path("0-3"), offset_of(shard_path("0-3"), "blk.1.ffn_up.weight"));
  flip_silently(raw_path("layer 0"), 50);
  const fs::path table = model_folder() / "shards" / "embeddings.gguf";
  flip_silently(table, offset_of(table, "token_embd.weight"));
  EXPECT_TRUE(node_->stage_needs(id_, {0, 3})->nothing());
  const auto damaged = node_->verify(id_, {});
  ASSERT_TRUE(damaged) << damaged.error().message();
  EXPECT_THAT(names_of(*damaged),
              ::testing::UnorderedElementsAre("layer 0", "layer 1", "embedding"));
  EXPECT_THAT(fetch({0, 3}), ElementsAre("embedding", "layer 1"));  // layer 0 is in the shard
  expect_stage_is_right({0, 3});
  EXPECT_TRUE(node_->verify(id_, {})->empty());
}

TEST_F(Store, verify_says_nothing_of_damage_that_was_repaired) {
  fetch({0, 3});
  node_.reset();
  flip_with_notice(shard_path("0-3"), offset_of(shard_path("0-3"), "blk.2.attn_norm.weight"));
  node_ = open_store(node_root_);
  EXPECT_THAT(fetch({0, 3}), ElementsAre("layer 2"));
  EXPECT_TRUE(node_->verify(id_, {})->empty());
}

TEST_F(Store, verify_finds_damage_between_the_pieces) {
  fetch({1, 3});
  const std::string wanted = read_file(shard_path("1-3"));
  // The head that a middle shard has only because libllama wants one.
  flip_silently(shard_path("1-3"), offset_of(shard_path("1-3"), "output.weight"));
  EXPECT_TRUE(node_->verify(id_, {})->empty());
  EXPECT_THAT(fetch({1, 3}), IsEmpty());
  EXPECT_EQ(read_file(shard_path("1-3")), wanted);
}

TEST_F(Store, verify_believes_a_model_file_no_longer_where_it_is_damaged) {
  flip_silently(file_, offset_of(file_, "blk.2.ffn_up.weight"));
  const auto damaged = source_->verify(id_, {});
  ASSERT_TRUE(damaged);
  EXPECT_THAT(names_of(*damaged), ElementsAre("layer 2"));
  EXPECT_FALSE(source_->has(digest("layer 2")));
  source_.reset();
  source_ = open_store(root_ / "source");
  EXPECT_FALSE(source_->has(digest("layer 2")));
  EXPECT_TRUE(source_->has(digest("layer 1")));
}

TEST_F(Store, verify_tells_how_far_it_is_and_stops) {
  fetch({0, 4});
  double last = 0;
  ASSERT_TRUE(node_->verify(id_, [&](std::string_view what, double fraction) {
    EXPECT_THAT(std::string(what), HasSubstr("tiny"));
    EXPECT_GE(fraction, last);
    last = fraction;
    return true;
  }));
  EXPECT_DOUBLE_EQ(last, 1.0);
  const auto stopped = node_->verify(id_, [](std::string_view, double) { return false; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), ErrorCode::kCancelled);
  EXPECT_TRUE(node_->take_damage().empty());
}

// --- removing ---

TEST_F(Store, a_removed_model_is_gone_and_can_come_back) {
  fetch({1, 3});
  ASSERT_TRUE(node_->remove(id_));
  EXPECT_FALSE(fs::exists(model_folder()));
  EXPECT_FALSE(node_->has(digest("layer 1")));
  EXPECT_FALSE(node_->remove(id_));
  ASSERT_TRUE(announce(*source_, *node_, id_));
  EXPECT_THAT(fetch({1, 3}), ElementsAre("layer 1", "layer 2", "shared"));
}

TEST_F(Store, a_removal_that_was_interrupted_is_finished_at_the_next_start) {
  fetch({1, 3});
  node_.reset();
  fs::rename(model_folder(), model_folder().native() + ".removed");
  node_ = open_store(node_root_);
  EXPECT_TRUE(node_->models().empty());
  EXPECT_FALSE(fs::exists(model_folder().native() + ".removed"));
}

TEST_F(Store, gc_keeps_what_it_is_told_and_drops_the_rest) {
  fetch({0, 2});
  fetch({0, 1});
  ASSERT_TRUE(fetch_piece(*source_, *node_, digest("layer 3")));
  ASSERT_TRUE(fetch_piece(*source_, *node_, digest("output")));
  write_file(part_path("layer 2"), "begun");
  GcOptions options;
  options.keep[id_] = {{{0, 1}}, {digest("layer 3")}};
  options.dry_run = true;
  const auto planned = node_->gc(options);
  ASSERT_TRUE(planned);
  EXPECT_EQ(planned->removed.size(), 4U);  // a shard and its seal, a piece, what was begun
  EXPECT_TRUE(fs::exists(shard_path("0-2")));
  options.dry_run = false;
  const auto done = node_->gc(options);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->removed, planned->removed);
  EXPECT_EQ(done->bytes_freed, planned->bytes_freed);
  EXPECT_FALSE(fs::exists(shard_path("0-2")));
  EXPECT_FALSE(fs::exists(shard_path("0-2").native() + ".seal"));
  EXPECT_TRUE(fs::exists(shard_path("0-1")));
  EXPECT_TRUE(fs::exists(raw_path("layer 3")));
  EXPECT_FALSE(fs::exists(raw_path("output")));
  EXPECT_FALSE(fs::exists(part_path("layer 2")));
  EXPECT_FALSE(node_->has(digest("layer 1")));
  expect_stage_is_right({0, 1});
}

TEST_F(Store, gc_keeps_the_old_shard_until_the_new_one_is_made) {
  fetch({0, 2});
  GcOptions options;
  options.keep[id_] = {{{1, 3}}, {}};
  ASSERT_TRUE(node_->gc(options));
  EXPECT_TRUE(node_->has(digest("layer 1")));
  EXPECT_THAT(fetch({1, 3}), ElementsAre("layer 2"));
  ASSERT_TRUE(node_->gc(options));
  EXPECT_FALSE(fs::exists(shard_path("0-2")));
  EXPECT_FALSE(fs::exists(model_folder() / "shards" / "embeddings.gguf"));
  expect_stage_is_right({1, 3});
}

TEST_F(Store, gc_leaves_what_is_being_fetched) {
  const auto writer = node_->begin_fetch(digest("layer 1"));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(node_->gc({}));
  EXPECT_TRUE(fs::exists(part_path("layer 1")));
}

TEST_F(Store, gc_drops_the_models_that_were_unused_longest) {
  std::vector<ModelId> ids;
  for (const std::string name : {"a", "b", "c"}) {
    model::TinyModel tiny = model::tiny_model("llama", 4);
    tiny.metadata.set("general.name", model::Value::string(name));
    write_file(root_ / (name + ".gguf"), tiny.bytes());
    ids.push_back(*source_->import_model(root_ / (name + ".gguf"), "", {}));
    ASSERT_TRUE(announce(*source_, *node_, ids.back()));
    const auto fetched = fetch_stage(*source_, *node_, {ids.back(), {1, 3}, {}});
    ASSERT_TRUE(fetched) << fetched.error().message();
  }
  ASSERT_TRUE(node_->remove(id_));
  std::uint64_t all = 0;
  int hours = 3;
  for (const ModelUsage& usage : node_->usage().models) all += usage.bytes();
  for (const ModelId& id : ids) {
    const fs::path folder = node_root_ / "models" / id.value.substr(0, 32);
    fs::last_write_time(folder, fs::last_write_time(folder) - std::chrono::hours(hours--));
  }
  GcOptions options;
  options.keep[ids[0]] = {{{1, 3}}, {}};
  options.bytes_max = all - 1;
  const auto report = node_->gc(options);
  ASSERT_TRUE(report);
  EXPECT_THAT(report->removed, ElementsAre("b"));
  EXPECT_EQ(node_->models().size(), 2U);
}

TEST_F(Store, gc_removes_folders_that_are_no_models) {
  fs::create_directories(node_root_ / "models" / "stranger");
  write_file(node_root_ / "models" / "stranger" / "x", "xxxx");
  const auto report = node_->gc({});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->bytes_freed, 4U);
  EXPECT_FALSE(fs::exists(node_root_ / "models" / "stranger"));
  EXPECT_EQ(node_->models().size(), 1U);
}

// --- threads ---

TEST_F(Store, pieces_are_read_while_stages_are_made_and_models_come_and_go) {
  const std::vector<PieceDigest> pieces = source_->inventory(id_);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  const auto read = [&] {
    while (!stop) {
      for (const PieceDigest& piece : pieces) {
        const auto reader = node_->reader(piece);
        if (!reader) continue;  // not here at the moment
        const auto found = model::hash_content(**reader);
        if (found && *found != piece) ++wrong;
      }
      (void)node_->inventory(id_);
      (void)node_->usage();
    }
  };
  std::thread one(read);
  std::thread two(read);
  for (int round = 0; round < 3; ++round) {
    fetch({0, 2});
    fetch({1, 3}, {digest("layer 1")});
    EXPECT_TRUE(node_->verify(id_, {})->empty());
    GcOptions options;
    options.keep[id_] = {{{1, 3}}, {}};
    EXPECT_TRUE(node_->gc(options));
    EXPECT_TRUE(node_->remove(id_));
    EXPECT_TRUE(announce(*source_, *node_, id_));
  }
  stop = true;
  one.join();
  two.join();
  EXPECT_EQ(wrong, 0);
}

// --- kills ---

TEST_F(Store, a_start_sweeps_temporary_files_and_survives_damaged_folders) {
  fetch({1, 3});
  node_.reset();
  write_file(shard_path("1-3").native() + ".part-7-0", "half");
  write_file(model_folder() / "skeleton.gguf.part-7-1", "half");
  node_ = open_store(node_root_);
  EXPECT_FALSE(fs::exists(shard_path("1-3").native() + ".part-7-0"));
  EXPECT_FALSE(fs::exists(model_folder() / "skeleton.gguf.part-7-1"));
  EXPECT_TRUE(node_->stage_needs(id_, {1, 3})->nothing());
}

TEST_F(Store, a_model_whose_entry_is_damaged_keeps_its_pieces_for_the_next_announcement) {
  for (const std::string file : {"catalogue.json", "skeleton.gguf"}) {
    fetch({1, 3});
    node_.reset();
    flip_with_notice(model_folder() / file, 200);
    node_ = open_store(node_root_);
    EXPECT_TRUE(node_->models().empty());
    ASSERT_TRUE(announce(*source_, *node_, id_));
    EXPECT_TRUE(node_->stage_needs(id_, {1, 3})->nothing());
  }
}

// Fetches a stage and gets killed at its `steps`th step, if it has as many.
void fetch_until_killed(const PieceStore& from, const fs::path& root, const ModelId& id,
                        int steps) {
  const auto step = [&] {
    if (--steps == 0) (void)::raise(SIGKILL);
    return true;
  };
  const auto store = PieceStore::open(root);
  CHECK(store.has_value());
  step();
  CHECK(announce(from, **store, id).has_value());
  step();
  const auto needs = (*store)->stage_needs(id, {0, 2});
  CHECK(needs.has_value());
  for (const model::PieceEntry& piece : needs->missing) {
    const std::string bytes = bytes_of(**from.reader(piece.digest));
    const auto writer = (*store)->begin_fetch(piece.digest);
    CHECK(writer.has_value());
    while (!(*writer)->complete()) {
      const std::uint64_t at = (*writer)->offset();
      const auto rest = std::as_bytes(std::span(bytes)).subspan(at);
      CHECK((*writer)->write(at, rest.first(std::min<std::size_t>(rest.size(), 700))));
      step();
    }
    CHECK((*writer)->finish().has_value());
    step();
  }
  const auto made =
      (*store)->make_stage({id, {0, 2}, {}}, [&](std::string_view, double) { return step(); });
  CHECK(made.has_value());
  step();
}

TEST_F(Store, a_kill_at_any_step_leaves_nothing_wrong_under_a_final_name) {
  node_.reset();
  int killed = 0;
  for (int steps = 1; steps < 200; ++steps) {
    fs::remove_all(node_root_);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      fetch_until_killed(*source_, node_root_, id_, steps);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    node_ = open_store(node_root_);
    ASSERT_TRUE(announce(*source_, *node_, id_));
    EXPECT_TRUE(node_->take_damage().empty()) << steps;
    for (const PieceDigest& held : node_->inventory(id_)) {
      ASSERT_EQ(model::hash_content(**node_->reader(held))->value, held.value) << steps;
    }
    fetch({0, 2});
    expect_stage_is_right({0, 2});
    EXPECT_EQ(node_->usage().models[0].raw_bytes, 0U) << steps;
    node_.reset();
    if (WIFEXITED(status)) {
      ASSERT_EQ(WEXITSTATUS(status), 0);
      break;
    }
    ASSERT_EQ(WTERMSIG(status), SIGKILL);
    ++killed;
  }
  EXPECT_GT(killed, 10);
}

}  // namespace
}  // namespace salvage::store
