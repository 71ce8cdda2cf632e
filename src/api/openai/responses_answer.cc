#include "api/openai/responses_answer.h"

#include <span>
#include <utility>

#include "api/openai/response_items.h"
#include "api/sse.h"
#include "api/value_json.h"

namespace salvage::api {
namespace {

// Each item begins, grows and ends with events of its own kind; all events are numbered.
class ResponsesStream final : public AnswerStream, private SegmentListener {
 public:
  explicit ResponsesStream(AnswerInfo info) : AnswerStream(std::move(info)) {}

 private:
  void write_begin(const Accepted& /*accepted*/) override {
    write_state("response.created", response_json(info_, nullptr));
    write_state("response.in_progress", response_json(info_, nullptr));
  }

  void write_progress(const PromptProgress& progress) override {
    Json fields = Json::object();
    fields["response"] = response_json(info_, nullptr);
    fields["prompt_progress"] = progress_json(progress);
    write("response.in_progress", fields);
  }

  void write_delta(const AnswerDelta& delta, ChoiceSoFar& choice) override {
    choice.segments.add(delta, this);
  }

  void write_finish(const Finished& finished, ChoiceSoFar& choice) override {
    last_status_ = incomplete_reason(finished.reason).is_null() ? ItemStatus::kCompleted
                                                                : ItemStatus::kIncomplete;
    choice.segments.finish(this);
    const bool is_cut = last_status_ == ItemStatus::kIncomplete;
    write_state(is_cut ? "response.incomplete" : "response.completed",
                response_json(info_, &so_far_));
  }

  void write_end() override {}  // no [DONE] here

  void write_failure(const ApiError& error) override {
    Json response = response_json(info_, nullptr);
    response["status"] = "failed";
    response["error"] = {{"code", response_error_code(error.kind)}, {"message", error.message}};
    write_state("response.failed", std::move(response));
  }

  void begin(std::size_t index, const Segment& segment) override {
    logprobs_written_ = 0;
    Json fields{{"output_index", index}};
    fields["item"] = item_json(info_, index, segment, ItemStatus::kInProgress);
    write("response.output_item.added", fields);
    if (segment.kind == SegmentKind::kCall) return;
    Json part = in_part(index, segment);
    part["part"] = part_json(segment, ItemStatus::kInProgress);
    write("response.content_part.added", part);
  }

  void append(std::size_t index, const Segment& segment, const std::string& more) override {
    if (is_custom_call(info_, segment)) return;  // its text is known when its JSON is whole
    if (segment.kind == SegmentKind::kCall) {
      Json fields = in_item(index, segment);
      fields["delta"] = more;
      return write("response.function_call_arguments.delta", fields);
    }
    Json fields = in_part(index, segment);
    fields["delta"] = more;
    if (segment.kind == SegmentKind::kReasoning) {
      return write("response.reasoning_text.delta", fields);
    }
    const std::span<const TokenLogprob> known(segment.logprobs);
    fields["logprobs"] = openai_logprobs(known.subspan(logprobs_written_));
    logprobs_written_ = known.size();
    write("response.output_text.delta", fields);
  }

  void end(std::size_t index, const Segment& segment) override {
    if (segment.kind == SegmentKind::kCall) {
      write_call_end(index, segment);
    } else {
      write_part_end(index, segment);
    }
    Json fields{{"output_index", index}};
    fields["item"] = item_json(info_, index, segment, last_status_);
    write("response.output_item.done", fields);
  }

  void write_call_end(std::size_t index, const Segment& segment) {
    Json fields = in_item(index, segment);
    if (is_custom_call(info_, segment)) {
      const std::string input = custom_input(segment);
      fields["delta"] = input;
      write("response.custom_tool_call_input.delta", fields);
      fields.erase("delta");
      fields["input"] = input;
      return write("response.custom_tool_call_input.done", fields);
    }
    fields["name"] = segment.name;
    fields["arguments"] = segment.text;
    write("response.function_call_arguments.done", fields);
  }

  void write_part_end(std::size_t index, const Segment& segment) {
    const bool is_thought = segment.kind == SegmentKind::kReasoning;
    Json fields = in_part(index, segment);
    fields["text"] = segment.text;
    if (!is_thought) fields["logprobs"] = openai_logprobs(segment.logprobs);
    write(is_thought ? "response.reasoning_text.done" : "response.output_text.done", fields);
    Json part = in_part(index, segment);
    part["part"] = part_json(segment, ItemStatus::kCompleted);
    write("response.content_part.done", part);
  }

  Json in_item(std::size_t index, const Segment& segment) const {
    return {{"item_id", item_id(info_, index, segment)}, {"output_index", index}};
  }

  Json in_part(std::size_t index, const Segment& segment) const {
    Json fields = in_item(index, segment);
    fields["content_index"] = 0;
    return fields;
  }

  void write_state(std::string_view type, Json response) {
    Json fields = Json::object();
    fields["response"] = std::move(response);
    write(type, fields);
  }

  void write(std::string_view type, const Json& fields) {
    Json json{{"type", type}, {"sequence_number", sequence_number_++}};
    json.update(fields);
    out_ += sse_event(type, json);
  }

  std::uint64_t sequence_number_ = 0;
  std::size_t logprobs_written_ = 0;  // of the segment that grows
  ItemStatus last_status_ = ItemStatus::kCompleted;
};

}  // namespace

std::unique_ptr<AnswerStream> make_responses_stream(AnswerInfo info) {
  return std::make_unique<ResponsesStream>(std::move(info));
}

Json responses_whole(const AnswerInfo& info, const AnswerSoFar& so_far) {
  return response_json(info, &so_far);
}

std::string input_tokens_body(std::uint64_t tokens) {
  Json json{{"object", "response.input_tokens"}};
  json["input_tokens"] = tokens;
  return to_line(json);
}

}  // namespace salvage::api
