// Any bytes as a request of any dialect, as a path, or as what a model wrote. What is refused is an
// error that all clients can read; a chat that is taken, in its one shape, is the same chat again;
// and whatever was asked for, the answer is frames of whole JSON with one end. The first byte
// chooses.

#include <cstdint>
#include <cstdlib>
#include <string>

#include <nlohmann/json.hpp>

#include "api/answer.h"
#include "api/llama/text_requests.h"
#include "api/models.h"
#include "api/routes.h"

using namespace salvage::api;

namespace {

void check(bool good) {
  if (!good) std::abort();
}

void check_error(const ApiError& error) {
  for (const Dress dress : {Dress::kOpenAi, Dress::kAnthropic, Dress::kLlama}) {
    const ErrorAnswer answer = render_error(error, dress, "r");
    check(answer.status >= 400 && Json::accept(answer.body));
  }
}

// The bytes of a stream: comments, events, and data that is JSON or [DONE].
void check_frames(std::string_view bytes) {
  check(bytes.empty() || bytes.ends_with("\n\n"));
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    if (line.empty() || line.starts_with(": ") || line.starts_with("event: ")) continue;
    check(line.starts_with("data: "));
    check(line == "data: [DONE]" || Json::accept(line.substr(6)));
  }
}

// `text` as what a model says, thinks and calls with.
void check_answer(const GenerateRequest& request, const std::string& text) {
  AnswerInfo info = answer_info(request);
  info.unique = "u";
  info.prompts.assign(request.prompts.size(), text);
  const auto stream = AnswerStream::make(info);
  WholeAnswer whole(info);
  const auto take = [&](const AnswerEvent& event) {
    check_frames(stream->take(event));
    whole.take(event);
  };
  take(Accepted{1});
  take(PromptProgress{.total_tokens = 1});
  for (std::uint32_t choice = 0; choice < info.choices; ++choice) {
    take(AnswerDelta{.choice = choice,
                     .reasoning = text,
                     .text = text,
                     .calls = {{0, "", text, text}},
                     .tokens = {1},
                     .logprobs = {{.id = 1, .bytes = text, .top = {{2, text, -1}}}}});
    take(Finished{.choice = choice, .reason = StopReason::kStopText, .stop_text = text});
  }
  check(stream->ended() && whole.ended() && Json::accept(whole.body()));
}

// In its one shape a chat is read as the same chat.
void check_chat(const ChatWish& chat) {
  Json body = Json::object();
  body["messages"] = chat.messages;
  body["tools"] = chat.tools;
  const auto again =
      parse_request(Dialect::kChat, body.dump(-1, ' ', false, Json::error_handler_t::replace));
  if (!again) {  // it may have become larger or deeper than is taken, nothing else
    const ErrorKind kind = again.error().kind;
    return check(kind == ErrorKind::kInvalidJson || kind == ErrorKind::kRequestTooLarge);
  }
  check(again->chat->messages == chat.messages && again->chat->tools == chat.tools);
}

void check_request(Dialect dialect, std::string_view body) {
  const ParseLimits limits{.choices_max = 4, .vocabulary_size = 1000};
  const auto request = parse_request(dialect, body, limits);
  if (!request) return check_error(request.error());
  check(request->chat.has_value() != !request->prompts.empty());
  check(request->choices >= 1 && request->choices <= 4);
  if (request->chat) check_chat(*request->chat);
  check_answer(*request, std::string(body.substr(0, 200)));
}

void check_text_requests(std::string_view body) {
  const auto tokenize = parse_tokenize(body, {.vocabulary_size = 1000});
  if (!tokenize) check_error(tokenize.error());
  const auto ids = parse_detokenize(body, {.vocabulary_size = 1000});
  if (!ids) return check_error(ids.error());
  for (const salvage::TokenId id : *ids) check(id >= 0 && id < 1000);
}

void check_route(std::string_view target) {
  for (const char* method : {"GET", "POST", "HEAD"}) {
    const RouteAnswer answer = match_route({.method = method, .target = target});
    if (!answer.match) check_error(answer.match.error());
  }
  const ModelEntry model{.id = std::string(target)};
  const auto found = find_model(std::span(&model, 1), target);
  check(target.empty() || found.has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 7) {
    case 0:
      check_request(Dialect::kChat, rest);
      break;
    case 1:
      check_request(Dialect::kCompletions, rest);
      break;
    case 2:
      check_request(Dialect::kResponses, rest);
      break;
    case 3:
      check_request(Dialect::kMessages, rest);
      break;
    case 4:
      check_request(Dialect::kLlama, rest);
      break;
    case 5:
      check_text_requests(rest);
      break;
    default:
      check_route(rest);
      break;
  }
  return 0;
}
