// Goal: what the API promises while many ask: who goes away stops its work on every stage and
// leaves its prefix for the next, who reads slowly costs only itself, a full line is said so at
// once, and no answer ever holds half a character. Method: HTTP written by hand into socket pairs,
// the service and the handler as they run, over a pipeline of three fake stages whose first can be
// held; steps and rows are counted, not seconds.

#include "gateway/api_handler.h"

#include <functional>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "http/http_service.h"
#include "http/pair_listener.h"
#include "pipeline/scheduler_limits.h"
#include "sim/fake_serving.h"

namespace salvage::gateway {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr auto kBound = std::chrono::seconds(40);

bool soon(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + kBound;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

std::string post(std::string_view path, const json& body) {
  const std::string text = body.dump();
  return fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}", path,
                     text.size(), text);
}

std::string after_head(const std::string& answer) {
  const std::size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

// The body of a chunked answer.
std::string unchunked(std::string_view rest) {
  std::string body;
  while (!rest.empty()) {
    const std::size_t end = rest.find("\r\n");
    if (end == std::string_view::npos) break;
    const std::size_t size = std::stoul(std::string(rest.substr(0, end)), nullptr, 16);
    body += rest.substr(end + 2, size);
    rest.remove_prefix(std::min(rest.size(), end + 2 + size + 2));
  }
  return body;
}

// The JSON of each frame of a stream.
std::vector<json> frames(const std::string& body) {
  std::vector<json> found;
  std::size_t at = 0;
  for (std::size_t end = 0; (end = body.find("\n\n", at)) != std::string::npos; at = end + 2) {
    const std::string frame = body.substr(at, end - at);
    if (frame.starts_with("data: {")) found.push_back(json::parse(frame.substr(6)));
  }
  return found;
}

class Api : public ::testing::Test {
 protected:
  void start(const sim::FakeServingOptions& serving = {}, std::size_t answers_max = 256) {
    serving_ = std::make_unique<sim::FakeServing>(serving);
    ApiOptions options;
    options.answers_max = answers_max;
    options.wall_ms = [] { return std::int64_t{1'700'000'000'000}; };
    handler_ = std::make_unique<ApiHandler>(std::move(options), *serving_, ledger_, clock_);
    open_door();
  }
  // With another service behind it: what the one before had taken or had yet to take is over.
  void open_door() {
    service_.reset();
    pairs_.open();
    http::HttpServiceOptions http;
    http.listener = std::make_unique<http::PairListener>(pairs_);
    http.clock = &clock_;
    service_ = http::HttpService::start(std::move(http), *handler_);
  }
  ~Api() override {
    if (serving_) serving_->gate().open();
    service_.reset();
  }

  int begin(std::string_view path, const json& body) {
    const int client = clients_.connect();
    http::say(client, post(path, body));
    return client;
  }
  json ask(std::string_view path, const json& body) {
    const int client = begin(path, body);
    std::string answer;
    while (!json::accept(after_head(answer))) {
      const std::string more = http::hear(client, 65536, "}");
      if (more.empty()) break;
      answer += more;
    }
    clients_.close(client);
    EXPECT_TRUE(json::accept(after_head(answer))) << answer;
    return json::parse(after_head(answer), nullptr, false);
  }
  static json prompt(std::size_t tokens, char of, std::size_t answer_tokens, bool stream) {
    return {{"prompt", std::string(tokens, of)},
            {"max_tokens", answer_tokens},
            {"ignore_eos", true},
            {"stream", stream}};
  }
  // What was left out is known: the first sequence holds what the last stage has computed.
  void wait_settled() {
    EXPECT_TRUE(soon([&] { return serving_->held_tokens(0) == serving_->stats(2).rows; }));
  }
  // The client's end closes, and the pipeline has let go of its answer.
  void leave(int client) {
    clients_.close(client);
    EXPECT_TRUE(soon([&] { return serving_->running() == 0; }));
  }

  SteadyClock clock_;
  http::Pairs pairs_;
  http::PairClients clients_{pairs_};
  std::unique_ptr<sim::FakeServing> serving_;
  metrics::RequestLedger ledger_;
  std::unique_ptr<ApiHandler> handler_;
  std::unique_ptr<http::HttpService> service_;
};

// Prompts of 400 tokens in chunks of at most 16: 25 steps or more.
constexpr std::size_t kLong = 400;

void expect_rows(sim::FakeServing& serving, std::uint64_t rows) {
  for (std::size_t stage = 0; stage < serving.stage_count(); ++stage) {
    EXPECT_EQ(serving.stats(stage).rows, rows) << "stage " << stage;
  }
}

class Gone : public Api, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(whole_and_streamed, Gone, ::testing::Bool());

TEST_P(Gone, while_its_prompt_is_read_stops_every_stage_and_leaves_its_prefix) {
  start();
  serving_->gate().hold();
  const int client = begin("/v1/completions", prompt(kLong, 'a', 5, GetParam()));
  serving_->gate().let(1);
  ASSERT_TRUE(soon([&] { return serving_->stats(1).steps == 1; }));
  const std::uint64_t heard = serving_->stats(1).bytes_in;
  leave(client);
  ASSERT_TRUE(soon([&] { return serving_->stats(1).bytes_in > heard; }));
  serving_->gate().open();
  wait_settled();
  // Of all that was under way, no more than the one that the first stage had begun.
  EXPECT_LE(serving_->stats(0).steps, 2U);
  EXPECT_LE(serving_->stats(2).steps, 2U);
  const std::uint64_t read = serving_->stats(2).rows;
  const json again = ask("/v1/completions", prompt(kLong, 'a', 5, false));
  EXPECT_EQ(again["usage"]["prompt_tokens_details"]["cached_tokens"], read);
  EXPECT_EQ(serving_->stats(2).rows, kLong + 4) << "what is known to be read is not read again";
}

TEST_P(Gone, is_heard_by_a_stage_that_is_behind_while_it_computes) {
  start({.gated_stage = 1});
  serving_->gate().hold();
  const int client = begin("/v1/completions", prompt(kLong, 'a', 5, GetParam()));
  // The second has begun one and two wait there; the first is done with three more, and waits.
  ASSERT_TRUE(soon([&] { return serving_->stats(0).steps == 6; }));
  const std::uint64_t heard = serving_->stats(2).bytes_in;
  leave(client);
  ASSERT_TRUE(soon([&] { return serving_->stats(2).bytes_in > heard; }));
  serving_->gate().open();
  wait_settled();
  EXPECT_LE(serving_->stats(1).steps, 1U);
  EXPECT_EQ(serving_->stats(2).steps, 0U);
  // The others were further, and are cut back.
  const json again = ask("/v1/completions", prompt(kLong, 'a', 5, false));
  EXPECT_EQ(again["choices"][0]["text"], ask("/completion", [] {
              json body = prompt(kLong, 'a', 5, false);
              body["cache_prompt"] = false;
              return body;
            }())["content"]);
}

TEST_P(Gone, is_heard_through_stages_that_are_full) {
  start({.stage_count = 5, .gated_stage = 3});
  serving_->gate().hold();
  const int client = begin("/v1/completions", prompt(kLong, 'a', 5, GetParam()));
  // Three steps at the fourth stage, five at the third, which has no room for another.
  ASSERT_TRUE(soon([&] { return serving_->stats(0).steps == pipeline::in_flight_max(5); }));
  const std::uint64_t heard = serving_->stats(4).bytes_in;
  leave(client);
  ASSERT_TRUE(soon([&] { return serving_->stats(4).bytes_in > heard; }));
  serving_->gate().open();
  EXPECT_TRUE(soon([&] { return serving_->held_tokens(0) == serving_->stats(4).rows; }));
  EXPECT_LE(serving_->stats(3).steps, 1U);
  EXPECT_EQ(serving_->stats(4).steps, 0U);
}

TEST_P(Gone, while_it_is_answered_costs_one_step_at_most) {
  start();
  const int client = begin("/v1/completions", prompt(20, 'a', 400, GetParam()));
  ASSERT_TRUE(serving_->gate().wait_passed(8));
  serving_->gate().hold();
  leave(client);
  const std::size_t before = serving_->gate().passed();
  serving_->gate().open();
  (void)ask("/v1/completions", prompt(20, 'b', 1, false));
  // What was under way, and the chunks of the question after it.
  EXPECT_LE(serving_->gate().passed() - before, 1U + 20U);
  EXPECT_LE(serving_->stats(2).rows, before + 20U + 1U + 20U);
}

TEST_P(Gone, before_its_turn_is_never_computed) {
  start({.sequence_count = 1});
  serving_->gate().hold();
  const int first = begin("/v1/completions", prompt(10, 'a', 2, true));
  ASSERT_TRUE(soon([&] { return serving_->asked() == 1; }));
  const int second = begin("/v1/completions", prompt(100, 'b', 2, GetParam()));
  ASSERT_TRUE(soon([&] { return serving_->asked() == 2; }));
  clients_.close(second);
  ASSERT_TRUE(soon([&] { return serving_->asked() == 1; }));
  serving_->gate().open();
  EXPECT_THAT(http::hear(first, SIZE_MAX, "[DONE]"), HasSubstr("[DONE]"));
  (void)ask("/v1/completions", prompt(30, 'c', 1, false));
  expect_rows(*serving_, 10 + 1 + 30);
}

TEST_F(Api, more_than_may_wait_are_told_when_to_come_back) {
  start({.sequence_count = 2}, 4);
  serving_->gate().hold();
  std::vector<int> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(begin("/v1/completions", prompt(10, 'a', 3, true)));
    EXPECT_THAT(http::hear(waiting.back(), SIZE_MAX, ": ping"), HasSubstr("200 OK"));
  }
  const int fifth =
      begin("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "hello"}}}}});
  const std::string refusal = http::hear(fifth);
  EXPECT_THAT(refusal, StartsWith("HTTP/1.1 429"));
  EXPECT_THAT(refusal, HasSubstr("retry-after: "));
  EXPECT_THAT(refusal, HasSubstr("queue_full"));
  serving_->gate().open();
  for (const int client : waiting) {
    EXPECT_THAT(http::hear(client, SIZE_MAX, "[DONE]"), HasSubstr("[DONE]"));
  }
  ASSERT_TRUE(soon([&] { return serving_->running() == 0; }));
  EXPECT_TRUE(ask("/v1/completions", prompt(10, 'a', 3, false)).contains("choices"));
}

TEST_F(Api, who_reads_nothing_costs_only_itself) {
  start({.sequence_count = 2, .context = 3000}, 1);
  const int slow = begin("/v1/completions", prompt(10, 'a', 2500, true));
  // More than the socket holds; the pipeline is done with it all the same, and so is the line.
  ASSERT_TRUE(soon([&] { return serving_->stats(2).rows == 10 + 2499; }));
  ASSERT_TRUE(soon([&] { return serving_->running() == 0; }));
  EXPECT_TRUE(ask("/v1/completions", prompt(10, 'b', 3, false)).contains("choices"));
  std::string answer = http::hear(slow, SIZE_MAX, "data: [DONE]\n\n\r\n0\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("data: [DONE]"));
  EXPECT_EQ(frames(unchunked(after_head(answer))).back()["choices"][0]["finish_reason"], "length");
}

TEST_F(Api, a_stream_is_the_whole_answer_in_whole_characters) {
  start();
  for (const char of : {'a', 'b', 'c', 'd', 'e', 'f'}) {
    json body{{"messages", {{{"role", "user"}, {"content", std::string(20, of)}}}},
              {"max_tokens", 120},
              {"ignore_eos", true}};
    const json whole = ask("/v1/chat/completions", body);
    body["stream"] = true;
    const int client = begin("/v1/chat/completions", body);
    const std::string answer = http::hear(client, SIZE_MAX, "[DONE]\n\n\r\n0\r\n\r\n");
    std::string text;
    for (const json& frame : frames(unchunked(after_head(answer)))) {
      const json& delta = frame["choices"][0]["delta"];
      if (!delta.contains("content") || delta["content"].is_null()) continue;
      EXPECT_TRUE(valid_utf8(delta["content"].get<std::string>()));
      text += delta["content"];
    }
    EXPECT_EQ(text, whole["choices"][0]["message"]["content"]);
  }
}

TEST_F(Api, a_prompt_is_read_once_for_all_its_choices) {
  start();
  json body = prompt(kLong, 'a', 7, false);
  body["temperature"] = 0;
  body["n"] = 3;
  const json answer = ask("/v1/completions", body);
  ASSERT_EQ(answer["choices"].size(), 3U);
  for (const json& choice : answer["choices"]) {
    EXPECT_EQ(choice["text"], answer["choices"][0]["text"]);
    EXPECT_EQ(choice["finish_reason"], "length");
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], kLong);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 3 * 7);
  // The others compute the prompt's last token, whose logits they need.
  expect_rows(*serving_, kLong + 2 + 3 * 6);
}

TEST_F(Api, more_text_than_any_context_holds_is_refused_unread) {
  start();
  const std::string text(1'000'000, 'x');
  const json message{{"role", "user"}, {"content", text}};
  const json part{{"type", "text"}, {"text", text}};
  for (const auto& [path, body] :
       {std::pair<std::string, json>{"/v1/chat/completions", {{"messages", {message}}}},
        {"/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", {part}}}}}}},
        {"/v1/completions", {{"prompt", text}}},
        {"/completion", {{"prompt", {1, text.substr(0, 30'000), text.substr(0, 30'000)}}}}}) {
    const json answer = ask(path, body);
    // Not the number of its tokens, which in this vocabulary is that of its bytes.
    EXPECT_THAT(answer["error"]["message"].get<std::string>(),
                testing::AnyOf(HasSubstr("15625"), HasSubstr("937")));
  }
}

TEST_F(Api, all_sequences_are_free_after_many_have_gone) {
  start({.sequence_count = 4});
  std::vector<int> clients;
  for (int round = 0; round < 60; ++round) {
    const char of = static_cast<char>('a' + round % 26);
    clients.push_back(begin("/v1/completions", prompt(5 + static_cast<std::size_t>(round) % 90, of,
                                                      200, round % 2 == 0)));
    if (round % 3 == 0) (void)serving_->gate().wait_passed(serving_->gate().passed() + 1);
    if (clients.size() == 5) {
      clients_.close(clients.front());
      clients.erase(clients.begin());
    }
  }
  for (const int client : clients) clients_.close(client);
  open_door();
  ASSERT_TRUE(soon([&] { return serving_->running() == 0; }));
  (void)ask("/v1/completions", prompt(3, 'z', 1, false));  // behind all that was under way
  // As many as there are sequences run beside each other: with one that's lost, the fourth prompt
  // would wait for the end of an answer.
  serving_->gate().hold();
  clients.clear();
  for (int i = 0; i < 4; ++i) {
    clients.push_back(begin("/v1/completions", prompt(1, static_cast<char>('a' + i), 50, true)));
  }
  ASSERT_TRUE(soon([&] { return serving_->asked() == 4; }));
  serving_->gate().let(8);
  for (const int client : clients) {
    EXPECT_THAT(http::hear(client, SIZE_MAX, ": salvage"), HasSubstr(": salvage"))
        << "its prompt is read";
  }
  serving_->gate().open();
  for (const int client : clients) {
    EXPECT_THAT(http::hear(client, SIZE_MAX, "[DONE]"), HasSubstr("[DONE]"));
  }
}

}  // namespace
}  // namespace salvage::gateway
