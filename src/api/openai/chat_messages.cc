#include "api/openai/chat_messages.h"

#include <algorithm>
#include <array>
#include <deque>

#include <fmt/format.h>

#include "api/limits.h"
#include "api/openai/chat_shape.h"
#include "api/quote.h"

namespace salvage::api {
namespace {

constexpr std::array<std::string_view, 4> kRoles = {"system", "user", "assistant", "tool"};

class ChatMessages {
 public:
  ChatMessages(std::string_view model, Complaint& complaint)
      : model_(model), complaint_(complaint) {}

  Json read(const Json& list, const std::string& path) {
    Json messages = Json::array();
    for (std::size_t i = 0; i < list.size() && !complaint_.any(); ++i) {
      index_ = i;
      messages.push_back(message(list[i], item_path(path, i)));
    }
    return complaint_.any() ? Json::array() : messages;
  }

 private:
  Json message(const Json& json, const std::string& path) {
    if (!json.is_object()) {
      complaint_.add(invalid_value(path, "must be an object"));
      return nullptr;
    }
    const Fields fields(json, path + ".", complaint_);
    const std::string role = role_of(fields);
    Json message{{"role", role}};
    message["content"] = content(fields, role);
    if (role == "assistant") {
      add_reasoning(fields, message);
      add_calls(fields, message);
    }
    if (role == "tool") message["tool_call_id"] = answered_call(fields);
    std::string name;
    if (fields.text("name", name, kNameBytesMax) && !name.empty()) message["name"] = name;
    return message;
  }

  static std::string role_of(const Fields& fields) {
    std::string role;
    if (fields.find("role") == nullptr) fields.missing("role");
    if (!fields.text("role", role, kNameBytesMax)) return role;
    if (role == "developer") role = "system";
    if (role == "function") role = "tool";
    if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
      fields.refuse("role", fmt::format("is {}; it must be system, developer, user, assistant or "
                                        "tool",
                                        in_quotes(role)));
    }
    return role;
  }

  // A text, a list of parts, or null; an assistant that only called tools may have none.
  Json content(const Fields& fields, const std::string& role) {
    const Json* found = fields.find("content");
    if (found == nullptr) {
      // Null is what clients send for "nothing"; only of an assistant it may be left out.
      if (role != "assistant" && !fields.is_null("content")) fields.missing("content");
      return "";
    }
    if (found->is_string()) return *found;
    if (!found->is_array()) {
      fields.refuse("content", "must be a text or a list of parts");
      return "";
    }
    Json parts = Json::array();
    for (std::size_t i = 0; i < found->size(); ++i) {
      add_part((*found)[i], item_path(fields.path("content"), i), parts);
    }
    return content_of(std::move(parts));
  }

  void add_part(const Json& part, const std::string& path, Json& parts) {
    if (!part.is_object()) return complaint_.add(invalid_value(path, "must be an object"));
    const Fields fields(part, path + ".", complaint_);
    std::string type;
    if (fields.find("type") == nullptr) fields.missing("type");
    if (!fields.text("type", type, kNameBytesMax)) return;
    if (type == "text" || type == "input_text" || type == "output_text") {
      return add_text(fields, "text", parts);
    }
    if (type == "refusal") return add_text(fields, "refusal", parts);
    complaint_.add(text_only(fields.path("type"), type, model_));
  }

  static void add_text(const Fields& fields, const char* key, Json& parts) {
    const Json* text = fields.find(key);
    if (text == nullptr) return fields.missing(key);
    if (!text->is_string()) return fields.refuse(key, "must be a text");
    parts.push_back(text_part(text->get_ref<const std::string&>()));
  }

  static void add_reasoning(const Fields& fields, Json& message) {
    std::string reasoning;
    const char* key =
        fields.find("reasoning_content") != nullptr ? "reasoning_content" : "reasoning";
    if (fields.text(key, reasoning, kBodyBytesMax) && !reasoning.empty()) {
      message["reasoning_content"] = std::move(reasoning);
    }
  }

  void add_calls(const Fields& fields, Json& message) {
    open_calls_.clear();
    Json calls = Json::array();
    if (const Json* list = fields.array("tool_calls")) {
      for (std::size_t i = 0; i < list->size() && !complaint_.any(); ++i) {
        calls.push_back(call((*list)[i], item_path(fields.path("tool_calls"), i), i));
      }
    }
    if (const Json* old = fields.object("function_call")) {
      calls.push_back(function(*old, fields.path("function_call."), own_id(calls.size())));
    }
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
  }

  Json call(const Json& json, const std::string& path, std::size_t index) {
    if (!json.is_object()) {
      complaint_.add(invalid_value(path, "must be an object"));
      return nullptr;
    }
    const Fields fields(json, path + ".", complaint_);
    std::string type = "function";
    fields.text("type", type, kNameBytesMax);
    if (type != "function") fields.unsupported("type", "is none that is done here: function");
    const Json* called = fields.object("function");
    if (called == nullptr) {
      fields.missing("function");
      return nullptr;
    }
    std::string id;
    fields.text("id", id, kNameBytesMax);
    return function(*called, fields.path("function."), id.empty() ? own_id(index) : id);
  }

  Json function(const Json& json, const std::string& path, const std::string& id) {
    const Fields fields(json, path, complaint_);
    std::string name;
    fields.text("name", name, kNameBytesMax);
    if (name.empty()) fields.missing("name");
    const Json* arguments = fields.find("arguments");
    const std::string text = arguments == nullptr     ? ""
                             : arguments->is_string() ? arguments->get<std::string>()
                                                      : to_line(*arguments);
    open_calls_.push_back(id);
    return call_json(id, name, text);
  }

  // The same for the same conversation, so that its beginning is found in the KV cache again.
  std::string own_id(std::size_t call_index) const {
    return fmt::format("call_{}_{}", index_, call_index);
  }

  // The id that a tool's message names, or that of the first call without an answer.
  std::string answered_call(const Fields& fields) {
    std::string id;
    fields.text("tool_call_id", id, kNameBytesMax);
    if (id.empty()) {
      if (open_calls_.empty()) {
        fields.missing("tool_call_id");
        return id;
      }
      id = open_calls_.front();
    }
    const auto open = std::find(open_calls_.begin(), open_calls_.end(), id);
    if (open != open_calls_.end()) open_calls_.erase(open);
    return id;
  }

  std::string_view model_;
  Complaint& complaint_;
  std::size_t index_ = 0;               // of the message that is being read
  std::deque<std::string> open_calls_;  // of the assistant that spoke last
};

}  // namespace

Json read_chat_messages(const Fields& fields, std::string_view model) {
  const Json* list = fields.array("messages");
  if (list == nullptr) {
    fields.missing("messages");
    return Json::array();
  }
  if (list->empty()) fields.refuse("messages", "must not be empty");
  return ChatMessages(model, fields.complaint()).read(*list, fields.path("messages"));
}

}  // namespace salvage::api
