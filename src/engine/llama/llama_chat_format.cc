#include "engine/llama/llama_chat_format.h"

#include <exception>
#include <string>
#include <utility>

#include <chat.h>
#include <fmt/format.h>
#include <log.h>

namespace salvage::engine {
namespace {

constexpr std::size_t kMessageCountMax = 16384;
constexpr int kSilent = -1;  // below every level of common/log.h

class LlamaChatFormat final : public ChatFormat {
 public:
  LlamaChatFormat(std::shared_ptr<const LlamaVocabulary> vocabulary,
                  common_chat_templates_ptr templates)
      : vocabulary_(std::move(vocabulary)), templates_(std::move(templates)) {}

  Result<ChatPrompt> apply(std::span<const ChatMessage> messages) const override;

 private:
  std::shared_ptr<const LlamaVocabulary> vocabulary_;  // its model made templates_
  common_chat_templates_ptr templates_;
};

common_chat_templates_inputs inputs_of(std::span<const ChatMessage> messages) {
  common_chat_templates_inputs inputs;
  inputs.add_generation_prompt = true;
  inputs.use_jinja = true;
  for (const ChatMessage& message : messages) {
    common_chat_msg entry;
    entry.role = well_formed(message.role);
    entry.content = well_formed(message.content);
    inputs.messages.push_back(std::move(entry));
  }
  return inputs;
}

Result<ChatPrompt> LlamaChatFormat::apply(std::span<const ChatMessage> messages) const {
  if (messages.empty() || messages.size() > kMessageCountMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} chat messages; 1 to {} can be formatted", messages.size(),
                            kMessageCountMax));
  }
  try {
    common_chat_params params = common_chat_templates_apply(templates_.get(), inputs_of(messages));
    // Begin and end tokens that the tokenizer adds were cut off the rendered text by
    // libllama-common.
    return ChatPrompt{.text = std::move(params.prompt),
                      .add_special = true,
                      .stop = std::move(params.additional_stops)};
  } catch (const std::exception& thrown) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the model's chat template refused these messages: {}", thrown.what()));
  }
}

}  // namespace

Result<std::unique_ptr<ChatFormat>> make_llama_chat_format(
    std::shared_ptr<const LlamaVocabulary> vocabulary) {
  if (llama_model_chat_template(vocabulary->model(), nullptr) == nullptr) {
    return fail(ErrorCode::kNotFound, "the model has no chat template; send it a plain prompt");
  }
  try {
    common_log_set_verbosity_thold(kSilent);
    common_chat_templates_ptr templates = common_chat_templates_init(vocabulary->model(), "");
    return std::unique_ptr<ChatFormat>(
        new LlamaChatFormat(std::move(vocabulary), std::move(templates)));
  } catch (const std::exception& thrown) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the model's chat template can't be parsed: {}", thrown.what()));
  }
}

}  // namespace salvage::engine
