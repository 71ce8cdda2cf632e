# Run as a script: turns the two word files into one header of string literals.
#   cmake -DENGLISH=... -DCHINESE=... -DOUTPUT=... -P embed_words.cmake
file(READ ${ENGLISH} english)
file(READ ${CHINESE} chinese)
file(WRITE ${OUTPUT} "#pragma once

// Made from src/app/words/*.json by the build.

#include <string_view>

namespace salvage::app {
inline constexpr std::string_view kWordsEnglish = R\"_words_(${english})_words_\";
inline constexpr std::string_view kWordsChinese = R\"_words_(${chinese})_words_\";
}  // namespace salvage::app
")
