#include "api/openai/chat_answer.h"

#include <utility>

#include "api/openai/frames.h"
#include "api/sse.h"
#include "api/value_json.h"

namespace salvage::api {
namespace {

Json tool_calls_of_one(Json call) {
  Json delta = Json::object();
  delta["tool_calls"] = Json::array();
  delta["tool_calls"].push_back(std::move(call));
  return delta;
}

class ChatStream final : public AnswerStream, private SegmentListener {
 public:
  explicit ChatStream(AnswerInfo info)
      : AnswerStream(std::move(info)), waiting_(so_far_.choices.size()) {}

 private:
  // What came with a step whose text is held back: it goes out with the next chunk that has some.
  struct Waiting {
    std::vector<TokenLogprob> logprobs;
    std::optional<Timings> timings;
  };

  void write_begin(const Accepted& /*accepted*/) override {
    for (current_ = 0; current_ < so_far_.choices.size(); ++current_) {
      write_chunk({{"role", "assistant"}, {"content", ""}}, nullptr);
    }
  }

  void write_progress(const PromptProgress& progress) override {
    Json json = frame(progress.choice, Json::object(), nullptr);
    json["prompt_progress"] = progress_json(progress);
    out_ += sse_data(json);
  }

  void write_delta(const AnswerDelta& delta, ChoiceSoFar& choice) override {
    current_ = delta.choice;
    Waiting& waiting = waiting_[current_];
    waiting.logprobs.insert(waiting.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    if (delta.timings) waiting.timings = delta.timings;
    choice.segments.add(delta, this);
  }

  void write_finish(const Finished& finished, ChoiceSoFar& choice) override {
    current_ = finished.choice;
    choice.segments.finish(this);
    waiting_[current_].timings = finished.timings;
    write_chunk(Json::object(), openai_reason(finished.reason, choice.segments.has_calls()));
  }

  void write_end() override {
    if (info_.include_usage) {
      Json json = openai_frame(info_, kChunk);
      json["choices"] = Json::array();
      json["usage"] = openai_usage(so_far_.usage());
      json["timings"] = timings_json(so_far_.choices.back().finished->timings);
      out_ += sse_data(json);
    }
    out_ += kSseDone;
  }

  void write_failure(const ApiError& error) override { out_ += openai_failure(error, info_); }

  void begin(std::size_t /*index*/, const Segment& segment) override {
    if (segment.kind != SegmentKind::kCall) return;
    Json call{{"index", segment.call_index}, {"id", segment.id}, {"type", "function"}};
    call["function"] = {{"name", segment.name}, {"arguments", ""}};
    write_chunk(tool_calls_of_one(std::move(call)), nullptr);
  }

  void append(std::size_t /*index*/, const Segment& segment, const std::string& more) override {
    Json delta = Json::object();
    if (segment.kind == SegmentKind::kReasoning) {
      delta["reasoning_content"] = more;
    } else if (segment.kind == SegmentKind::kText) {
      delta["content"] = more;
    } else {
      Json call{{"index", segment.call_index}};
      call["function"]["arguments"] = more;
      delta = tool_calls_of_one(std::move(call));
    }
    write_chunk(std::move(delta), nullptr);
  }

  void end(std::size_t /*index*/, const Segment& /*segment*/) override {}

  Json frame(std::uint32_t index, Json delta, Json reason) const {
    Json choice{{"index", index}};
    choice["delta"] = std::move(delta);
    if (info_.has_logprobs) choice["logprobs"] = nullptr;
    choice["finish_reason"] = std::move(reason);
    Json json = openai_frame(info_, kChunk);
    json["choices"] = Json::array();
    json["choices"].push_back(std::move(choice));
    if (info_.include_usage) json["usage"] = nullptr;
    return json;
  }

  void write_chunk(Json delta, Json reason) {
    Json json = frame(current_, std::move(delta), std::move(reason));
    Waiting waiting = std::exchange(waiting_[current_], {});
    if (!waiting.logprobs.empty()) {
      json["choices"][0]["logprobs"] = logprobs_object(waiting.logprobs);
    }
    if (waiting.timings) json["timings"] = timings_json(*waiting.timings);
    out_ += sse_data(json);
  }

  static constexpr ObjectNames kChunk{"chatcmpl-", "chat.completion.chunk"};
  std::uint32_t current_ = 0;  // the choice that is being written
  std::vector<Waiting> waiting_;
};

Json calls_json(const Segments& segments) {
  Json calls = Json::array();
  for (const Segment& segment : segments.all()) {
    if (segment.kind != SegmentKind::kCall) continue;
    Json call{{"id", segment.id}, {"type", "function"}};
    call["function"] = {{"name", segment.name}, {"arguments", segment.text}};
    calls.push_back(std::move(call));
  }
  return calls;
}

Json message_json(const Segments& segments) {
  Json message{{"role", "assistant"}};
  std::string text = segments.joined(SegmentKind::kText);
  if (segments.has_calls() && text.empty()) {
    message["content"] = nullptr;
  } else {
    message["content"] = std::move(text);
  }
  std::string reasoning = segments.joined(SegmentKind::kReasoning);
  if (!reasoning.empty()) message["reasoning_content"] = std::move(reasoning);
  if (segments.has_calls()) message["tool_calls"] = calls_json(segments);
  return message;
}

}  // namespace

std::unique_ptr<AnswerStream> make_chat_stream(AnswerInfo info) {
  return std::make_unique<ChatStream>(std::move(info));
}

Json chat_whole(const AnswerInfo& info, const AnswerSoFar& so_far) {
  Json json = openai_frame(info, {"chatcmpl-", "chat.completion"});
  json["choices"] = Json::array();
  for (std::size_t i = 0; i < so_far.choices.size(); ++i) {
    const ChoiceSoFar& choice = so_far.choices[i];
    Json one{{"index", i}};
    one["message"] = message_json(choice.segments);
    one["logprobs"] = info.has_logprobs ? logprobs_object(choice.logprobs) : Json(nullptr);
    one["finish_reason"] = openai_reason(choice.finished->reason, choice.segments.has_calls());
    json["choices"].push_back(std::move(one));
  }
  json["usage"] = openai_usage(so_far.usage());
  json["timings"] = timings_json(so_far.choices.back().finished->timings);
  return json;
}

}  // namespace salvage::api
