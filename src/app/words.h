#pragma once

// What people read, in their language. Texts live in words/en.json and words/zh-CN.json under flat
// keys ("run.layers"), with {} placeholders; English is the source and the fallback. Machine-read
// output (JSON, logs, codes) is always English.
// Thread rule: choose the language once in main(); reading is safe from any thread.

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace salvage::app {

enum class Language { kEnglish, kChinese };

// `--lang en|zh` among the arguments, else SALVAGE_LANG, LC_ALL, LC_MESSAGES, LANG; else English.
Language choose_language(int argc, const char* const* argv);
void set_language(Language language);

// The text under `key`. A key that does not exist is returned itself; a test keeps that from
// happening.
const std::string& words(std::string_view key);

template <typename... Arguments>
std::string words(std::string_view key, const Arguments&... arguments) {
  return fmt::format(fmt::runtime(words(key)), arguments...);
}

// All keys of one language, sorted; for the parity test.
std::vector<std::string> word_keys(Language language);
// The text of one language, empty if missing.
std::string word_text(Language language, std::string_view key);

// Columns that a text takes on a terminal: Han and full-width characters take two.
std::size_t display_width(std::string_view text);
// `text` filled with blanks to `width` columns; on the left if `right_aligned`.
std::string padded(std::string_view text, std::size_t width, bool right_aligned = false);

}  // namespace salvage::app
