#pragma once

// Fields of an answer that are left out where nobody knows them: a client tells 0 and "" apart from
// what isn't known, and some drop a whole object whose field is null. Pure, any thread.

#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "api/bounded_json.h"

namespace salvage::api {

template <typename Value>
void put_known(Json& json, const char* key, const std::optional<Value>& value) {
  if (value) json[key] = *value;
}

// Where 0 means that it isn't known.
template <typename Number>
void put_positive(Json& json, const char* key, Number number) {
  if (number > 0) json[key] = number;
}

inline void put_text(Json& json, const char* key, std::string_view text) {
  if (!text.empty()) json[key] = text;
}

}  // namespace salvage::api
