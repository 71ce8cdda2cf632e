#pragma once

// From what a client wants answered to the tokens that the pipeline reads: template, tokenizer,
// what the answer must look like, and the check that prompt and answer fit the context. Pure but
// for the time of template and tokenizer; any thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/generate_request.h"
#include "base/ids.h"
#include "engine/chat.h"
#include "gateway/serving_backend.h"

namespace salvage::gateway {

struct PreparedPrompt {
  std::vector<TokenId> tokens;
  std::string text;  // what was tokenised, and what was given as tokens
  // Tokens that the tokenizer added before the client's own; told where the prompt is repeated with
  // its logprobs, which alone needs it.
  std::uint32_t put_in_front = 0;
  std::uint32_t turn = 0;         // tokens before the answer's turn; 0: not known
  std::vector<std::string> stop;  // the client's, and the template's own
  std::uint32_t answer_tokens_max = 0;
  engine::AnswerGrammar grammar;
  engine::Thinking thinking;
  // Of a chat: what reads the answer, and the control tokens that it must see.
  std::function<std::unique_ptr<engine::ChatParser>()> make_parser;
  std::vector<TokenId> visible_tokens;
};

// One for each prompt of the request. `context_length_exceeded` says both numbers.
api::Parsed<std::vector<PreparedPrompt>> prepare_prompts(const api::GenerateRequest& request,
                                                         const ReadyModel& model);

// The tokens of texts and ids, one after another.
api::Parsed<std::vector<TokenId>> tokens_of(const api::Prompt& prompt, bool add_special,
                                            bool parse_special, const ReadyModel& model);

// An error of template, schema or sampler, with the field that it blames.
api::ApiError blamed(const Error& error, const char* otherwise);

}  // namespace salvage::gateway
