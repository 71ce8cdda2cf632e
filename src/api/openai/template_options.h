#pragma once

// What a client says to the chat template: its variables, whether and how long to think, whether
// the last message goes on. Pure, any thread.

#include "api/fields.h"
#include "api/generate_request.h"

namespace salvage::api {

void read_template_options(const Fields& fields, ChatWish& chat);

// "none" means not to think; other words are for the template.
void take_effort(const std::string& effort, ChatWish& chat);

// A conversation whose last message is the assistant's own is continued, unless the client said
// otherwise. Call once messages are read.
void read_continuation(const Fields& fields, ChatWish& chat);

}  // namespace salvage::api
