// Goal: the bytes of version 2 never change by accident, those of version 1 are still read, and
// docs/wire.md says what the code does.
// Method: one frame of each message against tests/golden/wire/v2_*.hex, both ways; v1_*.hex read;
// generated parts of docs/wire.md (fields, worked example, limits) against the code.
// `wire_golden_test --update` rewrites both; review the diff. A file is never deleted while a
// version that wrote it is supported.

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "wire/cluster_fields.h"
#include "wire/micro_batch.h"
#include "wire/skip.h"
#include "wire/step_result.h"

namespace salvage::wire {

bool update_golden = false;

namespace {

const std::filesystem::path kRoot = SALVAGE_SOURCE_DIR;
using Bytes = std::vector<std::byte>;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string hex_dump(const Bytes& bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(bytes[i]));
    text.push_back(i % 16 == 15 || i + 1 == bytes.size() ? '\n' : ' ');
  }
  return text;
}

Bytes parse_hex(const std::string& text) {
  Bytes bytes;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    bytes.push_back(static_cast<std::byte>(std::stoul(word, nullptr, 16)));
  }
  return bytes;
}

struct Frame {
  FrameHeader header;
  Bytes body;
  Bytes data;
};

Bytes bytes_of(Frame frame) {
  frame.header.version = kWireVersion;
  frame.header.body_bytes = static_cast<std::uint32_t>(frame.body.size());
  frame.header.data_bytes = frame.data.size();
  frame.header.checksum = payload_checksum(frame.body, frame.data);
  const auto header = encode_header(frame.header);
  Bytes bytes(header.begin(), header.end());
  bytes.insert(bytes.end(), frame.body.begin(), frame.body.end());
  bytes.insert(bytes.end(), frame.data.begin(), frame.data.end());
  return bytes;
}

// Takes a golden frame apart as a receiver would.
Frame frame_of(const Bytes& bytes) {
  Frame frame;
  if (bytes.size() < kFrameHeaderBytes) return frame;
  const auto header = decode_header(std::span(bytes).first<kFrameHeaderBytes>());
  EXPECT_TRUE(header) << header.error().message();
  if (!header) return frame;
  frame.header = *header;
  const auto body_at = bytes.begin() + kFrameHeaderBytes;
  EXPECT_EQ(bytes.size(), kFrameHeaderBytes + header->body_bytes + header->data_bytes);
  frame.body.assign(body_at, body_at + header->body_bytes);
  frame.data.assign(body_at + header->body_bytes, bytes.end());
  EXPECT_TRUE(verify_payload(*header, frame.body, frame.data));
  return frame;
}

// Compares with (or updates) the golden file and returns what stands there.
Frame compare(const std::string& name, const Bytes& bytes) {
  const auto path = kRoot / "tests/golden/wire" / ("v2_" + name + ".hex");
  if (update_golden) std::ofstream(path, std::ios::binary) << hex_dump(bytes);
  const Bytes golden = parse_hex(read_file(path));
  EXPECT_EQ(hex_dump(golden), hex_dump(bytes)) << path << ": `wire_golden_test --update`?";
  return frame_of(golden);
}

// Every field gets a value of its own, so that two swapped fields show.
struct Fill {
  unsigned next = 1;
  void set(bool& value) { value = next % 2 == 1; }
  void set(std::uint32_t& value) { value = next * 1000; }
  void set(std::uint64_t& value) { value = next * 10'000'000'000ULL; }
  void set(double& value) { value = next / 4.0; }
  void set(std::string& value) { value = fmt::format("text {}", next); }
  void set(std::vector<std::uint32_t>& value) { value = {next, next + 1}; }
  void set(HiddenType& value) { value = HiddenType::kF16; }
  void set(LinkRole& value) { value = LinkRole::kData; }
  template <typename Item>
  void set(std::vector<Item>& value) {
    value.resize(1);
    set(value.front());
  }
  template <typename Record>
  requires std::is_class_v<Record>
  void set(Record& record) {
    visit_fields(Of<Record>{}, [&](const char*, auto member, FieldTraits) {
      set(record.*member);
      ++next;
    });
  }
};

template <typename Message>
Message filled() {
  Message message;
  Fill fill;
  visit_fields(Of<Message>{}, [&](const char*, auto member, FieldTraits) {
    fill.set(message.*member);
    ++fill.next;
  });
  return message;
}

TEST(Golden, every_control_message_has_the_bytes_of_version_2) {
  visit_all_messages([]<typename Message>(Of<Message>) {
    const auto message = filled<Message>();
    Frame frame;
    frame.header.type = Message::kType;
    ASSERT_TRUE(encode_control(message, frame.body));
    const Frame golden = compare(std::string(frame_type_name(Message::kType)), bytes_of(frame));
    EXPECT_EQ(golden.header.type, Message::kType);
    const auto decoded = decode_control<Message>(golden.body);
    ASSERT_TRUE(decoded) << decoded.error().message();
    EXPECT_EQ(*decoded, message);
  });
}

// Whatever version 1 wrote is still understood.
TEST(Golden, every_control_message_of_version_1_is_read) {
  visit_control_messages([]<typename Message>(Of<Message>) {
    const std::string name(frame_type_name(Message::kType));
    const Frame frame =
        frame_of(parse_hex(read_file(kRoot / "tests/golden/wire" / ("v1_" + name + ".hex"))));
    EXPECT_EQ(frame.header.version, 1);
    const auto decoded = decode_control<Message>(frame.body);
    EXPECT_TRUE(decoded) << decoded.error().message();
  });
}

template <typename Message>
void compare_data(const std::string& name, FrameType type, const Message& message,
                  std::span<const std::byte> data) {
  Frame frame;
  frame.header.type = type;
  if constexpr (requires { message.step; }) {
    frame.header.epoch = message.epoch;
    frame.header.step = message.step;
  }
  frame.data.assign(data.begin(), data.end());
  ASSERT_TRUE(encode(message, frame.body));
  const Frame golden = compare(name, bytes_of(frame));
  Message decoded;
  const auto result = decode(golden.header, golden.body, decoded);
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(decoded, message);
}

// Two rows of sequence 1, with hidden states of width 3 and a trim before them.
MicroBatch example_batch(HiddenType type) {
  MicroBatch batch;
  batch.epoch.value = 2;
  batch.step.value = 7;
  batch.ops = {{SequenceOpKind::kTrim, {1}, {0}, 5}};
  batch.tokens = {100, 101};
  batch.positions = {5, 6};
  batch.sequences = {{1}, {1}};
  batch.wants_logits = {0, 1};
  batch.logits = {LogitsForm::kTopK, 40};
  batch.wants_timing = true;
  batch.hidden = {2, 3, type};
  batch.timings = {{{0}, 10, 2000, 30}};
  return batch;
}
Bytes example_rows(HiddenType type) {
  const std::vector<float> rows = {1.0F, -2.0F, 0.5F, 0.25F, 3.0F, -0.0F};
  Bytes bytes;
  encode_hidden(rows, 3, type, bytes);
  return bytes;
}

TEST(Golden, micro_batches_have_the_bytes_of_version_2) {
  for (const auto type : {HiddenType::kF32, HiddenType::kF16, HiddenType::kQ8}) {
    compare_data("micro_batch_" + std::string(hidden_type_name(type)), FrameType::kMicroBatch,
                 example_batch(type), example_rows(type));
  }
  MicroBatch first = example_batch(HiddenType::kF32);
  first.hidden = {};
  first.position_planes = 4;
  first.positions = {5, 6, 7, 8, 9, 10, 0, 0};
  first.ops = {{SequenceOpKind::kClear, {2}, {0}, 0}, {SequenceOpKind::kCopy, {3}, {1}, 0}};
  first.causal = false;
  first.logits = {LogitsForm::kHash, 0};
  compare_data("micro_batch_tokens", FrameType::kMicroBatch, first, {});
  first.ops = {{SequenceOpKind::kSave, {2}, {0}, 640, {9}},
               {SequenceOpKind::kRestore, {3}, {0}, 512, {1}}};
  compare_data("micro_batch_checkpoints", FrameType::kMicroBatch, first, {});
}

TEST(Golden, step_results_have_the_bytes_of_version_2) {
  StepResult result;
  result.epoch.value = 2;
  result.step.value = 7;
  result.row_count = 2;
  result.vocabulary_size = 4;
  result.timings = {{{0}, 1, 2, 3}, {{1}, 4, 5, 6}};
  const std::vector<float> logits = {1.0F, 4.0F, 2.0F, 3.0F, -1.0F, -4.0F, -2.0F, -3.0F};
  compare_data("step_result_all", FrameType::kStepResult, result, float_bytes(logits));
  result.form = LogitsForm::kHash;
  reduce_logits(logits, result);
  compare_data("step_result_hash", FrameType::kStepResult, result, {});
  result.form = LogitsForm::kTopK;
  result.top_k = 2;
  reduce_logits(logits, result);
  // The sum's last bit is the compiler's business; the frame's bytes are not.
  result.log_sum_exp = {4.5F, -0.5F};
  compare_data("step_result_top_k", FrameType::kStepResult, result, {});
}

TEST(Golden, credit_has_the_bytes_of_version_2) {
  compare_data("credit", FrameType::kCredit, Credit{3}, {});
}

TEST(Golden, what_is_left_out_has_the_bytes_of_version_2) {
  compare_data("skip", FrameType::kSkip, Skip{{{7}, {8}, {10}}}, {});
  MicroBatch batch = example_batch(HiddenType::kF32);
  batch.hidden = {};
  batch.skipped = true;
  compare_data("micro_batch_skipped", FrameType::kMicroBatch, batch, {});
  StepResult result;
  result.epoch.value = 2;
  result.step.value = 7;
  result.skipped = true;
  result.form = LogitsForm::kTopK;
  result.top_k = 2;
  result.vocabulary_size = 4;
  compare_data("step_result_skipped", FrameType::kStepResult, result, {});
}

// --- docs/wire.md --------------------------------------------------------------------------------

std::string type_name(bool) {
  return "bool";
}
std::string type_name(std::uint32_t) {
  return "u32";
}
std::string type_name(std::uint64_t) {
  return "u64";
}
std::string type_name(double) {
  return "number";
}
std::string type_name(const std::string&) {
  return "text";
}
std::string type_name(const std::vector<std::uint32_t>&) {
  return "list of u32";
}
std::string type_name(const std::vector<std::string>&) {
  return "list of text";
}
std::string type_name(const std::vector<NodeAddress>&) {
  return "list of address";
}
std::string type_name(const std::vector<MemberRecord>&) {
  return "list of member";
}
std::string type_name(const std::vector<FetchSource>&) {
  return "list of source";
}
std::string type_name(HiddenType) {
  return "hidden type";
}
std::string type_name(LinkRole) {
  return "role";
}

std::string default_text(bool value) {
  return value ? "true" : "false";
}
std::string default_text(const std::string&) {
  return "\"\"";
}
template <typename Item>
std::string default_text(const std::vector<Item>&) {
  return "none";
}
template <typename Number>
std::string default_text(const Number& value) {
  return fmt::format("{}", value);
}
std::string default_text(HiddenType value) {
  return std::string(hidden_type_name(value));
}
std::string default_text(LinkRole) {
  return "control";
}

template <typename Message>
void add_fields(std::string_view name, std::string& table) {
  const Message empty;
  visit_fields(Of<Message>{}, [&](const char* key, auto member, FieldTraits traits) {
    const auto& value = empty.*member;
    table += fmt::format("| {} | {} | {} |\n", name,
                         traits.required ? fmt::format("**{}**", key)
                                         : fmt::format("{} [{}]", key, default_text(value)),
                         type_name(value));
  });
}

std::string fields_table() {
  std::string table = "\n| message | key | type |\n|---|---|---|\n";
  visit_all_messages([&]<typename Message>(Of<Message>) {
    add_fields<Message>(frame_type_name(Message::kType), table);
  });
  add_fields<NodeAddress>("(address)", table);
  add_fields<MemberRecord>("(member)", table);
  add_fields<FetchSource>("(source)", table);
  return table + "\n";
}

std::string example_text() {
  Frame frame;
  const MicroBatch batch = example_batch(HiddenType::kF32);
  frame.header.type = FrameType::kMicroBatch;
  frame.header.epoch = batch.epoch;
  frame.header.step = batch.step;
  EXPECT_TRUE(encode(batch, frame.body));
  frame.data = example_rows(HiddenType::kF32);
  return "\n```\n" + hex_dump(bytes_of(frame)) + "```\n\n";
}

std::string limits_table() {
  std::string table = "\n| limit | value |\n|---|---|\n";
  const std::pair<const char*, std::uint64_t> limits[] = {
      {"kRowsMax", kRowsMax},
      {"kRowWidthMax", kRowWidthMax},
      {"kPositionPlanesMax", kPositionPlanesMax},
      {"kSequenceOpsMax", kSequenceOpsMax},
      {"kVocabularyMax", kVocabularyMax},
      {"kTopKMax", kTopKMax},
      {"kLogitRowsMax", kLogitRowsMax},
      {"kStagesMax", kStagesMax},
      {"kSkipStepsMax", kSkipStepsMax},
      {"kDataBodyBytesMax", kDataBodyBytesMax},
      {"kControlBodyBytesMax", kControlBodyBytesMax},
      {"kDataBytesMax", kDataBytesMax},
      {"kBlobBytesMax", kBlobBytesMax},
      {"kTextBytesMax", kTextBytesMax},
      {"kListItemsMax", kListItemsMax},
      {"kControlDepthMax", kControlDepthMax},
      {"kCreditsMax", kCreditsMax}};
  for (const auto& [name, value] : limits) table += fmt::format("| {} | {} |\n", name, value);
  return table + "\n";
}

// The part of docs/wire.md between `<!-- begin: name -->` and `<!-- end: name -->`.
void compare_document(const std::string& name, const std::string& expected) {
  const auto path = kRoot / "docs/wire.md";
  std::string text = read_file(path);
  const std::string begin = "<!-- begin: " + name + " -->\n";
  const std::size_t from = text.find(begin);
  const std::size_t to = text.find("<!-- end: " + name + " -->");
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  const std::size_t at = from + begin.size();
  if (update_golden) {
    text.replace(at, to - at, expected);
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  EXPECT_EQ(text.substr(at, to - at), expected) << "`wire_golden_test --update`?";
}

TEST(WireDocument, lists_the_fields_of_the_control_messages) {
  compare_document("fields", fields_table());
}
TEST(WireDocument, shows_the_bytes_of_its_example) {
  compare_document("example", example_text());
}
TEST(WireDocument, states_the_limits_of_the_code) {
  compare_document("limits", limits_table());
}

}  // namespace
}  // namespace salvage::wire

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--update") salvage::wire::update_golden = true;
  }
  return RUN_ALL_TESTS();
}
