#include "app/words.h"

#include <map>

#include <nlohmann/json.hpp>

#include "app/word_files.h"
#include "base/environment.h"

namespace salvage::app {
namespace {

using Catalogue = std::map<std::string, std::string, std::less<>>;

Catalogue parse(std::string_view text) {
  Catalogue catalogue;
  const auto json = nlohmann::json::parse(text);
  for (const auto& [key, value] : json.items()) catalogue.emplace(key, value.get<std::string>());
  return catalogue;
}

const Catalogue& catalogue(Language language) {
  static const Catalogue english = parse(kWordsEnglish);
  static const Catalogue chinese = parse(kWordsChinese);
  return language == Language::kChinese ? chinese : english;
}

Language& current() {
  static Language language = Language::kEnglish;
  return language;
}

bool means_chinese(std::string_view name) {
  return name.substr(0, 2) == "zh";
}

// One code point of well-formed UTF-8 at `position`, which moves behind it.
char32_t next_code_point(std::string_view text, std::size_t& position) {
  const auto lead = static_cast<unsigned char>(text[position++]);
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
  char32_t code = more == 3   ? lead & 0x07U
                  : more == 2 ? lead & 0x0FU
                  : more == 1 ? lead & 0x1FU
                              : lead;
  for (int i = 0; i < more && position < text.size(); ++i) {
    code = (code << 6) | (static_cast<unsigned char>(text[position++]) & 0x3FU);
  }
  return code;
}

// East Asian wide and full-width ranges that our texts and machine names use.
bool is_wide(char32_t code) {
  return (code >= 0x1100 && code <= 0x115F) || (code >= 0x2E80 && code <= 0xA4CF) ||
         (code >= 0xAC00 && code <= 0xD7A3) || (code >= 0xF900 && code <= 0xFAFF) ||
         (code >= 0xFE30 && code <= 0xFE6F) || (code >= 0xFF00 && code <= 0xFF60) ||
         (code >= 0xFFE0 && code <= 0xFFE6) || (code >= 0x1F300 && code <= 0x1FAFF) ||
         (code >= 0x20000 && code <= 0x3FFFD);
}

}  // namespace

Language choose_language(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--lang" && i + 1 < argc) {
      return means_chinese(argv[i + 1]) ? Language::kChinese : Language::kEnglish;
    }
    if (argument.substr(0, 7) == "--lang=") {
      return means_chinese(argument.substr(7)) ? Language::kChinese : Language::kEnglish;
    }
  }
  for (const char* name : {"SALVAGE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"}) {
    if (const auto value = environment(name)) {
      return means_chinese(*value) ? Language::kChinese : Language::kEnglish;
    }
  }
  return Language::kEnglish;
}

void set_language(Language language) {
  current() = language;
}

const std::string& words(std::string_view key) {
  for (const Language language : {current(), Language::kEnglish}) {
    const auto found = catalogue(language).find(key);
    if (found != catalogue(language).end()) return found->second;
  }
  static thread_local std::string missing;
  missing = key;
  return missing;
}

std::vector<std::string> word_keys(Language language) {
  std::vector<std::string> keys;
  for (const auto& [key, text] : catalogue(language)) keys.push_back(key);
  return keys;
}

std::string word_text(Language language, std::string_view key) {
  const auto found = catalogue(language).find(key);
  return found == catalogue(language).end() ? std::string() : found->second;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t position = 0; position < text.size();) {
    width += is_wide(next_code_point(text, position)) ? 2 : 1;
  }
  return width;
}

std::string padded(std::string_view text, std::size_t width, bool right_aligned) {
  const std::size_t used = display_width(text);
  const std::string blanks(used < width ? width - used : 0, ' ');
  return right_aligned ? blanks + std::string(text) : std::string(text) + blanks;
}

}  // namespace salvage::app
