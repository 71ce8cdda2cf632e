#pragma once

// How much of what a request may hold. Each limit is checked before anything of that size is built.

#include <cstddef>
#include <cstdint>

#include "api/bounded_json.h"

namespace salvage::api {

// As much as the services take whose clients we serve. A prompt of a million tokens as text is 4
// MB.
inline constexpr std::size_t kBodyBytesMax = std::size_t{32} << 20;

// Schemas nest three levels of JSON a property; 2 million values hold a million token ids twice.
inline constexpr JsonLimits kBodyLimits{
    .bytes_max = kBodyBytesMax, .depth_max = 96, .values_max = std::size_t{2} << 20};

inline constexpr std::size_t kPathBytesMax = 4096;
inline constexpr std::size_t kNameBytesMax = 512;  // models, tools, ids
inline constexpr std::size_t kGrammarBytesMax = std::size_t{1} << 20;
inline constexpr std::size_t kStopsMax = 16;
inline constexpr std::size_t kStopBytesMax = 1024;
inline constexpr std::size_t kPromptsMax = 128;
inline constexpr std::uint32_t kChoicesMax = 128;
inline constexpr std::uint32_t kTopLogprobsMax = 20;           // OpenAI's own bound
inline constexpr std::uint32_t kLlamaProbabilitiesMax = 1000;  // llama.cpp has none
inline constexpr std::size_t kBiasesMax = 8192;
inline constexpr std::size_t kSamplersMax = 64;
inline constexpr std::size_t kBreakersMax = 64;
inline constexpr std::size_t kResponseFieldsMax = 64;
inline constexpr std::size_t kQuotedBytesMax = 60;  // of a client's text within our messages

}  // namespace salvage::api
