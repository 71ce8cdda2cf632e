// Goal: a piece has the same bytes and digest from whatever file it is read, a stage asks for the
// pieces that it is made of and no others, and a catalogue entry takes nothing but what an entry
// says. Method: tiny models in memory, read at every offset; entries changed one field at a time.

#include "model/piece.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "base/sha256.h"
#include "model/piece_catalogue.h"
#include "model/shard_plan.h"
#include "model/tiny_model.h"

namespace salvage::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const Gguf> shared(const TinyModel& tiny) {
  auto opened = tiny.open();
  CHECK(opened.has_value());
  return std::make_shared<const Gguf>(std::move(*opened));
}

std::vector<Piece> pieces_of(const Gguf& model) {
  auto pieces = list_pieces(model);
  CHECK(pieces.has_value());
  return std::move(*pieces);
}

std::vector<std::string> names_of(const std::vector<Piece>& pieces) {
  std::vector<std::string> names;
  for (const Piece& piece : pieces) names.push_back(piece.name());
  return names;
}

std::string read(const ByteSource& source, std::uint64_t offset, std::size_t count) {
  std::string bytes(count, '\0');
  const auto done = source.read_at(offset, std::as_writable_bytes(std::span(bytes)));
  EXPECT_TRUE(done) << done.error().message();
  return bytes;
}

std::string data_of(const TinyModel& tiny, const std::string& name) {
  for (const OutputTensor& tensor : tiny.tensors) {
    if (tensor.name == name) return std::get<GivenData>(tensor.data).bytes;
  }
  return "no such tensor";
}

Gguf shard_of(const Gguf& model, LayerRange layers) {
  const auto rules = split_rules(model);
  CHECK(rules.has_value());
  const auto plan = plan_shard(model, layers, *rules, std::string(64, 'd'));
  CHECK(plan.has_value());
  MemorySink sink;
  CHECK(write_gguf(plan->metadata, plan->tensors, sink, {}).has_value());
  auto shard = TinyModel::open_bytes(sink.bytes());
  CHECK(shard.has_value());
  return std::move(*shard);
}

std::vector<std::string> needed_by(const Gguf& model, LayerRange layers) {
  const auto pieces = pieces_of(model);
  const auto needed = needed_pieces(model, pieces, layers);
  EXPECT_TRUE(needed) << needed.error().message();
  std::vector<std::string> names;
  for (const std::size_t index : *needed) names.push_back(pieces[index].name());
  return names;
}

std::vector<std::string> held_by_shard(const Gguf& model, LayerRange layers) {
  const auto pieces = pieces_of(model);
  const Gguf shard = shard_of(model, layers);
  const auto held = pieces_in_shard(model, pieces, layers, shard);
  EXPECT_TRUE(held) << held.error().message();
  std::vector<std::string> names;
  for (const HeldPiece& piece : *held) names.push_back(pieces[piece.index].name());
  return names;
}

TEST(Pieces, are_the_table_the_layers_the_output_and_the_rest) {
  TinyModel tiny = tiny_model("llama", 3);
  tiny.add("rope_freqs.weight", 16, 1);
  tiny.add("output.bias", 6, 1);
  const auto model = shared(tiny);
  const auto pieces = pieces_of(*model);
  EXPECT_THAT(names_of(pieces),
              ElementsAre("embedding", "layer 0", "layer 1", "layer 2", "output", "shared"));
  std::size_t tensors = 0;
  for (const Piece& piece : pieces) tensors += piece.tensors.size();
  EXPECT_EQ(tensors, model->tensors().size());
  ASSERT_EQ(pieces[4].tensors.size(), 2U);
  EXPECT_EQ(pieces[4].tensors[0]->name, "output.bias");
  EXPECT_EQ(pieces[5].tensors.size(), 2U);
}

TEST(Pieces, of_a_tied_model_have_no_output) {
  TinyModel tiny = tiny_model("llama", 1);
  tiny.remove("output.weight");
  EXPECT_THAT(names_of(pieces_of(*shared(tiny))), ElementsAre("embedding", "layer 0", "shared"));
}

TEST(Pieces, content_is_a_line_and_the_data_of_each_tensor_by_name) {
  TinyModel tiny = tiny_model("llama", 2);
  tiny.add("blk.1.a.weight", 3, 2);
  const auto model = shared(tiny);
  const auto pieces = pieces_of(*model);
  const PieceContent content(pieces[2], model, pieces[2].tensors);
  const std::string wanted = "a.weight f32 3 2\n" + data_of(tiny, "blk.1.a.weight") +
                             "attn_norm.weight f32 32\n" + data_of(tiny, "blk.1.attn_norm.weight") +
                             "ffn_up.weight f32 32 4\n" + data_of(tiny, "blk.1.ffn_up.weight");
  EXPECT_EQ(content.size(), pieces[2].bytes);
  EXPECT_EQ(read(content, 0, wanted.size()), wanted);
  EXPECT_EQ(pieces[2].bytes, wanted.size());
  EXPECT_EQ(data_offset_in_piece(pieces[2], 1), wanted.find("32\n") + 3);
}

TEST(Pieces, content_is_read_from_any_offset) {
  const auto model = shared(tiny_model("llama", 2));
  const auto pieces = pieces_of(*model);
  const PieceContent content(pieces[1], model, pieces[1].tensors);
  const std::string whole = read(content, 0, content.size());
  Random random(7);
  for (int i = 0; i < 500; ++i) {
    const std::uint64_t offset = random.below(whole.size() + 1);
    const std::size_t count = random.below(whole.size() - offset + 1);
    ASSERT_EQ(read(content, offset, count), whole.substr(offset, count)) << offset << " " << count;
  }
  std::byte one{};
  EXPECT_FALSE(content.read_at(whole.size(), std::span(&one, 1)));
  EXPECT_FALSE(content.read_at(UINT64_MAX, std::span(&one, 1)));
}

TEST(Pieces, digest_is_the_same_from_the_model_and_from_any_shard) {
  const auto model = shared(tiny_model("llama", 4));
  const auto pieces = pieces_of(*model);
  std::vector<std::string> wanted;
  for (const Piece& piece : pieces) {
    wanted.push_back(hash_content(PieceContent(piece, model, piece.tensors))->value);
  }
  std::size_t compared = 0;
  for (const LayerRange layers : {LayerRange{0, 1}, {1, 3}, {2, 4}, {0, 4}}) {
    const auto shard = std::make_shared<const Gguf>(shard_of(*model, layers));
    const auto held = pieces_in_shard(*model, pieces, layers, *shard);
    ASSERT_TRUE(held);
    for (const HeldPiece& piece : *held) {
      const PieceContent content(pieces[piece.index], shard, piece.places);
      EXPECT_EQ(hash_content(content)->value, wanted[piece.index]);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 2U + 3U + 4U + 6U);
}

TEST(Pieces, digest_depends_on_name_type_shape_and_data) {
  std::set<std::string> digests;
  for (int change = 0; change < 4; ++change) {
    TinyModel tiny = tiny_model("llama", 1);
    OutputTensor& tensor = tiny.tensors.back();
    if (change == 1) tensor.name = "blk.0.ffn_xp.weight";
    if (change == 2) tensor.shape = {64, 2, 1, 1};
    if (change == 3) std::get<GivenData>(tensor.data).bytes[5] ^= 1;
    const auto model = shared(tiny);
    const auto pieces = pieces_of(*model);
    digests.insert(hash_content(PieceContent(pieces[1], model, pieces[1].tensors))->value);
  }
  EXPECT_EQ(digests.size(), 4U);
}

TEST(Pieces, a_shards_zeroed_table_is_not_the_embedding_though_it_looks_like_it) {
  TinyModel tiny = tiny_model("llama", 2);
  // The type that a table which is never read gets, at this width.
  OutputTensor& table = tiny.tensors.front();
  table.type = static_cast<TensorType>(2);
  table.data = GivenData{std::string(6 * 18, 'q')};
  const auto model = shared(tiny);
  const Gguf last = shard_of(*model, {1, 2});
  ASSERT_EQ(last.find_tensor("token_embd.weight")->type, table.type);
  ASSERT_EQ(last.find_tensor("token_embd.weight")->shape, table.shape);
  EXPECT_THAT(held_by_shard(*model, {1, 2}), ElementsAre("layer 1", "output", "shared"));
  tiny.remove("output.weight");
  EXPECT_THAT(held_by_shard(*shared(tiny), {1, 2}), ElementsAre("embedding", "layer 1", "shared"));
}

TEST(Pieces, that_a_stage_needs_are_its_layers_what_is_shared_and_its_end_of_the_model) {
  TinyModel tiny = tiny_model("llama", 4);
  const auto model = shared(tiny);
  EXPECT_THAT(needed_by(*model, {0, 2}), ElementsAre("embedding", "layer 0", "layer 1", "shared"));
  EXPECT_THAT(needed_by(*model, {1, 3}), ElementsAre("layer 1", "layer 2", "shared"));
  EXPECT_THAT(needed_by(*model, {3, 4}), ElementsAre("layer 3", "output", "shared"));
  tiny.remove("output.weight");
  EXPECT_THAT(needed_by(*shared(tiny), {3, 4}), ElementsAre("embedding", "layer 3", "shared"));
}

TEST(Pieces, of_layers_that_only_guess_ahead_are_needed_by_no_stage) {
  TinyModel tiny = tiny_model("glm4moe", 4);
  tiny.set("nextn_predict_layers", Value::u32(1));
  const auto model = shared(tiny);
  EXPECT_THAT(names_of(pieces_of(*model)), ::testing::Contains("layer 3"));
  EXPECT_THAT(needed_by(*model, {1, 3}), ElementsAre("layer 1", "layer 2", "output", "shared"));
}

TEST(Pieces, of_layers_that_may_not_be_a_stage_are_not_listed) {
  const auto model = shared(tiny_model("llama", 2));
  const auto pieces = pieces_of(*model);
  for (const LayerRange layers : {LayerRange{1, 1}, {1, 3}, {2, 1}}) {
    EXPECT_FALSE(needed_pieces(*model, pieces, layers)) << layers.begin << " " << layers.end;
  }
}

TEST(Pieces, with_names_that_a_line_cannot_hold_are_refused) {
  for (const std::string name : {"a b", "a\nb", "blk.0.\x7f", "blk.512.x", "blk.99999999999.x"}) {
    TinyModel tiny = tiny_model("llama", 1);
    tiny.add(name, 4, 1);
    const auto pieces = list_pieces(*shared(tiny));
    if (name.find('\x7f') != std::string::npos) {
      EXPECT_TRUE(pieces);
      continue;
    }
    ASSERT_FALSE(pieces) << name;
    EXPECT_EQ(pieces.error().code(), ErrorCode::kCorrupt);
  }
}

TEST(Pieces, hashing_stops_when_told) {
  const MemorySource content(std::string(std::size_t{3} << 20, 'x'));
  std::uint64_t seen = 0;
  const auto digest = hash_content(content, [&](std::uint64_t more) {
    seen += more;
    return seen < (std::uint64_t{2} << 20);
  });
  ASSERT_FALSE(digest);
  EXPECT_EQ(digest.error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(seen, std::uint64_t{2} << 20);
}

CataloguedModel catalogue(const TinyModel& tiny) {
  auto result = catalogue_model(*shared(tiny), "tiny", {});
  CHECK(result.has_value());
  return std::move(*result);
}

TEST(CatalogueEntry, survives_its_text) {
  const CatalogueEntry entry = catalogue(tiny_model("llama", 3)).entry;
  const auto again = parse_entry(encode_entry(entry));
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(*again, entry);
  EXPECT_EQ(again->id(), entry.id());
  EXPECT_TRUE(is_digest(entry.id().value));
}

TEST(CatalogueEntry, id_follows_the_digests_and_their_order_and_nothing_else) {
  const CatalogueEntry entry = catalogue(tiny_model("llama", 2)).entry;
  CatalogueEntry renamed = entry;
  renamed.name = "another";
  EXPECT_EQ(renamed.id(), entry.id());
  CatalogueEntry swapped = entry;
  std::swap(swapped.pieces[1], swapped.pieces[2]);
  EXPECT_NE(swapped.id(), entry.id());
  CatalogueEntry other = entry;
  other.skeleton.value[0] = other.skeleton.value[0] == '0' ? '1' : '0';
  EXPECT_NE(other.id(), entry.id());
}

TEST(CatalogueEntry, is_the_same_for_a_model_in_parts) {
  const TinyModel whole = tiny_model("llama", 2);
  std::vector<std::unique_ptr<ByteSource>> parts;
  for (std::uint32_t part = 0; part < 2; ++part) {
    TinyModel half;
    if (part == 0) half.metadata = whole.metadata;
    half.metadata.set("split.count", Value::u32(2));
    half.metadata.set("split.no", Value::u32(part));
    const auto middle = whole.tensors.begin() + 3;
    half.tensors = part == 0 ? std::vector(whole.tensors.begin(), middle)
                             : std::vector(middle, whole.tensors.end());
    parts.push_back(std::make_unique<MemorySource>(half.bytes()));
  }
  const auto model = Gguf::from_parts(std::move(parts), {"a", "b"});
  ASSERT_TRUE(model) << model.error().message();
  const auto found = catalogue_model(*model, "tiny", {});
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->entry, catalogue(whole).entry);
  EXPECT_EQ(found->skeleton, catalogue(whole).skeleton);
}

TEST(CatalogueEntry, takes_a_name_from_any_file_and_makes_it_readable) {
  const auto model = shared(tiny_model("llama", 1));
  const std::string long_name(300, 'n');
  for (const std::string& name :
       {std::string(), std::string("a\x1b[31mb"), std::string("\xff"), long_name}) {
    const auto found = catalogue_model(*model, name, {});
    ASSERT_TRUE(found);
    EXPECT_TRUE(parse_entry(encode_entry(found->entry))) << name;
  }
}

TEST(CatalogueEntry, of_other_pieces_than_the_skeletons_is_corrupt) {
  const auto model = shared(tiny_model("llama", 2));
  const CatalogueEntry good = catalogue(tiny_model("llama", 2)).entry;
  EXPECT_TRUE(check_entry(good, *model));
  CatalogueEntry fewer = good;
  fewer.pieces.pop_back();
  CatalogueEntry longer = good;
  longer.pieces[1].bytes += 1;
  CatalogueEntry other = good;
  other.pieces[1].name = "layer 7";
  for (const CatalogueEntry& bad : {fewer, longer, other}) {
    const auto checked = check_entry(bad, *model);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code(), ErrorCode::kCorrupt);
  }
}

TEST(CatalogueEntry, that_is_cut_anywhere_is_refused) {
  const std::string text = encode_entry(catalogue(tiny_model("llama", 1)).entry);
  for (std::size_t length = 0; length < text.size(); ++length) {
    ASSERT_FALSE(parse_entry(text.substr(0, length))) << length;
  }
  EXPECT_FALSE(parse_entry(std::string(kEntryBytesMax + 1, ' ')));
  EXPECT_FALSE(parse_entry(std::string(100'000, '[')));
  EXPECT_FALSE(parse_entry(text + "x"));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  CHECK(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST(CatalogueEntry, with_one_wrong_value_is_refused) {
  const CatalogueEntry entry = catalogue(tiny_model("llama", 2)).entry;
  const std::string text = encode_entry(entry);
  ASSERT_TRUE(parse_entry(text));
  const std::string digest = entry.pieces[0].digest.value;
  const std::vector<std::pair<std::string, std::string>> changes = {
      {R"("version":1)", R"("version":2)"},
      {R"("name":"tiny")", R"("name":"")"},
      {R"("name":"tiny")", R"("name":"a\u001b[0m")"},
      {R"("name":"tiny")", R"("name":7)"},
      {R"("name":"tiny",)", ""},
      {digest, "../../../../etc/passwd"},
      {digest, digest.substr(1)},
      {digest, digest.substr(1) + "A"},
      {R"("name":"layer 1")", R"("name":"layer 0")"},
      {R"("name":"layer 1")", R"("name":"layer 01")"},
      {R"("name":"layer 1")", R"("name":"layer -1")"},
      {R"("name":"layer 1")", R"("name":"layers")"},
      {R"("skeleton_bytes":)", R"("skeleton_bytes":-)"},
      {R"("skeleton_bytes":)", R"("skeleton_bytes":99999999999)"},
      {R"("pieces":[)", R"("pieces":[7,)"},
      {R"("pieces":)", R"("peaces":)"},
      {entry.pieces[1].digest.value, digest},  // one digest, two sizes
  };
  for (const auto& [from, to] : changes) {
    EXPECT_FALSE(parse_entry(replaced(text, from, to))) << from << " -> " << to;
  }
}

}  // namespace
}  // namespace salvage::model
