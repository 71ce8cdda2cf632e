#include "api/openai/responses_input.h"

#include <fmt/format.h>

#include "api/limits.h"
#include "api/openai/chat_shape.h"
#include "api/quote.h"

namespace salvage::api {
namespace {

class ResponsesInput {
 public:
  ResponsesInput(std::string_view model, Complaint& complaint)
      : model_(model), complaint_(complaint) {}

  void add_system(const std::string& text) {
    if (!text.empty()) add_message("system", Json::array({text_part(text)}));
  }

  void add_item(const Json& json, const std::string& path) {
    if (!json.is_object()) return complaint_.add(invalid_value(path, "must be an object"));
    const Fields item(json, path + ".", complaint_);
    std::string type = "message";
    item.text("type", type, kNameBytesMax);
    if (type == "message") return add_spoken(item);
    if (type == "reasoning") return add_thought(item);
    if (type == "function_call") return add_call(item, "arguments");
    if (type == "custom_tool_call") return add_call(item, "input");
    if (type == "function_call_output" || type == "custom_tool_call_output") {
      return add_output(item);
    }
    item.unsupported("type", fmt::format("is {}, which isn't done here", in_quotes(type)));
  }

  Json messages() {
    if (complaint_.any()) return Json::array();
    for (Json& message : messages_) message["content"] = content_of(std::move(message["content"]));
    return std::move(messages_);
  }

 private:
  void add_spoken(const Fields& item) {
    std::string role;
    if (!item.text("role", role, kNameBytesMax)) return item.missing("role");
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant") {
      return item.refuse("role", fmt::format("is {}; it must be user, assistant, system or "
                                             "developer",
                                             in_quotes(role)));
    }
    Json parts = read_parts(item, "content");
    if (role != "assistant") return add_message(role, std::move(parts));
    Json& content = turn()["content"];
    for (Json& part : parts) content.push_back(std::move(part));
  }

  // Kept where its text is there; what OpenAI encrypted is nothing to us.
  void add_thought(const Fields& item) {
    const Json* list = item.array("content");
    if (list == nullptr || list->empty()) return;
    std::string text;
    for (const Json& part : read_parts(item, "content")) {
      text += part["text"].get_ref<const std::string&>();
    }
    if (text.empty()) return;
    Json& message = turn();
    const std::string before = message.value("reasoning_content", std::string());
    message["reasoning_content"] = before + text;
  }

  void add_call(const Fields& item, const char* key) {
    const std::string id = needed_name(item, "call_id");
    const std::string name = needed_name(item, "name");
    std::string given;
    item.text(key, given, kBodyBytesMax);
    if (std::string_view(key) == "input") {
      Json wrapped = Json::object();
      wrapped["input"] = given;
      given = to_line(wrapped);
    }
    turn()["tool_calls"].push_back(call_json(id, name, given));
  }

  void add_output(const Fields& item) {
    const std::string id = needed_name(item, "call_id");
    add_message("tool", read_parts(item, "output"));
    messages_.back()["tool_call_id"] = id;
  }

  // A text, or parts that hold texts.
  Json read_parts(const Fields& item, const char* key) {
    Json parts = Json::array();
    const Json* found = item.find(key);
    if (found == nullptr) return parts;
    if (found->is_string()) {
      parts.push_back(text_part(found->get_ref<const std::string&>()));
      return parts;
    }
    if (!found->is_array()) {
      item.refuse(key, "must be a text or a list of parts");
      return parts;
    }
    for (std::size_t i = 0; i < found->size(); ++i) {
      add_part((*found)[i], item_path(item.path(key), i), parts);
    }
    return parts;
  }

  void add_part(const Json& json, const std::string& path, Json& parts) {
    if (!json.is_object()) return complaint_.add(invalid_value(path, "must be an object"));
    const Fields part(json, path + ".", complaint_);
    std::string type = "input_text";
    part.text("type", type, kNameBytesMax);
    const bool is_refusal = type == "refusal";
    if (!is_refusal && type != "input_text" && type != "output_text" && type != "text" &&
        type != "reasoning_text" && type != "summary_text") {
      return complaint_.add(text_only(part.path("type"), type, model_));
    }
    std::string text;
    const char* key = is_refusal ? "refusal" : "text";
    if (part.find(key) == nullptr) return part.missing(key);
    if (part.text(key, text, kBodyBytesMax)) parts.push_back(text_part(text));
  }

  void add_message(const std::string& role, Json parts) {
    // What a system says in several items before anybody spoke is one message.
    if (role == "system" && messages_.size() == 1 && messages_[0]["role"] == "system") {
      std::string& text = messages_[0]["content"][0]["text"].get_ref<std::string&>();
      for (const Json& part : parts) text += "\n\n" + part["text"].get<std::string>();
      return;
    }
    if (role == "system" && messages_.empty()) parts = joined(parts);
    Json message{{"role", role}};
    message["content"] = std::move(parts);
    messages_.push_back(std::move(message));
  }

  static Json joined(const Json& parts) {
    std::string text;
    for (const Json& part : parts) {
      if (!text.empty()) text += "\n\n";
      text += part["text"].get_ref<const std::string&>();
    }
    return Json::array({text_part(text)});
  }

  // The assistant's message that is being put together; a new one after any other.
  Json& turn() {
    if (messages_.empty() || messages_.back()["role"] != "assistant") {
      add_message("assistant", Json::array());
    }
    return messages_.back();
  }

  std::string_view model_;
  Complaint& complaint_;
  Json messages_ = Json::array();  // "content" is a list of parts until messages()
};

}  // namespace

Json read_responses_input(const Fields& fields, std::string_view model) {
  ResponsesInput input(model, fields.complaint());
  std::string instructions;
  if (fields.text("instructions", instructions, kBodyBytesMax)) input.add_system(instructions);
  const Json* found = fields.find("input");
  if (found == nullptr) {
    fields.missing("input");
  } else if (found->is_string()) {
    Json item{{"role", "user"}};
    item["content"] = *found;
    input.add_item(item, fields.path("input"));
  } else if (found->is_array() && !found->empty()) {
    for (std::size_t i = 0; i < found->size() && !fields.complaint().any(); ++i) {
      input.add_item((*found)[i], item_path(fields.path("input"), i));
    }
  } else {
    fields.refuse("input", "must be a text or a list of items that isn't empty");
  }
  return input.messages();
}

}  // namespace salvage::api
