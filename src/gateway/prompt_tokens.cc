#include "gateway/prompt_tokens.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "api/fields.h"
#include "engine/chat.h"

namespace salvage::gateway {
namespace {

// Template and tokenizer take time by the byte; no context holds a token a byte of this.
constexpr std::size_t kBytesPerTokenMax = 64;

engine::ChatContinuation continuation_of(api::Continuation wish) {
  switch (wish) {
    case api::Continuation::kAuto:
      return engine::ChatContinuation::kAuto;
    case api::Continuation::kContent:
      return engine::ChatContinuation::kContent;
    case api::Continuation::kReasoning:
      return engine::ChatContinuation::kReasoning;
    case api::Continuation::kNone:
      break;
  }
  return engine::ChatContinuation::kNone;
}

const char* choice_of(api::ToolChoice wish) {
  if (wish == api::ToolChoice::kNone) return "none";
  return wish == api::ToolChoice::kRequired ? "required" : "auto";
}

engine::ChatRequest chat_request(const api::GenerateRequest& request) {
  const api::ChatWish& chat = *request.chat;
  engine::ChatRequest wanted;
  wanted.messages = chat.messages;
  if (!chat.tools.empty()) {
    wanted.tools = chat.tools;
    wanted.tool_choice = choice_of(chat.tool_choice);
  }
  wanted.parallel_tool_calls = chat.parallel_tool_calls;
  if (request.json_schema) wanted.json_schema = *request.json_schema;
  wanted.grammar = request.grammar;
  wanted.template_arguments = chat.template_kwargs;
  wanted.enable_thinking = chat.enable_thinking;
  wanted.split_reasoning = chat.reasoning_format != "none";
  wanted.thinking_budget = chat.reasoning_tokens_max.value_or(-1);
  wanted.thinking_budget_message = chat.reasoning_budget_message;
  wanted.add_generation_prompt = chat.add_generation_prompt;
  wanted.continuation = continuation_of(chat.continuation);
  return wanted;
}

std::size_t content_bytes(const api::Json& messages) {
  std::size_t bytes = 0;
  for (const api::Json& message : messages) {
    const auto content = message.find("content");
    if (content == message.end()) continue;
    if (content->is_string()) bytes += content->get_ref<const std::string&>().size();
    if (!content->is_array()) continue;
    for (const api::Json& part : *content) {
      const auto text = part.find("text");
      if (text != part.end() && text->is_string()) {
        bytes += text->get_ref<const std::string&>().size();
      }
    }
  }
  return bytes;
}

// Before template or tokenizer see it: so many bytes are never so few tokens.
api::Parsed<void> may_fit(std::size_t bytes, const ReadyModel& model) {
  const std::uint32_t context = model.pipeline->limits().context_per_sequence;
  if (bytes / kBytesPerTokenMax <= context) return {};
  return fail(api::context_length_exceeded(
      {.prompt_tokens = bytes / kBytesPerTokenMax, .context_tokens = context}));
}

api::Parsed<PreparedPrompt> prepare_chat(const api::GenerateRequest& request,
                                         const ReadyModel& model) {
  const auto format = model.pipeline->text().make_chat_format();
  if (!format) return fail(api::api_error(format.error()));
  const api::ChatWish& chat = *request.chat;
  if (!chat.tools.empty() && chat.tool_choice == api::ToolChoice::kRequired &&
      !(*format)->facts().tools) {
    return fail(api::not_supported("tool_choice", "can't be required: this model knows no tools"));
  }
  RETURN_IF_ERROR(may_fit(content_bytes(chat.messages), model));
  auto prompt = (*format)->apply(chat_request(request));
  if (!prompt) return fail(blamed(prompt.error(), "messages"));
  return PreparedPrompt{.tokens = std::move(prompt->tokens),
                        .text = std::move(prompt->text),
                        .turn = prompt->turn,
                        .stop = std::move(prompt->stop),
                        .grammar = std::move(prompt->grammar),
                        .thinking = std::move(prompt->thinking),
                        .make_parser = std::move(prompt->make_parser),
                        .visible_tokens = std::move(prompt->visible_tokens)};
}

// What the answer to a plain prompt must look like.
api::Parsed<engine::AnswerGrammar> plain_grammar(const api::GenerateRequest& request,
                                                 const ReadyModel& model) {
  if (!request.json_schema) return engine::AnswerGrammar{.text = request.grammar};
  auto grammar = model.pipeline->text().make_schema_grammar(*request.json_schema);
  if (!grammar) return fail(blamed(grammar.error(), "json_schema"));
  return std::move(*grammar);
}

std::string prompt_text_of(const api::Prompt& prompt, const engine::Vocabulary& vocabulary) {
  std::string text;
  for (const api::PromptPart& part : prompt) {
    if (const auto* given = std::get_if<std::string>(&part)) {
      text += *given;
    } else {
      for (const TokenId id : std::get<std::vector<TokenId>>(part)) {
        text += vocabulary.piece(id, true);
      }
    }
  }
  return text;
}

// How many tokens the tokenizer puts before the client's own: one or none.
api::Parsed<std::uint32_t> count_in_front(const api::Prompt& prompt,
                                          const std::vector<TokenId>& tokens,
                                          const ReadyModel& model) {
  ASSIGN_OR_RETURN(const std::vector<TokenId> own, tokens_of(prompt, false, true, model));
  const bool has_front =
      tokens.size() > own.size() && std::equal(own.begin(), own.end(), tokens.begin() + 1);
  return has_front ? 1 : 0;
}

api::Parsed<PreparedPrompt> prepare_text(const api::GenerateRequest& request,
                                         const api::Prompt& prompt, const ReadyModel& model) {
  PreparedPrompt prepared;
  ASSIGN_OR_RETURN(prepared.tokens, tokens_of(prompt, true, true, model));
  if (request.echo && request.logprobs) {
    ASSIGN_OR_RETURN(prepared.put_in_front, count_in_front(prompt, prepared.tokens, model));
  }
  prepared.text = prompt_text_of(prompt, *model.pipeline->text().vocabulary);
  return prepared;
}

// Ids are read before it is known whose they are.
api::Parsed<void> check_prompt_ids(const std::vector<TokenId>& ids,
                                   const engine::Vocabulary& vocabulary) {
  const auto other = std::find_if(ids.begin(), ids.end(), [&](TokenId id) {
    return id < 0 || static_cast<std::uint32_t>(id) >= vocabulary.size();
  });
  if (other == ids.end()) return {};
  return fail(
      api::invalid_value("prompt", fmt::format("has the token id {}, but this model's are below {}",
                                               *other, vocabulary.size())));
}

// Room for the answer, or why there is none.
api::Parsed<void> fit(const api::GenerateRequest& request, const ReadyModel& model,
                      PreparedPrompt& prompt) {
  const std::uint32_t context = model.pipeline->limits().context_per_sequence;
  if (prompt.tokens.empty()) {
    return fail(api::invalid_value(request.chat ? "messages" : "prompt", "has no tokens"));
  }
  if (prompt.tokens.size() >= context) {
    return fail(api::context_length_exceeded(
        {.prompt_tokens = prompt.tokens.size(), .context_tokens = context}));
  }
  const auto room = context - static_cast<std::uint32_t>(prompt.tokens.size());
  prompt.answer_tokens_max = std::min(request.tokens_max.value_or(room), room);
  prompt.stop.insert(prompt.stop.end(), request.stop.begin(), request.stop.end());
  return {};
}

}  // namespace

api::Parsed<std::vector<TokenId>> tokens_of(const api::Prompt& prompt, bool add_special,
                                            bool parse_special, const ReadyModel& model) {
  std::size_t bytes = 0;
  std::vector<TokenId> tokens;
  for (const api::PromptPart& part : prompt) {
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&part)) {
      RETURN_IF_ERROR(check_prompt_ids(*ids, *model.pipeline->text().vocabulary));
      tokens.insert(tokens.end(), ids->begin(), ids->end());
      continue;
    }
    const std::string& text = std::get<std::string>(part);
    bytes += text.size();
    RETURN_IF_ERROR(may_fit(bytes, model));
    auto more = model.pipeline->text().vocabulary->tokenize(
        text, {.add_special = add_special && tokens.empty(), .parse_special = parse_special});
    if (!more) return fail(api::api_error(more.error()));
    tokens.insert(tokens.end(), more->begin(), more->end());
  }
  return tokens;
}

api::Parsed<std::vector<PreparedPrompt>> prepare_prompts(const api::GenerateRequest& request,
                                                         const ReadyModel& model) {
  std::vector<PreparedPrompt> prompts;
  if (request.chat) {
    ASSIGN_OR_RETURN(PreparedPrompt prompt, prepare_chat(request, model));
    prompts.push_back(std::move(prompt));
  }
  for (const api::Prompt& one : request.prompts) {
    ASSIGN_OR_RETURN(PreparedPrompt prompt, prepare_text(request, one, model));
    ASSIGN_OR_RETURN(prompt.grammar, plain_grammar(request, model));
    prompts.push_back(std::move(prompt));
  }
  for (PreparedPrompt& prompt : prompts) RETURN_IF_ERROR(fit(request, model, prompt));
  return prompts;
}

api::ApiError blamed(const Error& error, const char* otherwise) {
  if (error.code() != ErrorCode::kInvalidArgument) return api::api_error(error);
  const std::string_view field = engine::blamed_field(error.message());
  api::ApiError blamed{.kind = api::ErrorKind::kInvalidValue,
                       .message = error.message(),
                       .param = field.empty() ? std::string(otherwise) : std::string(field)};
  if (blamed.param == "json_schema") blamed.kind = api::ErrorKind::kInvalidJsonSchema;
  if (field.empty() && blamed.param == "messages") blamed.kind = api::ErrorKind::kTemplateRefused;
  return blamed;
}

}  // namespace salvage::gateway
