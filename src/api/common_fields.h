#pragma once

// The fields that all dialects share, llama.cpp's own among them: a client of any service may send
// them. Complaints go to `fields`.

#include <initializer_list>
#include <string>
#include <vector>

#include "api/fields.h"
#include "api/generate_request.h"

namespace salvage::api {

// Model, length, choices, sampler, grammar, streaming, cache. Not: the prompt, stop texts,
// logprobs.
void read_common_fields(const Fields& fields, const ParseLimits& limits, GenerateRequest& request);

// "stop" of OpenAI and llama.cpp, "stop_sequences" of Anthropic: a text or a list.
void read_stop(const Fields& fields, const char* key, std::vector<std::string>& stop);

// Whom the client answers, for the usage log: never a reason to refuse a request.
void read_user(const Fields& fields, const char* key, GenerateRequest& request);

// A grammar of the client's own stands alone.
void check_one_constraint(const Fields& fields, const GenerateRequest& request);

// The first of `keys` that is given says how many tokens at most; -1 is no bound.
void read_tokens_max(const Fields& fields, std::initializer_list<const char*> keys,
                     GenerateRequest& request);

// Whether a JSON value can be a schema at all: an object, or true. Else a complaint about `param`.
bool is_schema(const Json& json, const std::string& param, Complaint& complaint);

}  // namespace salvage::api
