#include "engine/llama/llama_chat_format.h"

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <chat.h>
#include <fmt/format.h>
#include <log.h>

#include "engine/llama/chat_render.h"
#include "engine/llama/grammar_check.h"
#include "engine/llama/llama_chat_parser.h"
#include "engine/shield.h"

namespace salvage::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSilent = -1;  // below every level of common/log.h

std::string_view without_space(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

bool continues(const ChatRequest& request) {
  return request.continuation != ChatContinuation::kNone;
}

class LlamaChatFormat final : public ChatFormat {
 public:
  LlamaChatFormat(std::shared_ptr<const LlamaVocabulary> vocabulary,
                  common_chat_templates_ptr templates, ChatFormatFacts facts)
      : vocabulary_(std::move(vocabulary)),
        templates_(std::move(templates)),
        facts_(std::move(facts)),
        tags_(tags_of(facts_.template_source, vocabulary_->markers())) {}

  const ChatFormatFacts& facts() const override { return facts_; }
  Result<ChatPrompt> apply(const ChatRequest& request) const override;

 private:
  // A request as it goes through the template, and what of it libllama-common makes.
  struct Rendered {
    common_chat_params prompt;  // of shielded messages: only its prompt counts
    common_chat_params answer;  // everything but its prompt counts
    std::vector<PromptPart> parts;
    std::string text;
  };
  RenderSettings settings_for(const ChatRequest& request, const ChatInput& input) const;
  Result<Rendered> render(const ChatRequest& request, ChatInput& input) const;
  Result<AnswerGrammar> grammar_for(const ChatRequest& request, const ChatInput& input,
                                    const common_chat_params& answer) const;
  Result<Thinking> thinking_for(const ChatRequest& request, const common_chat_params& answer) const;
  Result<std::vector<TokenId>> begun(const common_chat_params& answer) const;
  Result<void> add_triggers(const common_chat_params& answer, AnswerGrammar& grammar) const;
  std::uint32_t turn_of(const std::vector<TokenId>& prompt, const std::string& opening) const;
  Result<std::vector<TokenId>> preserved(const common_chat_params& answer) const;

  std::shared_ptr<const LlamaVocabulary> vocabulary_;  // its model made templates_
  common_chat_templates_ptr templates_;
  ChatFormatFacts facts_;
  std::vector<std::string> tags_;
};

RenderSettings LlamaChatFormat::settings_for(const ChatRequest& request,
                                             const ChatInput& input) const {
  RenderSettings settings{
      .templates = templates_.get(),
      .enable_thinking = facts_.thinking,
      .parallel_tool_calls = request.parallel_tool_calls.value_or(facts_.parallel_tool_calls)};
  const auto thinking = input.template_arguments.find("enable_thinking");
  if (thinking != input.template_arguments.end() && thinking->is_boolean()) {
    settings.enable_thinking = thinking->get<bool>();
  }
  if (request.enable_thinking) settings.enable_thinking = *request.enable_thinking;
  if (request.reasoning_effort == "none") settings.enable_thinking = false;
  return settings;
}

// The prompt comes from a shielded request. Its grammar and parser do, too, unless they would have
// the shield's characters in them.
Result<LlamaChatFormat::Rendered> LlamaChatFormat::render(const ChatRequest& request,
                                                          ChatInput& input) const {
  const RenderSettings settings = settings_for(request, input);
  Shield shield(vocabulary_->markers(), tags_);
  RETURN_IF_ERROR(shield.prepare(
      {&input.messages, &input.tools, &input.json_schema, &input.template_arguments}));
  ChatInput guarded = input;
  const bool in_messages = shield.apply(guarded.messages);
  bool elsewhere = shield.apply(guarded.tools);
  elsewhere = shield.apply(guarded.json_schema) || elsewhere;
  (void)shield.apply(guarded.template_arguments);

  auto prompt = render_chat(settings, request, guarded);
  if (!prompt) {
    guarded.messages = in_turns(guarded.messages);
    auto again = render_chat(settings, request, guarded);
    if (!again) {
      // Why, in the request's own characters.
      const auto plain = render_chat(settings, request, input);
      return fail(plain ? prompt.error() : plain.error());
    }
    prompt = std::move(again);
    input.messages = in_turns(input.messages);
  }
  Rendered rendered{.prompt = std::move(*prompt), .answer = {}, .parts = {}, .text = {}};
  rendered.parts = shield.prompt(rendered.prompt.prompt);
  rendered.text = shield.restored(rendered.prompt.prompt);
  if (elsewhere || (in_messages && continues(request))) {
    ASSIGN_OR_RETURN(rendered.answer, render_chat(settings, request, input));
  } else {
    rendered.answer = rendered.prompt;
  }
  return rendered;
}

// What the prompt ends with that belongs to the answer's form. Some tokenizers put a space before
// the first token of a text; it is not the template's.
Result<std::vector<TokenId>> LlamaChatFormat::begun(const common_chat_params& answer) const {
  const std::string& text = answer.generation_prompt;
  if (text.empty()) return std::vector<TokenId>();
  ASSIGN_OR_RETURN(auto tokens, vocabulary_->tokenize_control(text));
  const auto is_space = [](const std::string& piece) {
    return !piece.empty() && (piece[0] == ' ' || (piece[0] >= '\t' && piece[0] <= '\r'));
  };
  if (!tokens.empty() && !is_space(text) && is_space(vocabulary_->piece(tokens.front(), true))) {
    tokens.erase(tokens.begin());
  }
  return tokens;
}

// Where the token begins in which the template's opening of the answer does, if the prompt ends
// with it. By text, for a tokenizer may take an opening alone for other tokens, and white space at
// its ends for none.
std::uint32_t LlamaChatFormat::turn_of(const std::vector<TokenId>& prompt,
                                       const std::string& opening) const {
  const std::string_view wanted = without_space(opening);
  std::string end;
  for (std::size_t begin = prompt.size(); begin > 0 && !wanted.empty();) {
    end.insert(0, vocabulary_->piece(prompt[--begin], true));
    const std::string_view found = without_space(end);
    if (found.size() < wanted.size()) continue;
    return found.ends_with(wanted) ? static_cast<std::uint32_t>(begin) : 0;
  }
  return 0;
}

Result<std::vector<TokenId>> LlamaChatFormat::preserved(const common_chat_params& answer) const {
  std::vector<TokenId> preserved;
  for (const std::string& text : answer.preserved_tokens) {
    ASSIGN_OR_RETURN(const auto tokens, vocabulary_->tokenize_control(text));
    if (tokens.size() == 1) preserved.push_back(tokens.front());
  }
  return preserved;
}

Result<void> LlamaChatFormat::add_triggers(const common_chat_params& answer,
                                           AnswerGrammar& grammar) const {
  ASSIGN_OR_RETURN(const std::vector<TokenId> kept, preserved(answer));
  for (const common_grammar_trigger& trigger : answer.grammar_triggers) {
    if (trigger.type == COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN) {
      grammar.trigger_tokens.push_back(trigger.token);
    } else if (trigger.type == COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN) {
      grammar.trigger_patterns.push_back(trigger.value);
    } else if (trigger.type == COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL) {
      const bool from = trigger.value.starts_with('^');
      const bool to = trigger.value.ends_with('$');
      grammar.trigger_patterns.push_back((from ? "" : "^") + trigger.value + (to ? "" : "$"));
    } else {
      ASSIGN_OR_RETURN(const auto tokens, vocabulary_->tokenize_control(trigger.value));
      const bool one =
          tokens.size() == 1 && std::find(kept.begin(), kept.end(), tokens.front()) != kept.end();
      if (one) grammar.trigger_tokens.push_back(tokens.front());
      if (!one) grammar.trigger_patterns.push_back(regex_escape(trigger.value));
    }
  }
  return {};
}

Result<AnswerGrammar> LlamaChatFormat::grammar_for(const ChatRequest& request,
                                                   const ChatInput& input,
                                                   const common_chat_params& answer) const {
  AnswerGrammar grammar;
  const bool schema = !input.json_schema.is_null();
  if (answer.grammar.empty()) {
    // A user's grammar is about the answer alone, and so is a schema that the template's parser
    // has no place for.
    if (schema) return make_llama_schema_grammar(*vocabulary_, input.json_schema);
    grammar.text = request.grammar;
    return grammar;
  }
  const auto checked = check_grammar(vocabulary_->handle(), answer.grammar);
  if (!checked) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {}", schema ? "json_schema" : "tools", checked.error().message()));
  }
  grammar.text = answer.grammar;
  grammar.lazy = answer.grammar_lazy;
  if (grammar.lazy) {
    RETURN_IF_ERROR(add_triggers(answer, grammar));
  } else {
    ASSIGN_OR_RETURN(grammar.begun, begun(answer));
  }
  return grammar;
}

Result<Thinking> LlamaChatFormat::thinking_for(const ChatRequest& request,
                                               const common_chat_params& answer) const {
  Thinking thinking;
  if (answer.thinking_start_tag.empty() || answer.thinking_end_tags.empty()) return thinking;
  ASSIGN_OR_RETURN(thinking.start, vocabulary_->tokenize_control(answer.thinking_start_tag));
  for (const std::string& tag : answer.thinking_end_tags) {
    if (tag.empty()) continue;
    ASSIGN_OR_RETURN(auto tokens, vocabulary_->tokenize_control(tag));
    thinking.ends.push_back(std::move(tokens));
  }
  if (!request.thinking_budget_message.empty()) {
    ASSIGN_OR_RETURN(thinking.forced, vocabulary_->tokenize(request.thinking_budget_message,
                                                            {.add_special = false}));
  }
  if (!thinking.ends.empty()) {
    const auto& end = thinking.ends.front();
    thinking.forced.insert(thinking.forced.end(), end.begin(), end.end());
  }
  ASSIGN_OR_RETURN(thinking.begun, begun(answer));
  thinking.budget = request.thinking_budget;
  return thinking;
}

Result<ChatPrompt> LlamaChatFormat::apply(const ChatRequest& request) const {
  ASSIGN_OR_RETURN(ChatInput input, read_chat_request(request));
  ASSIGN_OR_RETURN(Rendered rendered, render(request, input));
  const common_chat_params& answer = rendered.answer;
  ChatPrompt prompt;
  prompt.text = std::move(rendered.text);
  ASSIGN_OR_RETURN(prompt.tokens, vocabulary_->tokenize_prompt(rendered.parts));
  prompt.turn = turn_of(prompt.tokens, answer.generation_prompt);
  prompt.stop = answer.additional_stops;
  ASSIGN_OR_RETURN(prompt.visible_tokens, preserved(answer));
  ASSIGN_OR_RETURN(prompt.grammar, grammar_for(request, input, answer));
  ASSIGN_OR_RETURN(prompt.thinking, thinking_for(request, answer));

  const auto spec = std::make_shared<ChatParserSpec>();
  spec->params = common_chat_parser_params(answer);
  spec->params.reasoning_format =
      request.split_reasoning ? COMMON_REASONING_FORMAT_DEEPSEEK : COMMON_REASONING_FORMAT_NONE;
  spec->params.parse_tool_calls = !input.tools.empty() && input.tool_choice != ToolChoice::kNone;
  spec->params.is_continuation = continues(request);
  spec->structured = spec->params.parse_tool_calls || !input.json_schema.is_null();
  spec->thinking_ends = answer.thinking_end_tags;
  try {
    if (!answer.parser.empty()) spec->params.parser.load(answer.parser);
  } catch (const std::exception& thrown) {
    return fail(ErrorCode::kInternal,
                fmt::format("the chat template's parser can't be read: {}", thrown.what()));
  }
  prompt.make_parser = [spec = std::shared_ptr<const ChatParserSpec>(spec)] {
    return make_llama_chat_parser(spec);
  };
  return prompt;
}

bool can_think(const common_chat_templates* templates) {
  try {
    return common_chat_templates_support_enable_thinking(templates);
  } catch (const std::exception&) {
    return false;  // It refuses the example that this is tried with.
  }
}

ChatFormatFacts facts_of(const common_chat_templates* templates) {
  const auto capabilities = common_chat_templates_get_caps(templates);
  const auto can = [&](const char* what) {
    const auto found = capabilities.find(what);
    return found != capabilities.end() && found->second;
  };
  return {.template_source = common_chat_templates_source(templates),
          .tools = can("supports_tools"),
          .parallel_tool_calls = can("supports_parallel_tool_calls"),
          .system_role = can("supports_system_role"),
          .thinking = can_think(templates)};
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
    ChatFormatFacts facts = facts_of(templates.get());
    return std::unique_ptr<ChatFormat>(
        new LlamaChatFormat(std::move(vocabulary), std::move(templates), std::move(facts)));
  } catch (const std::exception& thrown) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the model's chat template can't be parsed: {}", thrown.what()));
  }
}

Result<AnswerGrammar> make_llama_schema_grammar(const LlamaVocabulary& vocabulary,
                                                const Json& schema) {
  auto text = grammar_of_schema(vocabulary.handle(), schema);
  if (!text) {
    return fail(ErrorCode::kInvalidArgument, "json_schema: " + text.error().message());
  }
  return AnswerGrammar{.text = std::move(*text)};
}

}  // namespace salvage::engine
