#include "engine/llama/llama_chat_parser.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "base/random.h"

namespace salvage::engine {
namespace {

// libllama-common's parser recurses, some 3 KiB of stack for each bracket.
constexpr int kAnswerDepthMax = 200;
constexpr std::size_t kCallIdBytes = 12;

std::string new_call_id() {
  static constexpr const char* kPrefix = "call_";
  const auto digits = random_hex(kCallIdBytes);
  return kPrefix + (digits ? *digits : std::string(2 * kCallIdBytes, '0'));
}

class LlamaChatParser final : public ChatParser {
 public:
  explicit LlamaChatParser(std::shared_ptr<const ChatParserSpec> spec) : spec_(std::move(spec)) {
    // What the prompt already holds of a continued message is not said again.
    if (spec_->params.is_continuation) (void)parse(true);
    continued_ = known_;
  }

  std::vector<ChatDelta> push(std::string_view text) override;
  std::vector<ChatDelta> finish() override;
  const ChatAnswer& answer() const override { return answer_; }

 private:
  bool parse(bool partial);
  void give_up(std::vector<ChatDelta>& deltas);
  void deliver(bool last, std::vector<ChatDelta>& deltas);
  void deliver_call(std::size_t index, bool whole, std::vector<ChatDelta>& deltas);
  void deliver_content(std::string text, std::vector<ChatDelta>& deltas);
  std::string_view unread() const;
  bool too_deep(std::string_view text);

  std::shared_ptr<const ChatParserSpec> spec_;  // shared with the prompt and its other parsers
  std::string text_;
  common_chat_msg known_;      // as last parsed
  common_chat_msg continued_;  // what of it was known before the first text
  std::vector<std::string> call_ids_;
  ChatAnswer answer_;  // as delivered
  int depth_ = 0;
  bool given_up_ = false;  // The rest is content as it comes.
};

// Takes over what libllama-common now makes of the text. False if it makes nothing of it, or
// something that contradicts what it made of less.
bool LlamaChatParser::parse(bool partial) {
  try {
    common_chat_msg message = common_chat_parse(text_, partial, spec_->params);
    if (message.empty()) return true;  // nothing yet, or nothing but white space
    message.set_tool_call_ids(call_ids_, new_call_id);
    (void)common_chat_msg_diff::compute_diffs(known_, message);  // throws at contradictions
    known_ = std::move(message);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void LlamaChatParser::deliver_content(std::string text, std::vector<ChatDelta>& deltas) {
  if (text.empty()) return;
  answer_.content += text;
  deltas.push_back({.content = std::move(text), .reasoning = {}, .tool_call = {}});
}

// A call is announced when its arguments begin, or when it is whole: until then its name may grow.
void LlamaChatParser::deliver_call(std::size_t index, bool whole, std::vector<ChatDelta>& deltas) {
  const common_chat_tool_call& call = known_.tool_calls[index];
  if (index == answer_.tool_calls.size()) {
    if (call.name.empty() || (call.arguments.empty() && !whole)) return;
    answer_.tool_calls.push_back({call.id, call.name, {}});
    deltas.push_back({.content = {},
                      .reasoning = {},
                      .tool_call = ChatDelta::ToolCall{index, call.id, call.name, {}}});
  }
  if (index >= answer_.tool_calls.size()) return;
  std::string& delivered = answer_.tool_calls[index].arguments;
  std::string more;
  if (call.arguments.starts_with(delivered)) more = call.arguments.substr(delivered.size());
  if (whole && delivered.empty() && more.empty()) more = "{}";
  if (more.empty()) return;
  delivered += more;
  deltas.push_back({.content = {},
                    .reasoning = {},
                    .tool_call = ChatDelta::ToolCall{index, {}, {}, std::move(more)}});
}

void LlamaChatParser::deliver(bool last, std::vector<ChatDelta>& deltas) {
  const std::size_t reasoned = continued_.reasoning_content.size() + answer_.reasoning.size();
  if (known_.reasoning_content.size() > reasoned) {
    std::string more = known_.reasoning_content.substr(reasoned);
    answer_.reasoning += more;
    deltas.push_back({.content = {}, .reasoning = std::move(more), .tool_call = {}});
  }
  const std::size_t told = continued_.content.size() + answer_.content.size();
  if (known_.content.size() > told) deliver_content(known_.content.substr(told), deltas);
  const std::size_t count = known_.tool_calls.size();
  for (std::size_t i = 0; i < count; ++i) deliver_call(i, last || i + 1 < count, deltas);
}

// The text behind what was delivered. A guess: the parser does not say how far it came.
std::string_view LlamaChatParser::unread() const {
  if (!answer_.tool_calls.empty()) return {};
  const std::string& told = answer_.content.empty() ? answer_.reasoning : answer_.content;
  const std::size_t found = told.empty() ? 0 : text_.rfind(told);
  if (found == std::string::npos) return {};
  std::string_view rest = std::string_view(text_).substr(found + told.size());
  if (!answer_.content.empty() || answer_.reasoning.empty()) return rest;
  for (const std::string& end : spec_->thinking_ends) {
    const std::size_t at = rest.find(end);
    if (at != std::string_view::npos) return rest.substr(at + end.size());
  }
  return rest;
}

void LlamaChatParser::give_up(std::vector<ChatDelta>& deltas) {
  given_up_ = true;
  deliver_content(std::string(unread()), deltas);
}

bool LlamaChatParser::too_deep(std::string_view text) {
  for (const char c : text) {
    if (c == '[' || c == '{') ++depth_;
    if (c == ']' || c == '}') depth_ = std::max(depth_ - 1, 0);
    if (depth_ > kAnswerDepthMax) return spec_->structured;
  }
  return false;
}

std::vector<ChatDelta> LlamaChatParser::push(std::string_view text) {
  std::vector<ChatDelta> deltas;
  if (text.empty()) return deltas;
  text_ += text;
  if (given_up_) {
    if (answer_.tool_calls.empty()) deliver_content(std::string(text), deltas);
  } else if (too_deep(text)) {
    give_up(deltas);
  } else if (parse(true)) {
    deliver(false, deltas);
  }
  return deltas;
}

std::vector<ChatDelta> LlamaChatParser::finish() {
  std::vector<ChatDelta> deltas;
  if (!given_up_ && !parse(false)) {
    // As much of it as makes sense.
    if (parse(true)) deliver(true, deltas);
    give_up(deltas);
    return deltas;
  }
  if (!given_up_) deliver(true, deltas);
  return deltas;
}

}  // namespace

std::unique_ptr<ChatParser> make_llama_chat_parser(std::shared_ptr<const ChatParserSpec> spec) {
  return std::make_unique<LlamaChatParser>(std::move(spec));
}

}  // namespace salvage::engine
