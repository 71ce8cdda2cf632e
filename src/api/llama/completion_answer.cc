#include "api/llama/completion_answer.h"

#include <algorithm>
#include <utility>

#include "api/sse.h"
#include "api/value_json.h"

namespace salvage::api {
namespace {

Json slot_json(const std::optional<std::uint32_t>& sequence) {
  return sequence ? Json(*sequence) : Json(-1);
}

// "a/b" takes b of a; what isn't there is left out.
Json only_fields(const std::vector<std::string>& paths, const Json& json) {
  if (paths.empty()) return json;
  Json kept = Json::object();
  for (const std::string& path : paths) {
    const Json* at = &json;
    std::size_t begin = 0;
    while (at != nullptr && begin <= path.size()) {
      const std::size_t end = std::min(path.find('/', begin), path.size());
      const auto found = at->find(path.substr(begin, end - begin));  // end() of what is no object
      at = found != at->end() ? &*found : nullptr;
      begin = end + 1;
    }
    if (at != nullptr) kept[path] = *at;
  }
  return kept;
}

struct LastJson {
  const AnswerInfo& info;
  std::size_t index;
  const ChoiceSoFar& choice;
  std::string content;          // empty at the end of a stream
  std::vector<TokenId> tokens;  // so too
};

Json last_json(LastJson last) {
  const Finished& finished = *last.choice.finished;
  const std::size_t prompt = last.index / std::max(last.info.choices_per_prompt, 1U);
  const bool is_text = finished.reason == StopReason::kStopText;
  Json json{{"index", last.index},
            {"content", std::move(last.content)},
            {"tokens", std::move(last.tokens)},
            {"id_slot", slot_json(finished.sequence)},
            {"stop", true},
            {"model", last.info.model},
            {"tokens_predicted", finished.usage.answer_tokens},
            {"tokens_evaluated", finished.usage.prompt_tokens}};
  json["generation_settings"] = last.info.settings;
  json["prompt"] = prompt < last.info.prompts.size() ? last.info.prompts[prompt] : "";
  json["has_new_line"] =
      last.choice.segments.joined(SegmentKind::kText).find('\n') != std::string::npos;
  json["truncated"] = finished.reason == StopReason::kContextFull;
  json["stop_type"] = llama_reason(finished.reason);
  json["stopping_word"] = is_text ? finished.stop_text : "";
  json["tokens_cached"] = finished.usage.prompt_tokens + finished.usage.answer_tokens;
  json["timings"] = timings_json(finished.timings);
  return json;
}

class LlamaStream final : public AnswerStream {
 public:
  explicit LlamaStream(AnswerInfo info) : AnswerStream(std::move(info)) {}

 private:
  void write_begin(const Accepted& /*accepted*/) override {}

  void write_progress(const PromptProgress& progress) override {
    Json json = part(progress.choice, "", {}, progress.total_tokens);
    json["prompt_progress"] = progress_json(progress);
    out_ += sse_data(json);
  }

  void write_delta(const AnswerDelta& delta, ChoiceSoFar& choice) override {
    choice.segments.add(delta, nullptr);
    Json json = part(delta.choice, delta.text, delta.tokens, so_far_.prompt_tokens);
    if (delta.timings) json["timings"] = timings_json(*delta.timings);
    if (!delta.logprobs.empty()) {
      json["completion_probabilities"] =
          llama_probabilities(delta.logprobs, info_.probabilities_after_sampling);
    }
    out_ += sse_data(json);
  }

  void write_finish(const Finished& finished, ChoiceSoFar& choice) override {
    choice.segments.finish(nullptr);
    const Json json = last_json(
        {.info = info_, .index = finished.choice, .choice = choice, .content = "", .tokens = {}});
    out_ += sse_data(only_fields(info_.response_fields, json));
  }

  void write_end() override {}  // the connection's end is the stream's

  void write_failure(const ApiError& error) override {
    out_ += sse_data(error_json(error, Dress::kLlama, info_.request_id));
  }

  Json part(std::uint32_t index, const std::string& text, const std::vector<TokenId>& tokens,
            std::uint32_t prompt_tokens) const {
    return {{"index", index},
            {"content", text},
            {"tokens", tokens},
            {"stop", false},
            {"id_slot", -1},
            {"tokens_predicted", so_far_.choices[index].tokens.size()},
            {"tokens_evaluated", prompt_tokens}};
  }
};

}  // namespace

std::unique_ptr<AnswerStream> make_llama_stream(AnswerInfo info) {
  return std::make_unique<LlamaStream>(std::move(info));
}

Json llama_whole(const AnswerInfo& info, const AnswerSoFar& so_far) {
  Json list = Json::array();
  for (std::size_t i = 0; i < so_far.choices.size(); ++i) {
    const ChoiceSoFar& choice = so_far.choices[i];
    Json json = last_json({.info = info,
                           .index = i,
                           .choice = choice,
                           .content = choice.segments.joined(SegmentKind::kText),
                           .tokens = info.return_tokens ? choice.tokens : std::vector<TokenId>()});
    if (!choice.logprobs.empty()) {
      json["completion_probabilities"] =
          llama_probabilities(choice.logprobs, info.probabilities_after_sampling);
    }
    list.push_back(only_fields(info.response_fields, json));
  }
  return list.size() == 1 ? std::move(list[0]) : list;
}

}  // namespace salvage::api
