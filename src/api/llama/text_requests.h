#pragma once

// llama.cpp's POST /tokenize and /detokenize: what comes in, and what goes out. Pure, any thread.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/generate_request.h"

namespace salvage::api {

struct TokenizeRequest {
  Prompt content;             // nothing is no tokens
  bool add_special = false;   // the model's begin and end tokens
  bool parse_special = true;  // control tokens written in the text count as such
  bool with_pieces = false;
};

Parsed<TokenizeRequest> parse_tokenize(std::string_view body, const ParseLimits& limits = {});
Parsed<std::vector<TokenId>> parse_detokenize(std::string_view body,
                                              const ParseLimits& limits = {});

std::string tokens_body(std::span<const TokenId> tokens);

struct TokenPiece {
  TokenId id = 0;
  std::string bytes;  // shown as numbers where they are no text
};
std::string pieces_body(std::span<const TokenPiece> pieces);

std::string content_body(std::string_view text);   // /detokenize
std::string template_body(std::string_view text);  // /apply-template

}  // namespace salvage::api
