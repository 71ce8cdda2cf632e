#include "api/common_fields.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "api/limits.h"

namespace salvage::api {
namespace {

constexpr std::int64_t kTokensMax = std::numeric_limits<std::int32_t>::max();

// Known to llama.cpp, and what a request would get without them is not what it asked for.
void refuse_unsupported(const Fields& fields) {
  const Json* lora = fields.find("lora");
  if (lora != nullptr && !(lora->is_array() && lora->empty())) {
    fields.unsupported("lora", "isn't done here: no LoRA adapters are loaded");
  }
  const Json* images = fields.find("image_data");
  if (images != nullptr && !(images->is_array() && images->empty())) {
    fields.unsupported("image_data", "isn't done here: the model takes text only");
  }
  std::int64_t indent = 0;
  fields.whole("n_indent", indent, {0, kTokensMax});
  if (indent != 0) fields.unsupported("n_indent", "isn't done here");
  bool lazy = false;
  fields.flag("grammar_lazy", lazy);
  if (lazy) fields.unsupported("grammar_lazy", "isn't taken from clients");
}

void read_choices(const Fields& fields, const ParseLimits& limits, GenerateRequest& request) {
  const char* key = fields.find("n_cmpl") != nullptr ? "n_cmpl" : "n";
  fields.whole(key, request.choices, {1, kChoicesMax});
  if (limits.choices_max == 0 || request.choices <= limits.choices_max) return;
  fields.refuse(key, fmt::format("is {}, but only {} answers are made at a time", request.choices,
                                 limits.choices_max));
}

void read_constraint(const Fields& fields, GenerateRequest& request) {
  fields.text("grammar", request.grammar, kGrammarBytesMax);
  const Json* schema = fields.find("json_schema");
  if (schema == nullptr || !is_schema(*schema, fields.path("json_schema"), fields.complaint())) {
    return;
  }
  request.json_schema = *schema;
}

void read_stream(const Fields& fields, GenerateRequest& request) {
  fields.flag("stream", request.stream);
  fields.flag("return_progress", request.return_progress);
  fields.flag("timings_per_token", request.timings_per_token);
  fields.flag("return_tokens", request.return_tokens);
  std::int32_t ping = 0;
  if (fields.find("sse_ping_interval") != nullptr &&
      fields.whole("sse_ping_interval", ping, {-1, kTokensMax})) {
    request.ping_seconds = static_cast<std::uint32_t>(std::max(ping, 0));
  }
  const Json* options = fields.object("stream_options");
  if (options == nullptr) return;
  const Fields nested(*options, fields.path("stream_options."), fields.complaint());
  nested.flag("include_usage", request.include_usage);
}

// OpenAI's own word for who goes first. Others ("auto", "default", "standard_only") are all alike.
void read_tier(const Fields& fields, GenerateRequest& request) {
  const Json* tier = fields.find("service_tier");
  if (tier == nullptr || !tier->is_string()) return;
  if (*tier == "flex") request.priority = -1;
  if (*tier == "priority") request.priority = 1;
}

}  // namespace

void read_user(const Fields& fields, const char* key, GenerateRequest& request) {
  const Json* found = fields.find(key);
  if (found == nullptr || !found->is_string()) return;
  request.user = found->get_ref<const std::string&>().substr(0, kNameBytesMax);
}

bool is_schema(const Json& json, const std::string& param, Complaint& complaint) {
  if (json.is_object() || json.is_boolean()) return true;
  ApiError error = invalid_value(param, "must be a JSON schema: an object");
  error.kind = ErrorKind::kInvalidJsonSchema;
  complaint.add(std::move(error));
  return false;
}

void read_stop(const Fields& fields, const char* key, std::vector<std::string>& stop) {
  const Json* found = fields.find(key);
  if (found == nullptr) return;
  const auto take = [&stop](const Json& json) {
    if (!json.is_string()) return false;
    const auto& text = json.get_ref<const std::string&>();
    if (!text.empty()) stop.push_back(text);  // nothing would come before it
    return text.size() <= kStopBytesMax;
  };
  bool fits = found->is_array() ? found->size() <= kStopsMax : take(*found);
  if (found->is_array() && fits) fits = std::all_of(found->begin(), found->end(), take);
  if (fits) return;
  fields.refuse(key, fmt::format("must be a text or a list of at most {}, each of at most {} bytes",
                                 kStopsMax, kStopBytesMax));
}

void read_tokens_max(const Fields& fields, std::initializer_list<const char*> keys,
                     GenerateRequest& request) {
  for (const char* key : keys) {
    std::int64_t count = -1;
    if (fields.find(key) == nullptr) continue;
    if (!fields.whole(key, count, {-1, kTokensMax})) return;
    if (count >= 0) request.tokens_max = static_cast<std::uint32_t>(count);
    return;
  }
}

void check_one_constraint(const Fields& fields, const GenerateRequest& request) {
  if (request.grammar.empty()) return;
  if (request.json_schema) fields.refuse("grammar", "can't be had beside a JSON schema");
  if (request.chat && !request.chat->tools.empty() &&
      request.chat->tool_choice != ToolChoice::kNone) {
    fields.refuse("grammar", "can't be had beside tools");
  }
}

void read_common_fields(const Fields& fields, const ParseLimits& limits, GenerateRequest& request) {
  fields.text("model", request.model, kNameBytesMax);
  read_user(fields, fields.find("safety_identifier") != nullptr ? "safety_identifier" : "user",
            request);
  read_choices(fields, limits, request);
  read_sampler(fields, request.sampler);
  read_constraint(fields, request);
  std::int64_t predict_ms = -1;
  fields.whole("t_max_predict_ms", predict_ms, {-1, std::numeric_limits<std::int64_t>::max()});
  if (predict_ms > 0) request.predict_ms_max = predict_ms;
  read_stream(fields, request);
  read_tier(fields, request);
  fields.flag("cache_prompt", request.cache_prompt);
  fields.texts("response_fields", request.response_fields, kResponseFieldsMax);
  refuse_unsupported(fields);
}

}  // namespace salvage::api
