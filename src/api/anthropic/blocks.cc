#include "api/anthropic/blocks.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "api/limits.h"
#include "api/openai/chat_shape.h"
#include "api/quote.h"

namespace salvage::api {
namespace {

constexpr std::string_view kBillingHeader = "x-anthropic-billing-header:";

bool is_key_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

// Where "key=value;" ends that begins at `at`, or `at` if there is none.
std::size_t end_of_pair(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_key_letter(text[end])) ++end;
  if (end == at || end == text.size() || text[end] != '=') return at;
  end = std::min(text.find_first_of(";\n", end), text.size());
  return end < text.size() && text[end] == ';' ? end + 1 : end;
}

class AnthropicMessages {
 public:
  AnthropicMessages(std::string_view model, Complaint& complaint)
      : model_(model), complaint_(complaint) {}

  // A text, or blocks of text.
  void add_system(const Fields& fields) {
    const Json* found = fields.find("system");
    if (found == nullptr) return;
    begin("system");
    if (found->is_string()) {
      add_system_text(found->get_ref<const std::string&>());
    } else if (found->is_array()) {
      for (std::size_t i = 0; i < found->size(); ++i) {
        add_system_block((*found)[i], item_path(fields.path("system"), i));
      }
    } else {
      fields.refuse("system", "must be a text or a list of text blocks");
    }
    finish();
  }

  void add_message(const Json& json, const std::string& path) {
    if (!json.is_object()) return complaint_.add(invalid_value(path, "must be an object"));
    const Fields message(json, path + ".", complaint_);
    std::string role;
    if (!message.text("role", role, kNameBytesMax)) return message.missing("role");
    if (role != "user" && role != "assistant" && role != "system") {
      return message.refuse("role",
                            fmt::format("is {}; it must be user or assistant", in_quotes(role)));
    }
    const Json* content = message.find("content");
    if (content == nullptr) return message.missing("content");
    const std::size_t before = messages_.size();
    begin(role);
    if (content->is_string()) {
      parts_.push_back(text_part(content->get_ref<const std::string&>()));
    } else if (content->is_array()) {
      for (std::size_t i = 0; i < content->size(); ++i) {
        add_block((*content)[i], item_path(message.path("content"), i));
      }
    } else {
      message.refuse("content", "must be a text or a list of blocks");
    }
    finish();
    // An empty turn is a turn: a template may need roles to alternate.
    if (messages_.size() == before) push("");
  }

  Json messages() { return complaint_.any() ? Json::array() : std::move(messages_); }

 private:
  void begin(const std::string& role) {
    role_ = role;
    parts_ = Json::array();
    calls_ = Json::array();
    thoughts_.clear();
  }

  // The message of what was read since begin(), if that was anything.
  void finish() {
    if (parts_.empty() && calls_.empty() && thoughts_.empty()) return;
    push(content_of(std::move(parts_)));
    Json& message = messages_.back();
    if (!thoughts_.empty()) message["reasoning_content"] = thoughts_;
    if (!calls_.empty()) message["tool_calls"] = std::move(calls_);
    begin(role_);
  }

  void push(Json content) {
    Json message{{"role", role_}};
    message["content"] = std::move(content);
    messages_.push_back(std::move(message));
  }

  void add_system_text(std::string_view text) {
    text = without_billing_header(text);
    if (!text.empty()) parts_.push_back(text_part(text));
  }

  void add_system_block(const Json& json, const std::string& path) {
    if (!json.is_object()) return complaint_.add(invalid_value(path, "must be an object"));
    const Fields block(json, path + ".", complaint_);
    std::string type = "text";
    block.text("type", type, kNameBytesMax);
    if (type != "text") return complaint_.add(text_only(block.path("type"), type, model_));
    std::string text;
    if (!block.text("text", text, kBodyBytesMax)) return block.missing("text");
    add_system_text(text);
  }

  void add_block(const Json& json, const std::string& path) {
    if (!json.is_object()) return complaint_.add(invalid_value(path, "must be an object"));
    const Fields block(json, path + ".", complaint_);
    std::string type;
    if (!block.text("type", type, kNameBytesMax)) return block.missing("type");
    if (type == "text") return add_text(block);
    if (type == "thinking") {
      std::string thought;
      block.text("thinking", thought, kBodyBytesMax);
      thoughts_ += thought;
      return;
    }
    if (type == "redacted_thinking") return;  // encrypted by another service
    if (type == "tool_use") return add_use(block);
    if (type == "tool_result") return add_result(block);
    if (type == "image" || type == "document") {
      return complaint_.add(text_only(block.path("type"), type, model_));
    }
    block.unsupported("type", fmt::format("is {}, which isn't done here", in_quotes(type)));
  }

  void add_text(const Fields& block) {
    const Json* text = block.find("text");
    if (text == nullptr) return block.missing("text");
    if (!text->is_string()) return block.refuse("text", "must be a text");
    parts_.push_back(text_part(text->get_ref<const std::string&>()));
  }

  void add_use(const Fields& block) {
    const std::string id = needed_name(block, "id");
    const std::string name = needed_name(block, "name");
    const Json* input = block.object("input");
    calls_.push_back(call_json(id, name, input == nullptr ? "{}" : to_line(*input)));
  }

  void add_result(const Fields& block) {
    const std::string id = needed_name(block, "tool_use_id");
    finish();
    const std::string role = role_;
    begin("tool");
    const Json* content = block.find("content");
    if (content != nullptr && content->is_string()) {
      parts_.push_back(text_part(content->get_ref<const std::string&>()));
    } else if (content != nullptr && content->is_array()) {
      for (std::size_t i = 0; i < content->size(); ++i) {
        add_result_part((*content)[i], item_path(block.path("content"), i));
      }
    } else if (content != nullptr) {
      block.refuse("content", "must be a text or a list of blocks");
    }
    push(content_of(std::move(parts_)));
    messages_.back()["tool_call_id"] = id;
    begin(role);
  }

  void add_result_part(const Json& json, const std::string& path) {
    if (!json.is_object()) return complaint_.add(invalid_value(path, "must be an object"));
    const Fields part(json, path + ".", complaint_);
    std::string type;
    if (!part.text("type", type, kNameBytesMax)) return part.missing("type");
    if (type != "text") return complaint_.add(text_only(part.path("type"), type, model_));
    add_text(part);
  }

  std::string_view model_;
  Complaint& complaint_;
  Json messages_ = Json::array();
  // The message that is being put together.
  std::string role_;
  Json parts_ = Json::array();
  Json calls_ = Json::array();
  std::string thoughts_;
};

}  // namespace

std::string_view without_billing_header(std::string_view text) {
  if (!text.starts_with(kBillingHeader)) return text;
  std::size_t at = kBillingHeader.size();
  while (true) {
    while (at < text.size() && text[at] == ' ') ++at;
    const std::size_t end = end_of_pair(text, at);
    if (end == at) break;
    at = end;
  }
  // The text may go on in the same line.
  while (at < text.size() && (text[at] == '\n' || text[at] == '\r')) ++at;
  return text.substr(at);
}

Json read_anthropic_messages(const Fields& fields, std::string_view model) {
  AnthropicMessages messages(model, fields.complaint());
  messages.add_system(fields);
  const Json* list = fields.array("messages");
  if (list == nullptr) {
    fields.missing("messages");
    return Json::array();
  }
  if (list->empty()) fields.refuse("messages", "must not be empty");
  for (std::size_t i = 0; i < list->size() && !fields.complaint().any(); ++i) {
    messages.add_message((*list)[i], item_path(fields.path("messages"), i));
  }
  return messages.messages();
}

}  // namespace salvage::api
