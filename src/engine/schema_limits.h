#pragma once

// What a JSON schema or a grammar may cost before libllama's converters, which trust them, get to
// work: they recurse as deep as a schema is nested, follow references in circles, copy a schema for
// each of its types, and expand repetitions. Pure; any thread.

#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace salvage::engine {

// How deep JSON of a request may be nested: a schema's level takes two, and 40 levels are more than
// people write. Checked without recursion.
inline constexpr std::size_t kJsonDepthMax = 96;
bool json_is_deep(const nlohmann::ordered_json& json);

// How many values the schema has. `invalid_argument` says why not, with no field before it.
Result<std::size_t> check_schema(const nlohmann::ordered_json& schema);

// The same for a grammar's text (GBNF): size, nesting, and what its repetitions would expand to.
// Whether it is a grammar at all is not looked at.
Result<void> check_grammar_text(std::string_view grammar);

}  // namespace salvage::engine
