#pragma once

// How a client wants tokens chosen, as the sampler takes it. Pure, any thread.

#include "api/generate_request.h"
#include "engine/text.h"

namespace salvage::gateway {

// What the client left open is the sampler's own default; a seed that it left open is drawn.
// Grammar and thinking are the prompt's (prompt_tokens.h).
api::Parsed<engine::SamplingOptions> sampling_options(const api::GenerateRequest& request,
                                                      const engine::Vocabulary& vocabulary,
                                                      std::uint32_t context_tokens);

// What a client gets that wishes nothing, in llama.cpp's words.
api::Json default_settings();

}  // namespace salvage::gateway
