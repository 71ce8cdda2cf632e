#include "api/anthropic/messages_answer.h"

#include <utility>

#include "api/limits.h"
#include "api/sse.h"
#include "api/value_json.h"

namespace salvage::api {
namespace {

// A call's arguments as the object that they should be; a model may have written something else.
Json input_of(const Segment& call) {
  auto input = parse_bounded_json(call.text, kBodyLimits);
  return input && input->is_object() ? std::move(*input) : Json::object();
}

Json block_json(const Segment& segment) {
  switch (segment.kind) {
    case SegmentKind::kReasoning:
      // The signature proves to Anthropic that the thought is its own; ours needs none.
      return {{"type", "thinking"}, {"thinking", segment.text}, {"signature", ""}};
    case SegmentKind::kText:
      return {{"type", "text"}, {"text", segment.text}};
    case SegmentKind::kCall:
      return {{"type", "tool_use"},
              {"id", segment.id},
              {"name", segment.name},
              {"input", input_of(segment)}};
  }
  return nullptr;
}

Json stop_text_json(const Finished& finished) {
  if (finished.reason != StopReason::kStopText) return nullptr;
  return finished.stop_text;
}

Json message_frame(const AnswerInfo& info) {
  return {{"id", "msg_" + info.unique}, {"type", "message"},        {"role", "assistant"},
          {"model", info.model},        {"content", Json::array()}, {"stop_reason", nullptr},
          {"stop_sequence", nullptr}};
}

class MessagesStream final : public AnswerStream, private SegmentListener {
 public:
  explicit MessagesStream(AnswerInfo info) : AnswerStream(std::move(info)) {}

  std::string ping() const override { return sse_event("ping", {{"type", "ping"}}); }

 private:
  void write_begin(const Accepted& accepted) override {
    Json message = message_frame(info_);
    message["usage"] = anthropic_usage({.prompt_tokens = accepted.prompt_tokens});
    Json json{{"type", "message_start"}};
    json["message"] = std::move(message);
    out_ += sse_event("message_start", json);
  }

  void write_progress(const PromptProgress& progress) override {
    Json json{{"type", "ping"}};
    json["prompt_progress"] = progress_json(progress);
    out_ += sse_event("ping", json);
  }

  void write_delta(const AnswerDelta& delta, ChoiceSoFar& choice) override {
    choice.segments.add(delta, this);
  }

  void write_finish(const Finished& finished, ChoiceSoFar& choice) override {
    choice.segments.finish(this);
    Json json{{"type", "message_delta"}};
    json["delta"] = {
        {"stop_reason", anthropic_reason(finished.reason, choice.segments.has_calls())},
        {"stop_sequence", stop_text_json(finished)}};
    json["usage"] = anthropic_usage(finished.usage);
    out_ += sse_event("message_delta", json);
  }

  void write_end() override { out_ += sse_event("message_stop", {{"type", "message_stop"}}); }

  void write_failure(const ApiError& error) override {
    out_ += sse_event("error", error_json(error, Dress::kAnthropic, info_.request_id));
  }

  // A block begins empty, whatever its kind.
  void begin(std::size_t index, const Segment& segment) override {
    Json json{{"type", "content_block_start"}, {"index", index}};
    json["content_block"] = block_json(segment);
    out_ += sse_event("content_block_start", json);
  }

  void append(std::size_t index, const Segment& segment, const std::string& more) override {
    switch (segment.kind) {
      case SegmentKind::kReasoning:
        return write_piece(index, {{"type", "thinking_delta"}, {"thinking", more}});
      case SegmentKind::kText:
        return write_piece(index, {{"type", "text_delta"}, {"text", more}});
      case SegmentKind::kCall:
        return write_piece(index, {{"type", "input_json_delta"}, {"partial_json", more}});
    }
  }

  void end(std::size_t index, const Segment& segment) override {
    if (segment.kind == SegmentKind::kReasoning) {
      write_piece(index, {{"type", "signature_delta"}, {"signature", ""}});
    }
    out_ += sse_event("content_block_stop", {{"type", "content_block_stop"}, {"index", index}});
  }

  void write_piece(std::size_t index, Json delta) {
    Json json{{"type", "content_block_delta"}, {"index", index}};
    json["delta"] = std::move(delta);
    out_ += sse_event("content_block_delta", json);
  }
};

}  // namespace

std::unique_ptr<AnswerStream> make_messages_stream(AnswerInfo info) {
  return std::make_unique<MessagesStream>(std::move(info));
}

Json messages_whole(const AnswerInfo& info, const AnswerSoFar& so_far) {
  const ChoiceSoFar& choice = so_far.choices.front();
  Json json = message_frame(info);
  for (const Segment& segment : choice.segments.all()) {
    json["content"].push_back(block_json(segment));
  }
  json["stop_reason"] = anthropic_reason(choice.finished->reason, choice.segments.has_calls());
  json["stop_sequence"] = stop_text_json(*choice.finished);
  json["usage"] = anthropic_usage(choice.finished->usage);
  return json;
}

std::string count_tokens_body(std::uint64_t tokens) {
  Json json = Json::object();
  json["input_tokens"] = tokens;
  return to_line(json);
}

}  // namespace salvage::api
