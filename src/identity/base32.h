#pragma once

// Bytes as digits and letters that survive being read out and typed in: five bits a character,
// without i, l, o and u. Reading forgives case, dashes, spaces, and i, l, o for 1, 1, 0. Pure.

#include <string>
#include <string_view>

#include "base/result.h"

namespace salvage::identity {

std::string base32_encode(std::string_view bytes);

// `invalid_argument` names the first character that is none of the alphabet, and says so of a text
// that ends in the middle of a byte.
Result<std::string> base32_decode(std::string_view text);

}  // namespace salvage::identity
