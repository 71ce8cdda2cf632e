#pragma once

// The messages of a chat completion, checked and brought into the one shape (ChatWish::messages):
// the roles `developer` and `function` of some clients become `system` and `tool`, calls without an
// id get one and so do the results that belong to them. Pure, any thread.

#include <string_view>

#include "api/fields.h"
#include "api/generate_request.h"

namespace salvage::api {

// Reads "messages" of `fields`; empty after a complaint. `model` is named to who sends pictures.
Json read_chat_messages(const Fields& fields, std::string_view model);

}  // namespace salvage::api
