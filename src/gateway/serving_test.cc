// Goal: what clients, owners and probes ask is answered from a real scheduler and pipeline, told to
// the ledger, and ended by whoever may end it. Method: the handler without sockets on fake stages
// that the test can hold.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/api_handler.h"
#include "gateway/serving_test_fixture.h"
#include "sim/fake_serving.h"

namespace salvage::gateway {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

// A token a byte, and the template writes a message as JSON and a line's end.
constexpr std::uint32_t kPromptTokens = sizeof(R"({"role":"user","content":"why"})");
constexpr const char* kAsk = R"({"messages":[{"role":"user","content":"why"}]})";
constexpr const char* kAskStreamed =
    R"({"messages":[{"role":"user","content":"why"}],"stream":true})";

class Serving : public testing::Test {
 protected:
  explicit Serving(std::uint32_t sequence_count = 2)
      : serving_({.stage_count = 2,
                  .sequence_count = sequence_count,
                  .context = 200,
                  .script = "hello"}) {
    backend_.pipeline = serving_.ready("")->pipeline;
    make_handler({});
  }
  ~Serving() override { backend_.pipeline.reset(); }

  void make_handler(ApiOptions options) {
    options.fingerprint = "build-1";
    options.wall_ms = [] { return std::int64_t{1'767'225'600'123}; };
    handler_ = std::make_unique<ApiHandler>(std::move(options), backend_, ledger_, clock_);
  }

  http::HttpReply ask(const std::string& method, const std::string& target,
                      const std::string& body = {}) {
    return handler_->answer(request_of(method, target, body), gone_.get_token());
  }
  Json json_of(const std::string& target) {
    const http::HttpReply reply = ask("GET", target);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return Json::parse(reply.body);
  }
  std::string error_code(const http::HttpReply& reply) {
    return Json::parse(reply.body).at("error").at("code");
  }
  Asking streamed(const std::string& id, const std::string& body = kAskStreamed) {
    http::HttpRequest request = request_of("POST", "/v1/chat/completions", body);
    request.headers.emplace_back("X-Request-Id", id);
    return Asking(*handler_, std::move(request));
  }
  metrics::RequestRecord last() { return ledger_.records(clock_.now()).at(0); }

  const SteadyClock clock_;
  sim::FakeServing serving_;
  OneModelBackend backend_;
  metrics::RequestLedger ledger_;
  StopSource gone_;
  std::unique_ptr<ApiHandler> handler_;
};

class OneSequence : public Serving {
 protected:
  OneSequence() : Serving(1) {}
};

// --- answers ---

TEST_F(Serving, a_whole_answer_has_text_usage_and_a_record) {
  const http::HttpReply reply = ask("POST", "/v1/chat/completions", kAsk);
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json json = Json::parse(reply.body);
  EXPECT_EQ(json["choices"][0]["message"]["content"], "hello");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(json["usage"]["prompt_tokens"], kPromptTokens);
  EXPECT_EQ(json["usage"]["completion_tokens"], 6);  // "hello<end>"
  EXPECT_EQ(json["created"], 1'767'225'600);
  const metrics::RequestRecord record = last();
  EXPECT_EQ(record.state, cluster::RequestState::kDone);
  EXPECT_EQ(record.finish, "stop");
  EXPECT_EQ(record.facts.asked(), "/v1/chat/completions");
  EXPECT_EQ(record.facts.model, "tiny");
  EXPECT_EQ(record.facts.prompt_tokens, kPromptTokens);
  EXPECT_EQ(record.read_tokens, kPromptTokens);
  EXPECT_EQ(record.answer_tokens, 6);
  EXPECT_EQ(record.facts.machines, (std::vector<std::string>{"attic", "cellar"}));
}

TEST_F(Serving, what_the_cache_holds_is_counted_as_cached) {
  (void)ask("POST", "/v1/chat/completions", kAsk);
  (void)ask("POST", "/v1/chat/completions", kAsk);
  EXPECT_EQ(last().cached_tokens, kPromptTokens - 1) << "all but the last are in the cache";
  EXPECT_EQ(last().read_tokens, kPromptTokens);
  EXPECT_EQ(ledger_.totals(clock_.now()).prompt_tokens, kPromptTokens + 1);
}

TEST_F(Serving, a_streamed_answer_begins_at_once_and_ends_with_done) {
  Asking asking = streamed("one");
  const std::string text = asking.body().wait_for("[DONE]");
  EXPECT_THAT(text, testing::StartsWith(": ping\n\n"));
  EXPECT_THAT(text, HasSubstr(R"(: salvage {"stage":"prefill","choice":0,"done":0,)"));
  EXPECT_THAT(text, HasSubstr(R"("content":"h")"));
  asking.join();
  EXPECT_EQ(last().facts.id, "one");
  EXPECT_EQ(last().state, cluster::RequestState::kDone);
}

TEST_F(Serving, two_answers_to_one_prompt_count_as_two) {
  const http::HttpReply reply =
      ask("POST", "/v1/chat/completions",
          R"({"messages":[{"role":"user","content":"why"}],"n":2,"max_tokens":3})");
  EXPECT_EQ(Json::parse(reply.body)["choices"].size(), 2U);
  EXPECT_EQ(last().facts.answers, 2);
  EXPECT_EQ(last().facts.prompt_tokens, 2 * kPromptTokens);
  EXPECT_EQ(last().answer_tokens, 6);
  EXPECT_EQ(last().finish, "length");
}

TEST_F(Serving, refusals_are_recorded_with_their_code) {
  EXPECT_EQ(error_code(ask("POST", "/v1/chat/completions", "{")), "invalid_json");
  EXPECT_EQ(last().error, "invalid_json");
  EXPECT_EQ(error_code(ask("POST", "/v1/chat/completions",
                           R"({"model":"no","messages":[{"role":"user","content":"x"}]})")),
            "model_not_found");
  const std::string far(300, 'a');
  EXPECT_EQ(error_code(ask("POST", "/v1/completions", Json{{"prompt", far}}.dump())),
            "context_length_exceeded");
  EXPECT_EQ(last().error, "context_length_exceeded");
  EXPECT_EQ(last().state, cluster::RequestState::kFailed);
  backend_.state = api::ModelState::kLoading;
  EXPECT_EQ(ask("POST", "/v1/chat/completions", kAsk).status, 503);
  EXPECT_EQ(last().error, "model_loading");
}

TEST_F(OneSequence, beyond_so_many_answers_a_client_is_told_to_come_back) {
  make_handler({.answers_max = 1});
  serving_.gate().hold();
  Asking first = streamed("first");
  first.body().wait_for("prefill");
  const http::HttpReply reply = ask("POST", "/v1/chat/completions", kAsk);
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(error_code(reply), "queue_full");
  serving_.gate().open();
  first.body().wait_for("[DONE]");
  first.join();
  EXPECT_EQ(ask("POST", "/v1/chat/completions", kAsk).status, 200) << "its place is free again";
}

// --- waiting, and ends that somebody wants ---

TEST_F(OneSequence, who_waits_is_told_the_place_and_shown_to_the_owner) {
  serving_.gate().hold();
  Asking first = streamed("first");
  first.body().wait_for("prefill");
  Asking second = streamed(
      "second",
      R"({"messages":[{"role":"user","content":"a"}],"stream":true,"return_progress":true})");
  const std::string told = second.body().wait_for(R"("queue_place":1)");
  EXPECT_THAT(told, HasSubstr(": salvage {\"stage\":\"queued\",\"place\":1}\n\n"));

  const Json list = json_of("/v1/requests");
  EXPECT_EQ(list["queued"], 1);
  EXPECT_EQ(list["prefill"], 1);
  EXPECT_EQ(list["data"][0]["id"], "first");
  EXPECT_EQ(list["data"][0]["state"], "prefill");
  EXPECT_EQ(list["data"][1]["state"], "queued");
  EXPECT_EQ(list["data"][1]["queue_place"], 1);
  EXPECT_THAT(list.dump(), Not(HasSubstr("why"))) << "no word of a prompt";

  const Json slots = json_of("/slots");
  ASSERT_EQ(slots.size(), 1U);
  EXPECT_EQ(slots[0]["is_processing"], true);
  EXPECT_EQ(slots[0]["n_ctx"], 200);
  EXPECT_EQ(slots[0]["n_prompt_tokens"], kPromptTokens);
  EXPECT_EQ(ask("GET", "/slots?fail_on_no_slot=1").status, 503);

  serving_.gate().open();
  first.body().wait_for("[DONE]");
  second.body().wait_for("[DONE]");
  EXPECT_EQ(ask("GET", "/slots?fail_on_no_slot=1").status, 200);
}

TEST_F(OneSequence, the_owner_ends_a_request_and_the_next_one_gets_its_sequence) {
  serving_.gate().hold();
  Asking first = streamed("first");
  first.body().wait_for("prefill");
  Asking second = streamed("second");
  second.body().wait_for("queued");
  const http::HttpReply ended = ask("DELETE", "/v1/requests/first");
  EXPECT_EQ(ended.status, 200);
  EXPECT_EQ(Json::parse(ended.body)["cancelled"], true);
  const std::string told = first.body().wait_for("[DONE]");
  EXPECT_THAT(told, HasSubstr("request_cancelled"));
  serving_.gate().open();
  EXPECT_THAT(second.body().wait_for("[DONE]"), HasSubstr(R"("content":"h")"));
  second.join();
  EXPECT_EQ(error_code(ask("DELETE", "/v1/requests/first")), "request_not_found");
  const auto records = ledger_.records(clock_.now());
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[1].facts.id, "first");
  EXPECT_EQ(records[1].state, cluster::RequestState::kCancelled);
  EXPECT_EQ(records[1].error, "request_cancelled");
}

TEST_F(OneSequence, a_whole_answer_that_is_ended_is_an_error) {
  serving_.gate().hold();
  http::HttpRequest request = request_of("POST", "/v1/chat/completions", kAsk);
  request.headers.emplace_back("x-request-id", "whole");
  Asking asking(*handler_, request);
  const TimePoint until = clock_.now() + kHandlerWait;
  while (ledger_.cancel("whole") == 0 && clock_.now() < until) std::this_thread::yield();
  asking.join();
  EXPECT_EQ(asking.status(), 499);
  EXPECT_THAT(asking.body().text(), HasSubstr("request_cancelled"));
}

TEST_F(OneSequence, a_client_that_goes_away_frees_its_sequence_and_is_recorded) {
  serving_.gate().hold();
  {
    Asking first = streamed("first");
    first.body().wait_for("prefill");
    first.leave();
    first.join();
  }
  serving_.gate().open();
  EXPECT_EQ(last().state, cluster::RequestState::kCancelled);
  EXPECT_EQ(last().error, "client_closed");
  EXPECT_EQ(ask("POST", "/v1/chat/completions", kAsk).status, 200);
}

TEST_F(Serving, a_pipeline_that_breaks_ends_the_stream_with_an_error) {
  serving_.gate().hold();
  Asking asking = streamed("one");
  asking.body().wait_for("prefill");
  backend_.pipeline->fail_all(Error(ErrorCode::kUnavailable, "cellar is gone"));
  const std::string text = asking.body().wait_for("[DONE]");
  EXPECT_THAT(text, HasSubstr("cellar is gone"));
  EXPECT_THAT(text, HasSubstr("node_lost"));
  asking.join();
  EXPECT_EQ(last().state, cluster::RequestState::kFailed);
  EXPECT_EQ(last().error, "node_lost");
}

TEST_F(Serving, silence_is_pinged_as_often_as_the_client_wants) {
  make_handler({.ping_time = std::chrono::milliseconds(5)});
  serving_.gate().hold();
  Asking often = streamed("often");
  often.body().wait_for("prefill");
  Asking never = streamed(
      "never",
      R"({"messages":[{"role":"user","content":"b"}],"stream":true,"sse_ping_interval":-1})");
  never.body().wait_for("prefill");
  often.body().wait_for(": ping\n\n: ping\n\n: ping");
  serving_.gate().open();
  const std::string text = never.body().wait_for("[DONE]");
  EXPECT_EQ(text.find(": ping"), text.rfind(": ping")) << "the first bytes alone";
}

TEST_F(Serving, a_stage_is_busy_while_a_step_takes_long) {
  serving_.gate().hold();
  Asking asking = streamed("long");
  asking.body().wait_for("prefill");
  const TimePoint until = clock_.now() + kHandlerWait;
  while (serving_.stats(0).busy_us == 0 && clock_.now() < until) std::this_thread::yield();
  const wire::Stats held = serving_.stats(0);
  EXPECT_EQ(held.steps, 0U) << "none is done";
  EXPECT_GT(held.busy_us, 0U);
  EXPECT_GE(serving_.stats(0).busy_us, held.busy_us);
  serving_.gate().open();
  asking.body().wait_for("[DONE]");
  EXPECT_GE(serving_.stats(0).busy_us, held.busy_us) << "never less";
}

// --- the server about itself ---

TEST_F(Serving, health_is_that_of_somebody_who_can_answer) {
  EXPECT_EQ(ask("GET", "/health").body, R"({"status":"ok"})");
  backend_.state = api::ModelState::kLoading;
  const http::HttpReply loading = ask("GET", "/health");
  EXPECT_EQ(loading.status, 503);
  EXPECT_EQ(loading.body,
            R"({"error":{"code":503,"message":"Loading model","type":"unavailable_error"}})");
  backend_.any = false;
  EXPECT_EQ(ask("GET", "/health").status, 503);
  EXPECT_THAT(ask("GET", "/health").body, HasSubstr("No model is loaded"));
}

TEST_F(Serving, props_are_llama_cpps) {
  const Json props = json_of("/props");
  EXPECT_EQ(props["total_slots"], 2);
  EXPECT_EQ(props["model_path"], "tiny");
  EXPECT_EQ(props["model_ftype"], "q4_K");
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 200);
  EXPECT_EQ(props["default_generation_settings"]["params"]["top_k"], 40);
  EXPECT_EQ(props["default_generation_settings"]["params"]["temperature"].dump(), "0.8");
  EXPECT_EQ(props["default_generation_settings"]["params"]["samplers"][0], "penalties");
  EXPECT_EQ(props["chat_template"], "{{ messages }}");
  EXPECT_EQ(props["build_info"], "build-1");
  EXPECT_EQ(props["is_sleeping"], false);
  EXPECT_EQ(ask("GET", "/props?model=other").status, 404);
  backend_.any = false;
  EXPECT_EQ(json_of("/props")["total_slots"], 0) << "nothing is loaded";
}

TEST_F(Serving, metrics_count_answers_and_refusals) {
  (void)ask("POST", "/v1/chat/completions", kAsk);
  (void)ask("POST", "/v1/chat/completions", "{");
  const http::HttpReply page = ask("GET", "/metrics");
  EXPECT_THAT(page.content_type, testing::StartsWith("text/plain; version=0.0.4"));
  EXPECT_THAT(page.body, HasSubstr("llamacpp:tokens_predicted_total 6\n"));
  EXPECT_THAT(
      page.body,
      HasSubstr(R"(salvage_http_requests_total{endpoint="/v1/chat/completions",status="400"} 1)"));
  EXPECT_THAT(page.body, HasSubstr("salvage_ttft_seconds_count 1\n"));
  EXPECT_THAT(page.body, HasSubstr("salvage_requests_total{outcome=\"failed\"} 1\n"));
}

TEST_F(Serving, tokens_are_counted_in_all_dialects) {
  EXPECT_EQ(
      ask("POST", "/v1/chat/completions/input_tokens", kAsk).body,
      fmt::format(R"({{"object":"response.input_tokens","input_tokens":{}}})", kPromptTokens));
  EXPECT_EQ(
      ask("POST", "/v1/responses/input_tokens", R"({"input":"why"})").body,
      fmt::format(R"({{"object":"response.input_tokens","input_tokens":{}}})", kPromptTokens));
  EXPECT_EQ(ask("POST", "/v1/messages/count_tokens", kAsk).body,
            fmt::format(R"({{"input_tokens":{}}})", kPromptTokens));
}

TEST_F(Serving, tokens_come_back_as_the_text_they_were) {
  EXPECT_EQ(ask("POST", "/tokenize", R"({"content":"abc"})").body, R"({"tokens":[48,0,1]})");
  EXPECT_EQ(ask("POST", "/detokenize", R"({"tokens":[2,1,0]})").body, R"({"content":"cba"})");
  EXPECT_EQ(Json::parse(ask("POST", "/apply-template", kAsk).body)["prompt"],
            "{\"role\":\"user\",\"content\":\"why\"}\n");
}

// --- who may ask ---

TEST_F(Serving, without_keys_only_this_machine_sees_what_others_ask) {
  for (const char* target : {"/v1/requests", "/v1/cluster"}) {
    EXPECT_EQ(ask("GET", target).status, 200);
    http::HttpRequest far = request_of("GET", target);
    far.peer = "tcp:192.168.1.9:4711";
    const http::HttpReply refused = handler_->answer(far, gone_.get_token());
    EXPECT_EQ(refused.status, 403) << target;
    EXPECT_EQ(error_code(refused), "scope_missing");
  }
}

TEST_F(Serving, a_strange_web_page_is_refused_where_no_key_is_asked_for) {
  http::HttpRequest request = request_of("POST", "/v1/chat/completions", kAsk);
  request.headers = {{"Host", "127.0.0.1:8765"}, {"Origin", "https://example.org"}};
  const auto refused = handler_->refuse(request);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 403);
  EXPECT_EQ(error_code(*refused), "foreign_origin");
  request.headers = {{"Host", "rebound.example.org:8765"}};
  EXPECT_TRUE(handler_->refuse(request));
  request.headers = {{"Host", "127.0.0.1:8765"}, {"Origin", "http://127.0.0.1:8765"}};
  EXPECT_FALSE(handler_->refuse(request));
  make_handler({.this_machine_only = false});
  request.headers = {{"Host", "models.example.org"}};
  EXPECT_FALSE(handler_->refuse(request)) << "on a network, names are the owner's business";
}

TEST_F(Serving, a_key_is_asked_for_before_the_body_is_read_and_named_by_its_digest) {
  make_handler({.key_digests = {ApiKeys::digest_of("secret")}, .keys_required = true});
  http::HttpRequest request = request_of("POST", "/v1/chat/completions", kAsk);
  request.peer = "tcp:192.168.1.9:4711";
  ASSERT_TRUE(handler_->refuse(request));
  EXPECT_EQ(handler_->refuse(request)->status, 401);
  request.headers.emplace_back("Authorization", "Bearer wrong");
  EXPECT_EQ(handler_->refuse(request)->status, 401);
  request.headers.back().second = "Bearer secret";
  EXPECT_FALSE(handler_->refuse(request));
  EXPECT_EQ(handler_->answer(request, gone_.get_token()).status, 200);
  EXPECT_EQ(last().facts.who, "key-" + ApiKeys::digest_of("secret").substr(0, 8));
  request.method = "GET";
  request.target = "/v1/requests";
  const http::HttpReply list = handler_->answer(request, gone_.get_token());
  EXPECT_EQ(list.status, 200) << "with a key from anywhere";
  EXPECT_THAT(list.body, Not(HasSubstr("secret")));
  EXPECT_FALSE(handler_->refuse(request_of("GET", "/health"))) << "needs none";
}

TEST(Peers, this_machine_is_known_by_its_address) {
  for (const char* peer :
       {"tcp:127.0.0.1:80", "tcp:[::1]:80", "tcp:127.9.9.9:1", "tcp:[::ffff:127.0.0.1]:9"}) {
    EXPECT_TRUE(is_this_machine(peer)) << peer;
  }
  for (const char* peer : {"tcp:10.0.0.1:80", "tcp:[::2]:80", "somebody", "", ":", "tcp:127.0.0.1",
                           "tcp:[::ffff:10.0.0.1]:9", "a peer that has gone"}) {
    EXPECT_FALSE(is_this_machine(peer)) << peer;
  }
}

// --- time ---

// Every look at it is a second later.
class RushingClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint{} + std::chrono::seconds(++looks_); }

 private:
  mutable std::atomic<int> looks_ = 1'000'000;
};

TEST(AnswerTime, an_answer_ends_behind_the_line_in_which_its_time_is_over) {
  sim::FakeServing serving({.script = "ab\ncd\nef\ngh\nij\nkl"});
  const RushingClock clock;
  const auto request = api::parse_request(api::Dialect::kLlama,
                                          R"({"prompt":"x","n_predict":50,"t_max_predict_ms":1})");
  ASSERT_TRUE(request);
  auto answer = GeneratedAnswer::prepare(*request, *serving.ready(""), clock);
  ASSERT_TRUE(answer);
  ASSERT_TRUE((*answer)->begin(nullptr));
  std::string text;
  for (;;) {
    const auto event = (*answer)->next(std::chrono::steady_clock::now() + kHandlerWait);
    ASSERT_TRUE(event);
    if (const auto* delta = std::get_if<api::AnswerDelta>(&*event)) text += delta->text;
    if (const auto* end = std::get_if<api::Finished>(&*event)) {
      EXPECT_EQ(end->reason, api::StopReason::kTimeLimit);
      break;
    }
  }
  EXPECT_EQ(text, "ab\n")
      << "time was over after the first token, but a line is written to its end";
}

}  // namespace
}  // namespace salvage::gateway
