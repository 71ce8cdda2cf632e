// Goal: an answer's stretches begin, grow and end once each, in order, and every call's arguments
// are JSON in the end. Method: a listener that writes down what it hears.

#include "api/segments.h"

#include <gtest/gtest.h>

namespace salvage::api {
namespace {

class Scribe final : public SegmentListener {
 public:
  void begin(std::size_t index, const Segment& segment) override {
    static constexpr const char* kNames[] = {"think", "say", "call"};
    note(index, std::string("+") + kNames[static_cast<int>(segment.kind)]);
    if (segment.kind == SegmentKind::kCall) heard += ":" + segment.id + ":" + segment.name;
  }
  void append(std::size_t index, const Segment& /*segment*/, const std::string& more) override {
    note(index, more);
  }
  void end(std::size_t index, const Segment& segment) override { note(index, "-" + segment.text); }

  std::string heard;

 private:
  void note(std::size_t index, const std::string& what) {
    heard += ' ' + std::to_string(index) + what;
  }
};

AnswerDelta call(std::uint32_t index, std::string id, std::string name, std::string arguments) {
  return {.calls = {{.index = index,
                     .id = std::move(id),
                     .name = std::move(name),
                     .arguments = std::move(arguments)}}};
}

TEST(Segments, each_kind_ends_where_the_next_begins) {
  Segments segments("u");
  Scribe scribe;
  segments.add({.reasoning = "h"}, &scribe);
  segments.add({.reasoning = "m", .text = "yes"}, &scribe);
  segments.add({.text = "!"}, &scribe);
  segments.add({}, &scribe);
  segments.finish(&scribe);
  segments.finish(&scribe);
  EXPECT_EQ(scribe.heard, " 0+think 0h 0m 0-hm 1+say 1yes 1! 1-yes!");
  EXPECT_EQ(segments.joined(SegmentKind::kText), "yes!");
  EXPECT_EQ(segments.joined(SegmentKind::kReasoning), "hm");
  EXPECT_FALSE(segments.has_calls());
}

TEST(Segments, calls_follow_one_another_and_none_is_without_arguments) {
  Segments segments("u");
  Scribe scribe;
  segments.add(call(0, "id0", "f", ""), &scribe);
  segments.add(call(0, "", "", "{\"a\""), &scribe);
  segments.add(call(0, "", "", ":1}"), &scribe);
  segments.add(call(1, "", "g", ""), &scribe);
  segments.add(call(2, "", "h", "{}"), &scribe);
  segments.finish(&scribe);
  EXPECT_EQ(scribe.heard,
            " 0+call:id0:f 0{\"a\" 0:1} 0-{\"a\":1} 1+call:call_u_1:g 1{} 1-{} 2+call:call_u_2:h "
            "2{} 2-{}");
  EXPECT_TRUE(segments.has_calls());
}

TEST(Segments, logprobs_stay_with_the_text_they_are_of) {
  Segments segments("u");
  segments.add({.text = "a", .logprobs = {{.id = 1}}}, nullptr);
  segments.add({.reasoning = "r", .logprobs = {{.id = 2}}}, nullptr);
  segments.add({.text = "b", .logprobs = {{.id = 3}, {.id = 4}}}, nullptr);
  segments.finish(nullptr);
  ASSERT_EQ(segments.all().size(), 3U);
  EXPECT_EQ(segments.all()[0].logprobs.size(), 1U);
  EXPECT_EQ(segments.all()[2].logprobs.size(), 2U);
}

}  // namespace
}  // namespace salvage::api
