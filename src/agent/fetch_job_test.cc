// Goal: layers come over from whoever has them, bit for bit, whatever happens to a source, and a
// second fetch moves nothing. Method: two or three stores in temporary folders, each behind a door
// of its own on the memory transport; sources that end in the middle.

#include "agent/fetch_job.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "agent/blob_server.h"
#include "model/shard.h"
#include "model/tiny_model.h"
#include "pipeline/door.h"
#include "transport/memory_transport.h"

namespace salvage::agent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::uint32_t kLayers = 8;
const NodeId kSelf{std::string(64, '0')};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A machine that has pieces: a store and the door to it.
struct Machine {
  NodeId node;
  std::string endpoint;
  std::unique_ptr<store::PieceStore> store;
  std::unique_ptr<BlobServer> blobs;
  std::unique_ptr<pipeline::Door> door;

  ~Machine() { stop(); }
  void stop() {
    if (blobs) blobs->stop();
    door.reset();
  }
};

class FetchJobTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "fetch-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    std::ofstream(root_ / "tiny.gguf", std::ios::binary)
        << model::tiny_model("llama", kLayers).bytes();
  }
  void TearDown() override {
    machines_.clear();
    store_.reset();
    fs::remove_all(root_);
  }

  Machine& add_machine(char digit) {
    auto machine = std::make_unique<Machine>();
    machine->node = NodeId{std::string(64, digit)};
    machine->endpoint = std::string("unix:/door-") + digit;
    machine->store = *store::PieceStore::open(root_ / std::string(1, digit));
    const auto model = machine->store->import_model(root_ / "tiny.gguf", "tiny",
                                                    [](std::string_view, double) { return true; });
    EXPECT_TRUE(model) << model.error().message();
    model_ = *model;
    machine->blobs = std::make_unique<BlobServer>(*machine->store, clock_, pacer_);
    std::vector<std::unique_ptr<transport::Listener>> listeners;
    listeners.push_back(*transport_->listen(*transport::parse_endpoint(machine->endpoint)));
    machine->door = std::make_unique<pipeline::Door>(
        std::move(listeners), pipeline::DoorOptions{},
        [](const wire::Hello&, const transport::Connection&) {
          return pipeline::Terms{{"v0.4.0", "", PlanEpoch{0}, wire::kWireVersion, true}, 0};
        },
        [blobs = machine->blobs.get()](std::unique_ptr<transport::Connection> connection,
                                       const wire::Hello&) { blobs->serve(std::move(connection)); },
        clock_);
    machines_.push_back(std::move(machine));
    return *machines_.back();
  }

  wire::FetchOrder order(LayerRange layers) const {
    wire::FetchOrder order{.epoch = 1,
                           .model = model_.value,
                           .layer_begin = layers.begin,
                           .layer_end = layers.end,
                           .sources = {}};
    for (const auto& machine : machines_) {
      wire::FetchSource source{
          .node = machine->node.value, .endpoints = {machine->endpoint}, .pieces = {}};
      for (const PieceDigest& piece : machine->store->inventory(model_)) {
        source.pieces.push_back(piece.value);
      }
      order.sources.push_back(std::move(source));
    }
    return order;
  }

  // Runs a job to its end and gives its last words.
  wire::FetchProgress fetch(const wire::FetchOrder& order) {
    if (!store_) store_ = *store::PieceStore::open(root_ / "self");
    BoundedQueue<wire::FetchProgress> ended(1);
    FetchJobEvents events;
    events.progress = [&](const wire::FetchProgress& said) {
      if (said.phase == "done" || said.phase == "failed") (void)ended.push(said);
    };
    events.files = [this](const store::StageFiles& made) { files_ = made; };
    events.inventory = [](const ModelId&) {};
    FetchJob job({.order = order, .self = kSelf, .llama_pin = "v0.4.0"}, events, *store_,
                 *transport_, clock_);
    const auto last = ended.pop(deadline_after(clock_.now(), std::chrono::seconds(60)));
    EXPECT_TRUE(last) << "the job does not end";
    return last.value_or(wire::FetchProgress{});
  }

  SteadyClock clock_;
  Pacer pacer_{clock_};
  fs::path root_;
  ModelId model_;
  std::unique_ptr<transport::Transport> transport_ = transport::make_memory_transport();
  std::vector<std::unique_ptr<Machine>> machines_;
  std::unique_ptr<store::PieceStore> store_;
  store::StageFiles files_;
};

TEST_F(FetchJobTest, brings_a_shard_bit_for_bit_and_then_moves_nothing) {
  const Machine& source = add_machine('a');
  const auto first = fetch(order({0, 3}));
  ASSERT_EQ(first.phase, "done") << first.error;
  EXPECT_GT(first.bytes_total, 0U);
  const auto whole = model::Gguf::open(root_ / "tiny.gguf");
  ASSERT_TRUE(whole);
  ASSERT_TRUE(model::write_shard(*whole, {0, 3}, root_ / "expected.gguf"));
  EXPECT_EQ(read_file(files_.shard), read_file(root_ / "expected.gguf"));
  EXPECT_FALSE(files_.embedding_table.empty());

  const std::uint64_t sent = source.blobs->bytes_sent();
  const auto again = fetch(order({0, 3}));
  EXPECT_EQ(again.phase, "done") << again.error;
  EXPECT_EQ(again.bytes_total, 0U);
  EXPECT_EQ(source.blobs->bytes_sent(), sent);
}

TEST_F(FetchJobTest, moves_only_the_difference_to_another_split) {
  const Machine& source = add_machine('a');
  ASSERT_EQ(fetch(order({0, 3})).phase, "done");
  const std::uint64_t before = source.blobs->bytes_sent();
  const auto wider = fetch(order({0, 4}));
  ASSERT_EQ(wider.phase, "done") << wider.error;
  const auto entry = source.store->entry(model_);
  ASSERT_TRUE(entry);
  std::uint64_t layer_bytes = 0;
  for (const auto& piece : entry->pieces) {
    if (piece.name == "layer 3") layer_bytes = piece.bytes;
  }
  EXPECT_EQ(source.blobs->bytes_sent() - before, layer_bytes);
}

TEST_F(FetchJobTest, uses_every_source) {
  add_machine('a');
  add_machine('b');
  ASSERT_EQ(fetch(order({0, kLayers})).phase, "done");
  for (const auto& machine : machines_) EXPECT_GT(machine->blobs->bytes_sent(), 0U);
}

TEST_F(FetchJobTest, goes_on_with_the_others_when_a_source_is_gone) {
  add_machine('a');
  add_machine('b');
  const wire::FetchOrder both = order({0, kLayers});
  machines_.front()->stop();
  const auto ended = fetch(both);
  EXPECT_EQ(ended.phase, "done") << ended.error;
}

TEST_F(FetchJobTest, says_so_when_nobody_has_the_model) {
  add_machine('a');
  wire::FetchOrder nobody = order({0, 2});
  nobody.sources.clear();
  const auto ended = fetch(nobody);
  EXPECT_EQ(ended.phase, "failed");
  EXPECT_THAT(ended.error, HasSubstr("no other machine has this model"));
}

TEST_F(FetchJobTest, refuses_an_order_that_names_no_model) {
  add_machine('a');
  wire::FetchOrder wrong = order({0, 2});
  wrong.model = "../../etc/passwd";
  EXPECT_EQ(fetch(wrong).phase, "failed");
}

TEST_F(FetchJobTest, keeps_spare_copies_raw) {
  add_machine('a');
  wire::FetchOrder spare = order({2, 4});
  spare.spare = true;
  ASSERT_EQ(fetch(spare).phase, "done");
  EXPECT_TRUE(files_.shard.empty());
  EXPECT_FALSE(store_->inventory(model_).empty());
}

}  // namespace
}  // namespace salvage::agent
