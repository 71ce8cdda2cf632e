// Goal: layers go to nodes in proportion to memory and never beyond it; what can't be placed is
// refused with figures; pins, splits and the wish to move little are honoured. The reports of other
// programs that did it wrong come as tests of their own (P01 and so on).
// Method: manifests made by hand; for small cases all placements are tried and compared.

#include "planner/placement.h"

#include <functional>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "planner/placement_search.h"
#include "planner/split.h"

namespace salvage::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

model::Manifest equal_layers(std::uint32_t layer_count, std::uint64_t layer_mib = 100,
                             std::uint32_t period = 1) {
  model::Manifest manifest;
  manifest.architecture = "made-up";
  manifest.layer_count = layer_count;
  manifest.layers.resize(layer_count);
  for (auto& layer : manifest.layers) {
    layer.weight_bytes = layer_mib * kMib;
    layer.key_values = layer.value_values = 32;
  }
  manifest.split.architecture = "made-up";
  manifest.split.layer_count = layer_count;
  manifest.split.layer_kinds.assign(layer_count, 0);
  for (std::uint32_t i = 0; i <= layer_count; ++i) {
    manifest.split.cut_legal.push_back(i % period == 0 || i == layer_count);
  }
  return manifest;
}

NodeId id_of(std::size_t index) {
  return NodeId{std::string(64, static_cast<char>('a' + index))};
}

// Nodes a, b, c, ... with so many MiB each and nothing reserved.
PlacementRequest request_of(const std::vector<std::uint64_t>& mib) {
  PlacementRequest request;
  request.need.context_per_sequence = 1024;
  for (std::size_t i = 0; i < mib.size(); ++i) {
    request.nodes.push_back({.node = id_of(i),
                             .name = std::string(1, static_cast<char>('a' + i)),
                             .memory_bytes = mib[i] * kMib,
                             .reserve_bytes = 0});
  }
  return request;
}

// "8,4,4", or the error.
std::string placed(const model::Manifest& manifest, const PlacementRequest& request) {
  const auto placement = place(manifest, request);
  return placement ? split_text(*placement, request.nodes) : placement.error().message();
}

std::string left_out(const Placement& placement) {
  std::string text;
  for (const LeftOut& node : placement.left_out) text += node.name + ": " + node.reason + "\n";
  return text;
}

TEST(Place, layers_follow_the_free_memory) {
  EXPECT_EQ(placed(equal_layers(16), request_of({8000, 4000, 4000})), "8,4,4");
  EXPECT_EQ(placed(equal_layers(16), request_of({4000, 4000, 8000})), "4,4,8");
  EXPECT_EQ(placed(equal_layers(30), request_of({4000, 4000, 4000, 4000})), "8,8,7,7");
  EXPECT_EQ(placed(equal_layers(16), request_of({8000})), "16");
}

TEST(Place, the_reserve_is_kept_free) {
  PlacementRequest request = request_of({1000, 1000});
  request.nodes[0].reserve_bytes = 600 * kMib;
  EXPECT_EQ(placed(equal_layers(7), request), "2,5");
  request.nodes[0].reserve_bytes.reset();
  EXPECT_EQ(default_reserve(1000 * kMib), 178 * kMib);
  const auto placement = place(equal_layers(7), request);
  ASSERT_TRUE(placement);
  EXPECT_EQ(placement->stages[0].usable_bytes, 822 * kMib);
}

TEST(Place, P01_cache_and_buffers_count_before_anything_is_loaded) {
  model::Manifest manifest = equal_layers(12, 100);
  PlacementRequest request = request_of({500, 700, 450});
  EXPECT_EQ(placed(manifest, request), "4,5,3");
  // Weights alone would still fit as before; with 20 MiB of cache a layer they don't.
  request.need.context_per_sequence = 8192;
  for (auto& layer : manifest.layers) layer.key_values = layer.value_values = 1200;
  const auto placement = place(manifest, request);
  EXPECT_FALSE(placement);
  request.nodes[1].memory_bytes = 1200 * kMib;
  const auto larger = place(manifest, request);
  ASSERT_TRUE(larger) << larger.error().message();
  for (const PlacedStage& stage : larger->stages) {
    EXPECT_LE(stage.need.total_bytes(), stage.usable_bytes);
    EXPECT_GT(stage.need.cache_bytes, 0);
  }
}

TEST(Place, P06_P12_a_node_gets_a_layer_or_is_left_out_with_a_reason) {
  const PlacementRequest lopsided = request_of({40000, 400});
  const auto placement = place(equal_layers(6), lopsided);
  ASSERT_TRUE(placement);
  EXPECT_EQ(split_text(*placement, lopsided.nodes), "6,0");
  EXPECT_THAT(left_out(*placement), HasSubstr("b: its share of the memory is 0.06 of a layer"));
  const PlacementRequest many = request_of(std::vector<std::uint64_t>(8, 1000));
  const auto spread = place(equal_layers(6), many);
  ASSERT_TRUE(spread);
  EXPECT_EQ(split_text(*spread, many.nodes), "1,1,1,1,1,1,0,0");
  EXPECT_EQ(spread->left_out.size(), 2);
}

TEST(Place, P07_P22_unknown_memory_is_not_zero_and_is_named) {
  PlacementRequest request = request_of({1000, 1000});
  request.nodes[1].memory_bytes.reset();
  const auto placement = place(equal_layers(6), request);
  ASSERT_TRUE(placement);
  EXPECT_THAT(left_out(*placement), HasSubstr("b: its free memory is unknown"));
  request.nodes[0].memory_bytes.reset();
  const auto refused = place(equal_layers(6), request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message(), HasSubstr("a: its free memory is unknown"));
}

TEST(Place, P07_P20_what_does_not_fit_is_refused_with_need_and_have_of_each_node) {
  const auto refused = place(equal_layers(12), request_of({500, 400, 30}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  const std::string& said = refused.error().message();
  EXPECT_THAT(said, HasSubstr("a needs 0.7 GiB of memory for layers 0:7 and has 0.5 GiB"));
  EXPECT_THAT(said, HasSubstr("b needs 0.5 GiB of memory for layers 7:12 and has 0.4 GiB"));
  EXPECT_THAT(said, HasSubstr("c: 30 MiB of its memory can be used, the smallest stage needs"));
  EXPECT_THAT(said, HasSubstr("add a machine"));
}

TEST(Place, P13_P20_a_context_that_would_fit_is_named_and_is_the_longest) {
  model::Manifest manifest = equal_layers(8);
  for (auto& layer : manifest.layers) layer.key_values = layer.value_values = 1024;
  PlacementRequest request = request_of({700, 700});
  request.need.context_per_sequence = 131072;
  const std::string said = placed(manifest, request);
  const std::uint32_t context = largest_context_that_fits(manifest, request);
  ASSERT_GT(context, 0);
  EXPECT_THAT(said, HasSubstr(fmt::format("--ctx {}", context)));
  request.need.context_per_sequence = context;
  EXPECT_EQ(placed(manifest, request), "4,4");
  request.need.context_per_sequence = context + 256;
  EXPECT_THAT(placed(manifest, request), HasSubstr("does not fit"));
}

TEST(Place, answers_at_once_are_fewer_before_contexts_are_shorter) {
  model::Manifest manifest = equal_layers(8);
  for (auto& layer : manifest.layers) layer.key_values = layer.value_values = 1024;
  PlacementRequest request = request_of({5000, 5000});
  request.need.context_per_sequence = 0;
  request.need.sequence_count = 0;
  EXPECT_EQ(choose_sizes(manifest, request), (AnswerSizes{kContextDefault, kSequencesDefault}));
  std::uint32_t before = kSequencesDefault;
  std::set<std::uint32_t> contexts;
  for (std::uint64_t mib = 1000; mib >= 400; mib -= 10) {
    PlacementRequest less = request_of({mib, mib});
    less.need.context_per_sequence = less.need.sequence_count = 0;
    const AnswerSizes sizes = choose_sizes(manifest, less);
    const bool is_short = sizes.context_per_sequence < kContextDefault;
    EXPECT_LE(sizes.sequence_count, is_short ? 1U : before) << mib;
    before = sizes.sequence_count;
    contexts.insert(sizes.context_per_sequence);
  }
  EXPECT_EQ(before, 1U);
  EXPECT_GT(contexts.size(), 1U) << "in the end they are shorter too";
  request = request_of({600, 600});
  request.need.context_per_sequence = 512;
  request.need.sequence_count = 4;
  EXPECT_EQ(choose_sizes(manifest, request), (AnswerSizes{512, 4})) << "what was said stays";
}

TEST(Place, P08_P14_the_output_matrix_is_charged_to_the_last_node) {
  model::Manifest manifest = equal_layers(8);
  manifest.output_bytes = 250 * kMib;
  EXPECT_EQ(placed(manifest, request_of({2000, 2000})), "4,4");
  EXPECT_EQ(placed(manifest, request_of({600, 600})), "5,3");
  EXPECT_EQ(placed(manifest, request_of({300, 1000})), "2,6");
}

TEST(Place, P11_any_number_of_nodes_will_do) {
  for (std::size_t count = 1; count <= 9; ++count) {
    const auto placement =
        place(equal_layers(32), request_of(std::vector<std::uint64_t>(count, 5000)));
    ASSERT_TRUE(placement);
    EXPECT_EQ(placement->stages.size(), count);
    for (const PlacedStage& stage : placement->stages) {
      EXPECT_LE(stage.layers.count(), (32 + count - 1) / count);
      EXPECT_GE(stage.layers.count(), 32 / count);
    }
  }
}

TEST(Place, P16_P17_the_coordinator_takes_its_share_and_order_is_stable) {
  const PlacementRequest request = request_of({8000, 8000});
  const auto placement = place(equal_layers(10), request);
  ASSERT_TRUE(placement);
  EXPECT_EQ(placement->stages[0].node, id_of(0));
  EXPECT_EQ(placement->stages[0].layers, (LayerRange{0, 5}));
  EXPECT_EQ(placement->stages[1].layers, (LayerRange{5, 10}));
  EXPECT_EQ(*placement, *place(equal_layers(10), request));
}

TEST(Place, P21_rounding_does_not_drift) {
  EXPECT_EQ(placed(equal_layers(10), request_of({4740, 5260})), "5,5");
  EXPECT_EQ(placed(equal_layers(100), request_of({47400, 52600})), "47,53");
  EXPECT_EQ(placed(equal_layers(10), request_of({1490, 1490, 1490, 5530})), "2,1,1,6")
      << "quotas 1.49 1.49 1.49 5.53: the floors leave two over";
}

TEST(Place, cuts_stay_legal) {
  EXPECT_EQ(placed(equal_layers(18, 100, 6), request_of({4000, 4000})), "12,6");
  const auto placement = place(equal_layers(12, 100, 6), request_of({4000, 4000, 4000}));
  ASSERT_TRUE(placement);
  EXPECT_EQ(placement->stages.size(), 2);
  EXPECT_THAT(left_out(*placement), HasSubstr("legal cuts"));
}

TEST(Place, a_model_that_may_not_be_cut_goes_whole_to_a_node_that_holds_it) {
  model::Manifest manifest = equal_layers(8);
  manifest.split.refusal = "it has not been proven exact";
  EXPECT_EQ(placed(manifest, request_of({500, 2000})), "0,8");
  EXPECT_THAT(placed(manifest, request_of({500, 500})), HasSubstr("does not fit"));
}

TEST(Place, disk_room_counts_for_what_is_not_held) {
  PlacementRequest request = request_of({4000, 4000});
  request.nodes[1].disk_bytes = 200 * kMib;
  EXPECT_EQ(placed(equal_layers(8), request), "6,2");
  request.held[id_of(1)] = {{4, 7}};
  EXPECT_EQ(placed(equal_layers(8), request), "4,4");
  request.held.clear();
  request.nodes[0].disk_bytes = 300 * kMib;
  EXPECT_THAT(placed(equal_layers(8), request), HasSubstr("of disk and has 0.3 GiB"));
}

TEST(PlacePins, a_count_fixes_how_many_and_a_range_which) {
  PlacementRequest request = request_of({4000, 4000, 4000});
  request.pins[id_of(1)] = {.layer_count = 2};
  EXPECT_EQ(placed(equal_layers(12), request), "5,2,5");
  request.pins[id_of(1)] = {.layer_count = 0};
  EXPECT_EQ(placed(equal_layers(12), request), "6,0,6");
  request.pins = {{id_of(2), {.layer_count = 4, .layers = LayerRange{0, 4}}}};
  const auto placement = place(equal_layers(12), request);
  ASSERT_TRUE(placement) << placement.error().message();
  ASSERT_EQ(placement->stages.size(), 3);
  EXPECT_EQ(placement->stages[0].node, id_of(2)) << "a range goes where it belongs";
  EXPECT_EQ(placement->stages[1].layers, (LayerRange{4, 8}));
  EXPECT_EQ(placement->stages[2].node, id_of(1));
}

TEST(PlacePins, ranges_in_the_middle_leave_both_ends_to_the_others) {
  PlacementRequest request = request_of({4000, 4000, 4000});
  request.pins = {{id_of(0), {.layer_count = 4, .layers = LayerRange{4, 8}}}};
  const auto placement = place(equal_layers(12), request);
  ASSERT_TRUE(placement) << placement.error().message();
  ASSERT_EQ(placement->stages.size(), 3);
  EXPECT_EQ(placement->stages[0].node, id_of(1));
  EXPECT_EQ(placement->stages[1].node, id_of(0));
  EXPECT_EQ(placement->stages[2].node, id_of(2));
}

TEST(PlacePins, impossible_pins_are_refused_with_what_is_wrong) {
  PlacementRequest request = request_of({4000, 4000});
  const auto with = [&](std::map<NodeId, Pin> pins) {
    request.pins = std::move(pins);
    return placed(equal_layers(12, 100, 4), request);
  };
  EXPECT_THAT(with({{id_of(0), {3, LayerRange{0, 3}}}}), HasSubstr("may not be cut at layer 3"));
  EXPECT_THAT(with({{id_of(0), {8, LayerRange{0, 8}}}, {id_of(1), {8, LayerRange{4, 12}}}}),
              HasSubstr("overlap"));
  EXPECT_THAT(with({{id_of(0), {.layer_count = 3}}}), HasSubstr("no legal placement"));
  EXPECT_THAT(with({{id_of(0), {.layer_count = 4}}, {id_of(1), {.layer_count = 4}}}),
              HasSubstr("no legal placement"));
  EXPECT_THAT(with({{id_of(0), {.layer_count = 4000000000}}}), HasSubstr("no legal placement"));
  EXPECT_THAT(with({{id_of(0), {8, LayerRange{8, 4000000000}}}}), HasSubstr("not a part of"));
  EXPECT_THAT(with({{id_of(7), {.layer_count = 4}}}), HasSubstr("is not online"));
}

TEST(PlacePins, a_pin_never_breaks_a_memory) {
  PlacementRequest request = request_of({4000, 300});
  request.pins[id_of(1)] = {.layer_count = 5};
  const auto refused = place(equal_layers(12), request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message(), HasSubstr("b needs"));
}

TEST(PlaceSplit, numbers_are_for_the_nodes_in_their_order) {
  PlacementRequest request = request_of({4000, 4000, 4000, 4000});
  request.split = {6, 6, 4, 2};
  EXPECT_EQ(placed(equal_layers(18), request), "6,6,4,2");
  request.split = {1, 1, 2};
  EXPECT_EQ(placed(equal_layers(16), request), "4,4,8,0");
  request.split = {0, 9, 0, 9};
  EXPECT_EQ(placed(equal_layers(18), request), "0,9,0,9");
}

TEST(PlaceSplit, what_it_cannot_be_is_refused) {
  PlacementRequest request = request_of({4000, 4000});
  request.split = {6, 6, 6};
  EXPECT_THAT(placed(equal_layers(18), request),
              HasSubstr("3 numbers, but 2 nodes are online: a, b"));
  request.split = {5, 13};
  EXPECT_THAT(placed(equal_layers(18, 100, 6), request), HasSubstr("nearest legal split"));
  request.split = {0, 0};
  EXPECT_THAT(placed(equal_layers(18), request), HasSubstr("stages"));
  request.split = {9, 9};
  request.pins[id_of(0)] = {.layer_count = 3};
  EXPECT_THAT(placed(equal_layers(18), request), HasSubstr("one of them"));
  request.pins.clear();
  request.nodes[1].memory_bytes = 300 * kMib;
  EXPECT_THAT(placed(equal_layers(18), request), HasSubstr("b needs"));
}

TEST(PlaceKeep, layers_stay_where_they_are) {
  PlacementRequest request = request_of({4000, 4000, 4000});
  request.keep = true;
  request.current = {{id_of(0), {{0, 2}}}, {id_of(1), {{2, 9}}}, {id_of(2), {{9, 12}}}};
  request.held = request.current;
  EXPECT_EQ(placed(equal_layers(12), request), "2,7,3");
  request.keep = false;
  EXPECT_EQ(placed(equal_layers(12), request), "4,4,4");
}

TEST(PlaceKeep, a_lost_node_s_layers_go_where_their_copies_are) {
  PlacementRequest request = request_of({4000, 4000});
  request.keep = true;  // c is lost, it had 8:12
  request.current = {{id_of(0), {{0, 4}}}, {id_of(1), {{4, 8}}}};
  request.held = {{id_of(0), {{0, 4}}}, {id_of(1), {{4, 12}}}};
  EXPECT_EQ(placed(equal_layers(12), request), "4,8");
  EXPECT_EQ(place(equal_layers(12), request)->fetch_bytes(), 0);
  request.nodes[1].memory_bytes = 800 * kMib;
  const auto placement = place(equal_layers(12), request);
  ASSERT_TRUE(placement);
  EXPECT_EQ(split_text(*placement, request.nodes), "5,7");
  EXPECT_EQ(placement->fetch_bytes(), 100 * kMib);
}

TEST(PlaceKeep, where_all_have_everything_the_old_placement_wins) {
  PlacementRequest request = request_of({4000, 4000});
  request.keep = true;
  request.current = {{id_of(0), {{0, 9}}}, {id_of(1), {{9, 12}}}};
  request.held = {{id_of(0), {{0, 12}}}, {id_of(1), {{0, 12}}}};
  EXPECT_EQ(placed(equal_layers(12), request), "9,3");
}

TEST(Place, checkpoints_give_way_where_memory_is_short) {
  model::Manifest manifest = equal_layers(8);
  manifest.can_trim = false;
  for (auto& layer : manifest.layers) layer.state_bytes = std::uint64_t{2} << 20;
  PlacementRequest request = request_of({4000, 4000});
  request.need.checkpoint_count = 64;
  auto roomy = place(manifest, request);
  ASSERT_TRUE(roomy) << roomy.error().message();
  for (const PlacedStage& stage : roomy->stages) EXPECT_EQ(stage.checkpoint_count, 64);
  request = request_of({700, 700});
  request.need.checkpoint_count = 64;  // half a GiB a stage, which has 0.7 with its weights
  auto tight = place(manifest, request);
  ASSERT_TRUE(tight) << tight.error().message();
  const std::uint32_t left = tight->stages.front().checkpoint_count;
  EXPECT_LT(left, 64);
  for (const PlacedStage& stage : tight->stages) {
    EXPECT_EQ(stage.checkpoint_count, left);
    EXPECT_LE(stage.need.total_bytes(), stage.usable_bytes);
  }
}

TEST(StageNeeds, agree_with_memory_needed_for_every_range) {
  model::Manifest manifest = equal_layers(7);
  manifest.shared_bytes = 12345;
  manifest.output_bytes = 777777;
  manifest.vocabulary_size = 1000;
  manifest.embedding_length = 64;
  manifest.layers[3].weight_bytes = 1;
  manifest.layers[5].state_bytes = 999;
  MemoryRequest request{.context_per_sequence = 5000, .sequence_count = 3, .checkpoint_count = 7};
  const StageNeeds needs(manifest, request);
  for (std::uint32_t begin = 0; begin < 7; ++begin) {
    for (std::uint32_t end = begin + 1; end <= 7; ++end) {
      request.layers = {begin, end};
      EXPECT_EQ(needs.total_bytes({begin, end}), memory_needed(manifest, request).total_bytes());
    }
  }
}

// --- all placements of small models ---

struct Tried {
  std::vector<LayerRange> layers;  // one a node, perhaps empty
};

void for_each_placement(std::size_t nodes, std::uint32_t layers,
                        const std::function<void(const Tried&)>& use) {
  const std::function<void(Tried&, std::uint32_t)> go = [&](Tried& tried, std::uint32_t begin) {
    if (tried.layers.size() == nodes) {
      if (begin == layers) use(tried);
      return;
    }
    for (std::uint32_t end = begin; end <= layers; ++end) {
      tried.layers.push_back({begin, end});
      go(tried, end);
      tried.layers.pop_back();
    }
  };
  Tried tried;
  go(tried, 0);
}

double distance_of(const std::vector<std::uint32_t>& counts, const std::vector<double>& quotas) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sum += (counts[i] - quotas[i]) * (counts[i] - quotas[i]);
  }
  return sum;
}

// Memory, cuts, layers and output matrix at random: the answer is the nearest of all placements
// that fit, and a refusal means that there is none.
TEST(Place, is_the_nearest_of_all_placements_that_fit) {
  Random random(20260731);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    const auto layer_count = static_cast<std::uint32_t>(2 + random.below(6));
    model::Manifest manifest = equal_layers(
        layer_count, 100, static_cast<std::uint32_t>(1 + random.below(2) * random.below(3)));
    if (random.below(2) == 0) manifest.output_bytes = random.below(300) * kMib;
    std::vector<std::uint64_t> mib;
    const std::size_t nodes = 1 + random.below(4);
    for (std::size_t i = 0; i < nodes; ++i) mib.push_back(150 + random.below(600));
    const PlacementRequest request = request_of(mib);
    const StageNeeds needs(manifest, request.need);
    std::optional<double> best;
    const auto placement = place(manifest, request);
    // Who can't hold the smallest stage has no quota.
    const std::uint64_t smallest = LegalStages(manifest, {}).smallest(needs);
    double total = 0;
    for (const std::uint64_t m : mib) total += m * kMib >= smallest ? static_cast<double>(m) : 0;
    std::vector<double> quotas;
    for (const std::uint64_t m : mib) {
      const double usable = m * kMib >= smallest ? static_cast<double>(m) : 0;
      quotas.push_back(total > 0 ? layer_count * usable / total : 0);
    }
    for_each_placement(nodes, layer_count, [&](const Tried& tried) {
      std::vector<std::uint32_t> counts;
      for (std::size_t i = 0; i < nodes; ++i) {
        const LayerRange layers = tried.layers[i];
        counts.push_back(layers.count());
        if (layers.count() == 0) continue;
        if (!manifest.split.check_stage(layers)) return;
        if (needs.total_bytes(layers) > mib[i] * kMib) return;
      }
      const double distance = distance_of(counts, quotas);
      if (!best || distance < *best) best = distance;
    });
    ASSERT_EQ(placement.has_value(), best.has_value()) << "round " << round;
    if (!placement) {
      ++refused;
      continue;
    }
    std::vector<std::uint32_t> counts(nodes, 0);
    std::uint32_t next = 0;
    for (const PlacedStage& stage : placement->stages) {
      EXPECT_EQ(stage.layers.begin, next);
      next = stage.layers.end;
      EXPECT_LE(stage.need.total_bytes(), stage.usable_bytes);
      counts[static_cast<std::size_t>(stage.name[0] - 'a')] = stage.layers.count();
    }
    EXPECT_EQ(next, layer_count);
    EXPECT_EQ(placement->stages.size() + placement->left_out.size(), nodes);
    EXPECT_NEAR(distance_of(counts, quotas), *best, 1e-4) << "round " << round;
  }
  EXPECT_GT(refused, 20);
  EXPECT_LT(refused, 380);
}

TEST(Place, the_largest_cluster_and_model_take_no_time_worth_naming) {
  PlacementRequest request = request_of(std::vector<std::uint64_t>(26, 1000));
  for (std::size_t i = request.nodes.size(); i < kPlacementNodesMax; ++i) {
    request.nodes.push_back(request.nodes[0]);
    request.nodes.back().node = NodeId{fmt::format("{:064}", i)};
  }
  const auto placement = place(equal_layers(model::kLayerCountMax), request);
  ASSERT_TRUE(placement);
  EXPECT_EQ(placement->stages.size(), kPlacementNodesMax);
  request.nodes.push_back(request.nodes.back());
  EXPECT_FALSE(place(equal_layers(8), request));
}

TEST(Place, nonsense_is_refused) {
  EXPECT_FALSE(place(equal_layers(0), request_of({1000})));
  const auto nobody = place(equal_layers(4), request_of({}));
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(largest_context_that_fits(equal_layers(4), request_of({})), 0);
}

TEST(PlacementText, splits_and_pins_are_read_strictly) {
  EXPECT_EQ(*parse_split("6,6,4,2"), (std::vector<std::uint32_t>{6, 6, 4, 2}));
  EXPECT_EQ(*parse_split("0"), (std::vector<std::uint32_t>{0}));
  for (const char* const bad : {"", ",", "6,", "6,,4", "6;4", "-1", "6, 4", "5000000000", "a"}) {
    EXPECT_FALSE(parse_split(bad)) << bad;
  }
  EXPECT_FALSE(parse_split("1" + std::string(200, ',')));
  const auto count = parse_pin("pi-3=6");
  ASSERT_TRUE(count);
  EXPECT_EQ(count->node, "pi-3");
  EXPECT_EQ(count->pin, (Pin{.layer_count = 6}));
  EXPECT_EQ(parse_pin("pi-3=0:6")->pin, (Pin{.layer_count = 6, .layers = LayerRange{0, 6}}));
  for (const char* const bad : {"", "=", "pi", "=6", "pi=", "pi=6:6", "pi=6:4", "pi=:4", "pi=-1"}) {
    EXPECT_FALSE(parse_pin(bad)) << bad;
  }
}

TEST(PlacementText, P03_a_placement_is_printed_as_the_split_that_makes_it) {
  PlacementRequest request = request_of({5000, 100, 3000, 4000});
  const auto placement = place(equal_layers(20), request);
  ASSERT_TRUE(placement);
  request.split = *parse_split(split_text(*placement, request.nodes));
  const auto again = place(equal_layers(20), request);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->stages, placement->stages);
}

// --- spare copies ---

std::string spares_of(const model::Manifest& manifest, const PlacementRequest& request,
                      const std::map<NodeId, std::uint64_t>& disk_mib) {
  std::map<NodeId, std::uint64_t> disk;
  for (const auto& [node, mib] : disk_mib) disk[node] = mib * kMib;
  const auto placement = place(manifest, request);
  std::string text;
  for (const Spare& spare : choose_spares(manifest, *placement, disk, request.held)) {
    text += fmt::format("{}{}:{} ", spare.node.value.substr(0, 1), spare.layers.begin,
                        spare.layers.end);
  }
  return text;
}

TEST(Spares, halves_go_to_the_neighbours) {
  const PlacementRequest request = request_of({4000, 4000, 4000});
  EXPECT_EQ(
      spares_of(equal_layers(12), request, {{id_of(0), 9000}, {id_of(1), 9000}, {id_of(2), 9000}}),
      "b0:4 a4:6 c6:8 b8:12 ");
}

TEST(Spares, where_room_is_short_some_layers_have_none_or_one_further_off) {
  const PlacementRequest request = request_of({4000, 4000, 4000});
  EXPECT_EQ(spares_of(equal_layers(12), request, {{id_of(1), 350}}), "b0:3 ");
  EXPECT_EQ(spares_of(equal_layers(12), request, {{id_of(0), 9000}}), "a4:12 ");
  EXPECT_EQ(spares_of(equal_layers(12), request, {{id_of(5), 250}}), "f0:2 ")
      << "a node outside the pipeline may keep some too";
  EXPECT_EQ(spares_of(equal_layers(12), request, {}), "");
}

TEST(Spares, what_a_node_holds_already_costs_nothing_and_comes_first) {
  PlacementRequest request = request_of({4000, 4000, 4000});
  request.held[id_of(2)] = {{0, 4}};
  const std::string spares = spares_of(equal_layers(12), request, {{id_of(1), 100}});
  EXPECT_EQ(spares, "c0:4 b8:9 ");
}

TEST(Spares, the_tables_at_both_ends_count) {
  model::Manifest manifest = equal_layers(4);
  manifest.embedding_bytes = 500 * kMib;
  manifest.output_bytes = 500 * kMib;
  const PlacementRequest request = request_of({4000, 4000});
  EXPECT_EQ(spares_of(manifest, request, {{id_of(1), 550}, {id_of(0), 9000}}), "b1:2 a2:4 ");
}

// Each layer at most once more, never where it runs, never beyond the room.
TEST(Spares, rules_hold_for_random_clusters) {
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    const model::Manifest manifest = equal_layers(static_cast<std::uint32_t>(4 + random.below(20)));
    PlacementRequest request = request_of(std::vector<std::uint64_t>(2 + random.below(4), 9000));
    std::map<NodeId, std::uint64_t> disk;
    for (std::size_t i = 0; i < 6; ++i) disk[id_of(i)] = random.below(1500) * kMib;
    const auto placement = place(manifest, request);
    ASSERT_TRUE(placement);
    std::map<NodeId, std::uint64_t> used;
    std::vector<int> copies(manifest.layer_count, 0);
    for (const Spare& spare : choose_spares(manifest, *placement, disk, request.held)) {
      used[spare.node] += spare.bytes;
      EXPECT_EQ(spare.bytes, 100 * kMib * spare.layers.count());
      for (std::uint32_t i = spare.layers.begin; i < spare.layers.end; ++i) ++copies[i];
      for (const PlacedStage& stage : placement->stages) {
        if (stage.node != spare.node) continue;
        EXPECT_TRUE(spare.layers.end <= stage.layers.begin ||
                    stage.layers.end <= spare.layers.begin);
      }
    }
    for (const auto& [node, bytes] : used) EXPECT_LE(bytes, disk[node]);
    for (const int count : copies) EXPECT_LE(count, 1);
  }
}

}  // namespace
}  // namespace salvage::planner
