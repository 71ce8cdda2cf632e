#include "api/prompt_field.h"

#include <algorithm>

#include <fmt/format.h>

#include "api/limits.h"

namespace salvage::api {
namespace {

class PromptReader {
 public:
  PromptReader(const ParseLimits& limits, Complaint& complaint)
      : ids_end_(limits.vocabulary_size == 0 ? std::int64_t{1} << 31
                                             : std::int64_t{limits.vocabulary_size}),
        complaint_(complaint) {}

  Prompt one(const Json& json, const std::string& path) {
    if (json.is_string()) return {json.get<std::string>()};
    if (json.is_object()) return from_object(json, path);
    Prompt prompt;
    if (!json.is_array()) {
      complaint_.add(invalid_value(path, "must be a text or a list of texts and token ids"));
      return prompt;
    }
    for (std::size_t i = 0; i < json.size() && !complaint_.any(); ++i) {
      add(json[i], path, i, prompt);
    }
    return prompt;
  }

  std::optional<TokenId> token(const Json& json) const {
    const auto id = whole_of(json);
    if (!id || *id < 0 || *id >= ids_end_) return std::nullopt;
    return static_cast<TokenId>(*id);
  }

  ApiError no_token(const std::string& path, std::size_t index) const {
    return invalid_value(
        item_path(path, index),
        fmt::format("must be a token id of this model: a whole number from 0 to {}", ids_end_ - 1));
  }

 private:
  void add(const Json& item, const std::string& path, std::size_t index, Prompt& prompt) {
    if (item.is_string()) {
      prompt.emplace_back(item.get<std::string>());
      return;
    }
    const auto id = token(item);
    if (!id) return complaint_.add(no_token(path, index));
    if (prompt.empty() || !std::holds_alternative<std::vector<TokenId>>(prompt.back())) {
      prompt.emplace_back(std::vector<TokenId>());
    }
    std::get<std::vector<TokenId>>(prompt.back()).push_back(*id);
  }

  Prompt from_object(const Json& json, const std::string& path) {
    const Fields fields(json, path + ".", complaint_);
    std::string text;
    if (!fields.text("prompt_string", text, kBodyBytesMax)) fields.missing("prompt_string");
    const Json* media = fields.find("multimodal_data");
    if (media != nullptr && !(media->is_array() && media->empty())) {
      fields.unsupported("multimodal_data", "isn't done here: the model takes text only");
    }
    return {std::move(text)};
  }

  std::int64_t ids_end_;
  Complaint& complaint_;
};

bool holds_number(const Json& list) {
  return std::any_of(list.begin(), list.end(), [](const Json& item) { return item.is_number(); });
}

}  // namespace

void read_prompts(const Fields& fields, const char* key, const ParseLimits& limits,
                  std::vector<Prompt>& prompts) {
  const Json* found = fields.find(key);
  if (found == nullptr) return fields.missing(key);
  PromptReader reader(limits, fields.complaint());
  if (!found->is_array() || holds_number(*found)) {
    prompts.push_back(reader.one(*found, fields.path(key)));
    return;
  }
  if (found->empty() || found->size() > kPromptsMax) {
    return fields.refuse(key, fmt::format("must have from 1 to {} prompts", kPromptsMax));
  }
  for (std::size_t i = 0; i < found->size() && !fields.complaint().any(); ++i) {
    prompts.push_back(reader.one((*found)[i], item_path(fields.path(key), i)));
  }
}

void read_prompt(const Fields& fields, const char* key, const ParseLimits& limits, Prompt& prompt) {
  const Json* found = fields.find(key);
  if (found == nullptr) return;
  prompt = PromptReader(limits, fields.complaint()).one(*found, fields.path(key));
}

void read_token_ids(const Fields& fields, const char* key, const ParseLimits& limits,
                    std::vector<TokenId>& ids) {
  const Json* found = fields.array(key);
  if (found == nullptr) return;
  const PromptReader reader(limits, fields.complaint());
  for (std::size_t i = 0; i < found->size(); ++i) {
    const auto id = reader.token((*found)[i]);
    if (!id) return fields.complaint().add(reader.no_token(fields.path(key), i));
    ids.push_back(*id);
  }
}

}  // namespace salvage::api
