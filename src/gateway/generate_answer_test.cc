// Goal: an answer's place is held as long as any of its choices runs, and no longer, whichever of
// its prompts is read first. Method: an answer read step by step over fake stages, whose first lets
// one micro-batch through at a time.

#include "gateway/generate_answer.h"

#include <memory>
#include <string>
#include <variant>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/fake_serving.h"

namespace salvage::gateway {
namespace {

using nlohmann::json;

class SharedPrompts : public ::testing::Test {
 protected:
  std::unique_ptr<GeneratedAnswer> answer(const json& body) {
    const auto request = api::parse_request(api::Dialect::kCompletions, body.dump());
    EXPECT_TRUE(request.has_value());
    auto model = serving_.ready("");
    EXPECT_TRUE(model.has_value());
    auto prepared = GeneratedAnswer::prepare(*request, *model, clock_);
    EXPECT_TRUE(prepared.has_value());
    return std::move(*prepared);
  }
  // The next event, with as many micro-batches let through as it takes.
  std::optional<api::AnswerEvent> step(GeneratedAnswer& answer) {
    for (int turn = 0; turn < 100'000; ++turn) {
      if (auto event = answer.next(clock_.now())) return event;
      if (serving_.gate().passed() < let_) continue;
      serving_.gate().let(1);
      ++let_;
    }
    return std::nullopt;
  }

  SteadyClock clock_;
  sim::FakeServing serving_{{.sequence_count = 2}};
  std::size_t let_ = 0;
};

TEST_F(SharedPrompts, hold_their_place_until_the_last_choice_is_over) {
  serving_.gate().hold();
  // The short prompt, which is the last, is read first, and its second choice begins first.
  const auto made = answer({{"prompt", {std::string(400, 'a'), std::string(140, 'b')}},
                            {"n", 2},
                            {"max_tokens", 30},
                            {"ignore_eos", true}});
  auto place = std::make_shared<int>();
  const std::weak_ptr<int> held = place;
  ASSERT_TRUE(made->begin(std::move(place)));
  EXPECT_EQ(serving_.asked(), 2U) << "the second choices wait for the first";
  int finished = 0;
  while (finished < 4) {
    const auto event = step(*made);
    ASSERT_TRUE(event);
    ASSERT_FALSE(std::holds_alternative<api::Failed>(*event));
    finished += std::holds_alternative<api::Finished>(*event) ? 1 : 0;
    const bool let_go = held.expired();
    ASSERT_TRUE(!let_go || serving_.asked() == 0) << finished;
  }
  EXPECT_TRUE(held.expired()) << "though the answer is still there";
}

TEST_F(SharedPrompts, begin_no_choice_for_who_has_gone) {
  serving_.gate().hold();
  const auto made = answer(
      {{"prompt", std::string(400, 'a')}, {"n", 3}, {"max_tokens", 30}, {"ignore_eos", true}});
  ASSERT_TRUE(made->begin(nullptr));
  made->forsake();
  serving_.gate().open();
  while (serving_.asked() > 0) {
    if (made->next(clock_.now())) continue;
  }
  while (made->next(clock_.now())) {
  }
  EXPECT_EQ(serving_.asked(), 0U);
}

}  // namespace
}  // namespace salvage::gateway
