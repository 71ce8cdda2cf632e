#pragma once

// Text without a vocabulary file: 50 tokens, among them letters, JSON's own characters, the four
// bytes of an emoji one by one, and a byte that is never part of a character. The token of a text's
// byte is a hash of it. Chats are read line by line and answered as they come.
// Thread rule and failures: as engine/text.h.

#include <optional>
#include <string>

#include "engine/text.h"

namespace salvage::sim {

// Ends an answer. Every other token is a byte, and no text.
inline constexpr TokenId kFakeEndToken = 49;

// The byte that a token is.
std::string fake_piece(TokenId token);

// `script`: what every answer says, then its end; of the pieces above. Unset: what the engine's
// logits say.
engine::TextTools make_fake_text(const std::optional<std::string>& script = {});

}  // namespace salvage::sim
