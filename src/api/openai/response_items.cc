#include "api/openai/response_items.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "api/limits.h"
#include "api/value_json.h"

namespace salvage::api {
namespace {

std::string_view status_name(ItemStatus status) {
  switch (status) {
    case ItemStatus::kInProgress:
      return "in_progress";
    case ItemStatus::kCompleted:
      return "completed";
    case ItemStatus::kIncomplete:
      return "incomplete";
  }
  return "completed";
}

std::string_view id_prefix(const AnswerInfo& info, const Segment& segment) {
  switch (segment.kind) {
    case SegmentKind::kReasoning:
      return "rs";
    case SegmentKind::kText:
      return "msg";
    case SegmentKind::kCall:
      return is_custom_call(info, segment) ? "ctc" : "fc";
  }
  return "msg";
}

// One part, or none while the item is still empty.
Json content_json(const Segment& segment, ItemStatus status) {
  Json content = Json::array();
  if (status != ItemStatus::kInProgress) content.push_back(part_json(segment, status));
  return content;
}

void put_call(const AnswerInfo& info, const Segment& segment, ItemStatus status, Json& item) {
  const bool is_custom = is_custom_call(info, segment);
  const bool is_empty = status == ItemStatus::kInProgress;
  item["type"] = is_custom ? "custom_tool_call" : "function_call";
  item["status"] = status_name(status);
  item["call_id"] = segment.id;
  item["name"] = segment.name;
  if (is_custom) {
    item["input"] = is_empty ? "" : custom_input(segment);
  } else {
    item["arguments"] = is_empty ? "" : segment.text;
  }
}

}  // namespace

bool is_custom_call(const AnswerInfo& info, const Segment& segment) {
  return segment.kind == SegmentKind::kCall &&
         std::find(info.custom_tools.begin(), info.custom_tools.end(), segment.name) !=
             info.custom_tools.end();
}

std::string custom_input(const Segment& segment) {
  const auto arguments = parse_bounded_json(segment.text, kBodyLimits);
  if (!arguments || !arguments->is_object()) return segment.text;
  const auto input = arguments->find("input");
  const bool is_text = input != arguments->end() && input->is_string();
  return is_text ? input->get<std::string>() : segment.text;
}

std::string item_id(const AnswerInfo& info, std::size_t index, const Segment& segment) {
  return fmt::format("{}_{}{}", id_prefix(info, segment), info.unique, index);
}

Json part_json(const Segment& segment, ItemStatus status) {
  const bool is_empty = status == ItemStatus::kInProgress;
  const std::string text = is_empty ? "" : segment.text;
  if (segment.kind == SegmentKind::kReasoning) {
    return {{"type", "reasoning_text"}, {"text", text}};
  }
  Json json{{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}};
  json["logprobs"] = is_empty ? Json::array() : openai_logprobs(segment.logprobs);
  return json;
}

Json item_json(const AnswerInfo& info, std::size_t index, const Segment& segment,
               ItemStatus status) {
  Json item{{"id", item_id(info, index, segment)}};
  switch (segment.kind) {
    case SegmentKind::kReasoning:
      item["type"] = "reasoning";
      item["status"] = status_name(status);
      item["summary"] = Json::array();
      item["content"] = content_json(segment, status);
      item["encrypted_content"] = nullptr;
      break;
    case SegmentKind::kText:
      item["type"] = "message";
      item["status"] = status_name(status);
      item["role"] = "assistant";
      item["content"] = content_json(segment, status);
      break;
    case SegmentKind::kCall:
      put_call(info, segment, status, item);
      break;
  }
  return item;
}

Json incomplete_reason(StopReason reason) {
  if (openai_reason(reason, false) == "stop") return nullptr;
  Json json = Json::object();
  json["reason"] = "max_output_tokens";
  return json;
}

std::string_view response_error_code(ErrorKind kind) {
  const ErrorFacts& facts = facts_of(kind);
  if (facts.status == 429) return "rate_limit_exceeded";
  return facts.status < 500 ? "invalid_prompt" : "server_error";
}

Json response_json(const AnswerInfo& info, const AnswerSoFar* so_far) {
  const Finished* finished = nullptr;
  if (so_far != nullptr && so_far->choices[0].finished) finished = &*so_far->choices[0].finished;
  Json incomplete = finished == nullptr ? Json(nullptr) : incomplete_reason(finished->reason);
  Json json{{"id", "resp_" + info.unique},
            {"object", "response"},
            {"created_at", info.created_s},
            {"status", finished == nullptr    ? "in_progress"
                       : incomplete.is_null() ? "completed"
                                              : "incomplete"},
            {"error", nullptr}};
  const bool is_cut = !incomplete.is_null();
  json["incomplete_details"] = std::move(incomplete);
  json["model"] = info.model;
  json["previous_response_id"] = nullptr;
  json["store"] = false;
  json.update(info.response_echo);
  json["output"] = Json::array();
  json["usage"] = nullptr;
  if (finished == nullptr) return json;
  const auto segments = so_far->choices[0].segments.all();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const bool is_last = i + 1 == segments.size();
    json["output"].push_back(
        item_json(info, i, segments[i],
                  is_cut && is_last ? ItemStatus::kIncomplete : ItemStatus::kCompleted));
  }
  json["usage"] = responses_usage(finished->usage);
  return json;
}

}  // namespace salvage::api
