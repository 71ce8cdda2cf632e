// Any bytes as what a model says, token by token, in every dialect: what leaves must be events that
// a browser reads back, in whole characters, and together the text that was said, up to its stop
// text.
//
// Input: dialect, where the text goes, which tokens come in one event, length of the stop text, the
// stop text, then a byte a token.

#include <cstdint>
#include <cstdlib>
#include <string>

#include <nlohmann/json.hpp>

#include "api/answer.h"
#include "base/utf8.h"
#include "engine/text.h"
#include "pipeline/text_stream.h"
#include "sse_reader.h"

using namespace salvage;
using api::Dialect;
using nlohmann::json;

namespace {

void check(bool good) {
  if (!good) std::abort();
}

// 256 tokens, a byte each.
class Bytes final : public engine::Vocabulary {
 public:
  std::uint32_t size() const override { return 256; }
  Result<std::vector<TokenId>> tokenize(std::string_view text,
                                        engine::TokenizeOptions /*options*/) const override {
    return std::vector<TokenId>(text.begin(), text.end());
  }
  std::string piece(TokenId token, bool /*special*/) const override {
    return std::string(1, static_cast<char>(token));
  }
  bool ends_generation(TokenId /*token*/) const override { return false; }
  std::optional<TokenId> begin_token() const override { return {}; }
  std::optional<TokenId> end_token() const override { return {}; }
};

enum class Part { kText, kReasoning, kArguments };

struct Case {
  Dialect dialect = Dialect::kChat;
  Part part = Part::kText;
  unsigned together = 1;
  std::string stop;  // empty: none
  std::string_view tokens;
};

std::string text_at(const json& event, const char* pointer) {
  const json::json_pointer path(pointer);
  if (!event.contains(path) || !event.at(path).is_string()) return {};
  return event.at(path).get<std::string>();
}

// What a client puts together out of the events.
std::string heard(Dialect dialect, Part part, const json& event) {
  switch (dialect) {
    case Dialect::kChat:
      if (part == Part::kReasoning) return text_at(event, "/choices/0/delta/reasoning_content");
      if (part == Part::kText) return text_at(event, "/choices/0/delta/content");
      return text_at(event, "/choices/0/delta/tool_calls/0/function/arguments");
    case Dialect::kCompletions:
      return text_at(event, "/choices/0/text");
    case Dialect::kMessages:
      if (part == Part::kReasoning) return text_at(event, "/delta/thinking");
      if (part == Part::kText) return text_at(event, "/delta/text");
      return text_at(event, "/delta/partial_json");
    case Dialect::kResponses: {
      const std::string type = text_at(event, "/type");
      const bool calls = type == "response.function_call_arguments.delta";
      const bool says = type == "response.output_text.delta";
      const bool thinks = type.starts_with("response.reasoning") && type.ends_with(".delta");
      const bool mine = part == Part::kText ? says : part == Part::kReasoning ? thinks : calls;
      return mine ? text_at(event, "/delta") : std::string();
    }
    case Dialect::kLlama:
      return text_at(event, "/content");
  }
  return {};
}

// All that was sent, as a client reads it; gives the text that it heard.
std::string read_all(const std::string& bytes, const Case& wanted) {
  std::string said;
  check(valid_utf8(bytes));
  const fuzz::SseText read = fuzz::read_sse(bytes);
  check(read.whole);
  for (const fuzz::SseEvent& event : read.events) {
    if (event.data == "[DONE]") continue;
    const json data = json::parse(event.data, nullptr, false);
    check(!data.is_discarded());
    if (event.name != "message") check(data.at("type") == event.name);
    said += heard(wanted.dialect, wanted.part, data);
  }
  return said;
}

void put(const Case& wanted, std::string text, api::AnswerDelta& delta) {
  if (wanted.part == Part::kText) delta.text += text;
  if (wanted.part == Part::kReasoning) delta.reasoning += text;
  if (wanted.part != Part::kArguments) return;
  if (delta.calls.empty()) delta.calls.push_back({0, "", "f", ""});
  delta.calls.front().arguments += text;
}

std::string expected(const Case& wanted) {
  std::string all = well_formed_utf8(wanted.tokens);
  if (!wanted.stop.empty()) all = all.substr(0, all.find(wanted.stop));
  if (wanted.part == Part::kArguments && all.empty()) return "{}";  // none are an empty object
  return all;
}

// The parts that a dialect has: plain completions know no others than text.
bool has_part(const Case& wanted) {
  const bool plain = wanted.dialect == Dialect::kCompletions || wanted.dialect == Dialect::kLlama;
  return !plain || wanted.part == Part::kText;
}

void check_stream(const Case& wanted) {
  api::GenerateRequest request;
  request.dialect = wanted.dialect;
  request.stream = true;
  if (wanted.dialect == Dialect::kCompletions || wanted.dialect == Dialect::kLlama) {
    request.prompts = {{std::string("p")}};
  } else {
    request.chat.emplace();
  }
  api::AnswerInfo info = api::answer_info(request);
  info.unique = "u";
  info.prompts = {"p"};
  const auto stream = api::AnswerStream::make(info);
  const Bytes vocabulary;
  const std::vector<std::string> stops =
      wanted.stop.empty() ? std::vector<std::string>() : std::vector{wanted.stop};
  pipeline::TextStream text(vocabulary, stops);
  std::string sent;
  const auto take = [&](const api::AnswerEvent& event) {
    sent += stream->take(event);
    check(sent.ends_with("\n\n"));  // no half event in one write
  };
  take(api::Accepted{1});
  sent += stream->ping();
  take(api::PromptProgress{.total_tokens = 1, .done_tokens = 1});
  api::AnswerDelta delta;
  for (std::size_t i = 0; i < wanted.tokens.size() && !text.stopped(); ++i) {
    const auto token = static_cast<TokenId>(static_cast<unsigned char>(wanted.tokens[i]));
    put(wanted, text.push(token), delta);
    delta.tokens.push_back(token);
    if (i % wanted.together == 0) take(std::exchange(delta, {}));
  }
  put(wanted, text.finish(), delta);
  take(delta);
  api::Finished finished;
  if (text.stopped()) finished.reason = api::StopReason::kStopText;
  finished.stop_text = text.stop_found();
  take(finished);
  check(stream->ended());
  const std::string said = read_all(sent, wanted);
  if (has_part(wanted)) check(said == expected(wanted));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr Dialect kDialects[] = {Dialect::kChat, Dialect::kCompletions, Dialect::kMessages,
                                   Dialect::kResponses, Dialect::kLlama};
  if (size < 4) return 0;
  Case wanted;
  wanted.dialect = kDialects[data[0] % std::size(kDialects)];
  wanted.part = static_cast<Part>(data[1] % 3);
  wanted.together = 1U + data[2] % 8U;
  std::string_view rest(reinterpret_cast<const char*>(data) + 4, size - 4);
  const std::size_t stop = std::min<std::size_t>(data[3] % 8U, rest.size());
  // A stop text comes out of JSON: whole characters.
  wanted.stop = well_formed_utf8(rest.substr(0, stop));
  wanted.tokens = rest.substr(stop, 300);
  check_stream(wanted);
  return 0;
}
