#include "api/openai/completions_answer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "api/openai/frames.h"
#include "api/sse.h"
#include "api/value_json.h"
#include "base/utf8.h"

namespace salvage::api {
namespace {

constexpr ObjectNames kCompletion{"cmpl-", "text_completion"};

// A token that is no text by itself, spelled as OpenAI spells it: bytes:\xe4\xb8.
std::string token_name(std::string_view bytes) {
  if (valid_utf8(bytes)) return std::string(bytes);
  std::string name = "bytes:";
  for (const char byte : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return name;
}

std::size_t character_count(std::string_view bytes) {
  return static_cast<std::size_t>(std::count_if(bytes.begin(), bytes.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

Json top_logprobs(const TokenLogprob& token, const Json& exact) {
  Json top = Json::object();
  for (std::size_t k = 0; k < token.top.size(); ++k) {
    top[token_name(token.top[k].bytes)] = exact["top_logprobs"][k]["logprob"];
  }
  return top;
}

// The older form of logprobs: lists beside each other. `offset` counts the text's characters.
Json parallel_logprobs(std::span<const TokenLogprob> tokens, std::size_t& offset) {
  Json json{{"tokens", Json::array()},
            {"token_logprobs", Json::array()},
            {"top_logprobs", Json::array()},
            {"text_offset", Json::array()}};
  const Json exact = openai_logprobs(tokens);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool known = tokens[i].has_logprob;
    json["tokens"].push_back(token_name(tokens[i].bytes));
    json["token_logprobs"].push_back(known ? exact[i]["logprob"] : Json(nullptr));
    json["top_logprobs"].push_back(known ? top_logprobs(tokens[i], exact[i]) : Json(nullptr));
    json["text_offset"].push_back(offset);
    offset += character_count(tokens[i].bytes);
  }
  return json;
}

std::string_view echoed_prompt(const AnswerInfo& info, std::size_t choice) {
  const std::size_t prompt = choice / std::max(info.choices_per_prompt, 1U);
  return info.echo && prompt < info.prompts.size() ? std::string_view(info.prompts[prompt]) : "";
}

class CompletionsStream final : public AnswerStream {
 public:
  explicit CompletionsStream(AnswerInfo info)
      : AnswerStream(std::move(info)), waiting_(so_far_.choices.size()) {}

 private:
  struct Waiting {
    std::vector<TokenLogprob> logprobs;
    std::size_t offset = 0;
  };

  // With logprobs the prompt comes once they are known.
  void write_begin(const Accepted& /*accepted*/) override {
    if (info_.has_logprobs) return;
    for (std::uint32_t i = 0; i < so_far_.choices.size(); ++i) {
      const std::string_view prompt = echoed_prompt(info_, i);
      if (!prompt.empty()) out_ += sse_data(frame(i, prompt, nullptr));
    }
  }

  void write_progress(const PromptProgress& progress) override {
    Json json = frame(progress.choice, "", nullptr);
    json["prompt_progress"] = progress_json(progress);
    out_ += sse_data(json);
  }

  void write_prompt(const EchoedPrompt& prompt) override {
    waiting_[prompt.choice].logprobs = prompt.tokens;
    Json json = frame(prompt.choice, echoed_prompt(info_, prompt.choice), nullptr);
    put_logprobs(json, prompt.choice);
    out_ += sse_data(json);
  }

  void write_delta(const AnswerDelta& delta, ChoiceSoFar& /*choice*/) override {
    auto& logprobs = waiting_[delta.choice].logprobs;
    logprobs.insert(logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    if (delta.text.empty()) return;
    Json json = frame(delta.choice, delta.text, nullptr);
    put_logprobs(json, delta.choice);
    if (delta.timings) json["timings"] = timings_json(*delta.timings);
    out_ += sse_data(json);
  }

  void write_finish(const Finished& finished, ChoiceSoFar& /*choice*/) override {
    Json json = frame(finished.choice, "", openai_reason(finished.reason, false));
    put_logprobs(json, finished.choice);
    json["timings"] = timings_json(finished.timings);
    out_ += sse_data(json);
  }

  void write_end() override {
    if (info_.include_usage) {
      Json json = openai_frame(info_, kCompletion);
      json["choices"] = Json::array();
      json["usage"] = openai_usage(so_far_.usage());
      out_ += sse_data(json);
    }
    out_ += kSseDone;
  }

  void write_failure(const ApiError& error) override { out_ += openai_failure(error, info_); }

  Json frame(std::uint32_t index, std::string_view text, Json reason) const {
    Json choice{{"index", index}, {"text", text}, {"logprobs", nullptr}};
    choice["finish_reason"] = std::move(reason);
    Json json = openai_frame(info_, kCompletion);
    json["choices"] = Json::array();
    json["choices"].push_back(std::move(choice));
    if (info_.include_usage) json["usage"] = nullptr;
    return json;
  }

  void put_logprobs(Json& json, std::uint32_t index) {
    Waiting& waiting = waiting_[index];
    if (waiting.logprobs.empty()) return;
    json["choices"][0]["logprobs"] = parallel_logprobs(waiting.logprobs, waiting.offset);
    waiting.logprobs.clear();
  }

  std::vector<Waiting> waiting_;  // by choice: of tokens whose text is held back
};

}  // namespace

std::unique_ptr<AnswerStream> make_completions_stream(AnswerInfo info) {
  return std::make_unique<CompletionsStream>(std::move(info));
}

Json completions_whole(const AnswerInfo& info, const AnswerSoFar& so_far) {
  Json json = openai_frame(info, kCompletion);
  json["choices"] = Json::array();
  for (std::size_t i = 0; i < so_far.choices.size(); ++i) {
    const ChoiceSoFar& choice = so_far.choices[i];
    std::size_t offset = 0;
    Json one{{"index", i}};
    one["text"] = std::string(echoed_prompt(info, i)) + choice.segments.joined(SegmentKind::kText);
    one["logprobs"] =
        info.has_logprobs ? parallel_logprobs(choice.logprobs, offset) : Json(nullptr);
    one["finish_reason"] = openai_reason(choice.finished->reason, false);
    json["choices"].push_back(std::move(one));
  }
  json["usage"] = openai_usage(so_far.usage());
  json["timings"] = timings_json(so_far.choices.back().finished->timings);
  return json;
}

}  // namespace salvage::api
