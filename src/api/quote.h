#pragma once

// A piece of a client's text for our messages: short, printable, in quotes. Pure, any thread.

#include <string>
#include <string_view>

namespace salvage::api {

std::string in_quotes(std::string_view text);

}  // namespace salvage::api
