// Goal: people read whole texts in their language. Method: the two word tables are compared with
// each other and with every key that src/app/ names.

#include "app/words.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/result.h"
#include "base/utf8.h"

namespace salvage::app {
namespace {

std::set<std::string> keys_of(Language language) {
  const auto keys = word_keys(language);
  return {keys.begin(), keys.end()};
}

// "{} of {1:>3}" -> "0", "1:>3" : each argument with how it is written.
std::multiset<std::string> placeholders(const std::string& text) {
  static const std::regex pattern(R"(\{(\d*)(:[^}]*)?\})");
  std::multiset<std::string> found;
  std::size_t next = 0;
  for (auto match = std::sregex_iterator(text.begin(), text.end(), pattern);
       match != std::sregex_iterator(); ++match) {
    const std::string number = (*match)[1].length() != 0 ? (*match)[1].str() : std::to_string(next);
    found.insert(number + (*match)[2].str());
    ++next;
  }
  return found;
}

// Every string in src/app/*.cc, with the file that holds it.
std::set<std::string> literals() {
  static const std::regex pattern(R"re("((?:[^"\\\n]|\\.)*)")re");
  std::set<std::string> found;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(SALVAGE_SOURCE_DIR) + "/src/app")) {
    if (entry.path().extension() != ".cc") continue;
    if (entry.path().string().find("_test.cc") != std::string::npos) continue;
    std::ifstream stream(entry.path());
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    for (auto match = std::sregex_iterator(text.begin(), text.end(), pattern);
         match != std::sregex_iterator(); ++match) {
      found.insert((*match)[1].str());
    }
  }
  return found;
}

constexpr ErrorCode kAllCodes[] = {
    ErrorCode::kInvalidArgument,  ErrorCode::kNotFound,          ErrorCode::kUnauthenticated,
    ErrorCode::kPermissionDenied, ErrorCode::kResourceExhausted, ErrorCode::kUnavailable,
    ErrorCode::kDeadlineExceeded, ErrorCode::kStalePlan,         ErrorCode::kCorrupt,
    ErrorCode::kCancelled,        ErrorCode::kUnsupported,       ErrorCode::kInternal};

// Keys that the program puts together from a beginning and a name.
std::set<std::string> composed_keys() {
  std::set<std::string> keys;
  for (const ErrorCode code : kAllCodes) keys.insert("error." + std::string(error_code_name(code)));
  const std::pair<const char*, std::vector<const char*>> kinds[] = {
      {"finish.", {"stop", "length", "context_full", "cancelled"}},
      {"member.", {"online", "offline", "lost", "left", "removed"}},
      {"deployment.",
       {"unloaded", "planning", "fetching", "starting", "loading", "linking", "ready", "waiting",
        "unloading"}},
      {"stagestate.", {"fetching", "fetched", "starting", "started", "loading", "loaded"}},
      {"link.", {"wired", "wifi", "other", "virtual", "loopback"}},
      {"role.", {"coordinator", "node"}},
      {"topstate.", {"done", "failed", "cancelled"}},
  };
  for (const auto& [beginning, names] : kinds) {
    for (const char* name : names) keys.insert(std::string(beginning) + name);
  }
  return keys;
}

TEST(Words, both_languages_have_the_same_keys) {
  EXPECT_EQ(keys_of(Language::kEnglish), keys_of(Language::kChinese));
  EXPECT_GT(keys_of(Language::kEnglish).size(), 50U);
}

TEST(Words, both_languages_have_the_same_placeholders) {
  for (const std::string& key : word_keys(Language::kEnglish)) {
    if (key == "error.line") continue;  // Chinese adds the kind of error to the English message
    EXPECT_EQ(placeholders(word_text(Language::kEnglish, key)),
              placeholders(word_text(Language::kChinese, key)))
        << key;
  }
}

TEST(Words, no_text_is_empty_or_broken) {
  for (const Language language : {Language::kEnglish, Language::kChinese}) {
    for (const std::string& key : word_keys(language)) {
      const std::string text = word_text(language, key);
      EXPECT_FALSE(text.empty()) << key;
      EXPECT_TRUE(valid_utf8(text)) << key;
    }
  }
}

TEST(Words, chinese_is_chinese) {
  std::size_t same = 0;
  for (const std::string& key : word_keys(Language::kChinese)) {
    same += word_text(Language::kChinese, key) == word_text(Language::kEnglish, key) ? 1 : 0;
  }
  EXPECT_LE(same, 8U) << "texts such as TTFT may be the same, sentences may not";
}

TEST(Words, every_key_that_the_program_names_exists) {
  const auto keys = keys_of(Language::kEnglish);
  std::set<std::string> beginnings;
  for (const std::string& key : keys) beginnings.insert(key.substr(0, key.find('.')));
  static const std::regex pattern(R"(([a-z]+)\.[a-z0-9_]+)");
  for (const std::string& literal : literals()) {
    std::smatch parts;
    if (!std::regex_match(literal, parts, pattern) || !beginnings.contains(parts[1])) continue;
    EXPECT_TRUE(keys.contains(literal)) << literal;
  }
  for (const std::string& key : composed_keys()) EXPECT_TRUE(keys.contains(key)) << key;
}

TEST(Words, every_text_is_used) {
  const auto named = literals();
  const auto composed = composed_keys();
  for (const std::string& key : word_keys(Language::kEnglish)) {
    EXPECT_TRUE(named.contains(key) || composed.contains(key)) << key;
  }
}

TEST(Words, follow_the_chosen_language_and_fill_in_their_arguments) {
  set_language(Language::kChinese);
  const std::string chinese = words("session.loading", 3);
  set_language(Language::kEnglish);
  EXPECT_EQ(words("session.loading", 3), "loading stage 3");
  EXPECT_NE(chinese, "loading stage 3");
  EXPECT_THAT(chinese, ::testing::HasSubstr("3"));
  EXPECT_EQ(words("no.such_key"), "no.such_key");
}

class ChosenLanguage : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"SALVAGE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"}) ::unsetenv(name);
  }
  void TearDown() override { SetUp(); }
  static Language choose(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "salvage");
    return choose_language(static_cast<int>(arguments.size()), arguments.data());
  }
};

TEST_F(ChosenLanguage, is_english_by_default) {
  EXPECT_EQ(choose({"run", "model"}), Language::kEnglish);
}

TEST_F(ChosenLanguage, follows_the_environment_the_most_special_first) {
  ::setenv("LANG", "zh_CN.UTF-8", 1);
  EXPECT_EQ(choose({}), Language::kChinese);
  ::setenv("LC_ALL", "C", 1);
  EXPECT_EQ(choose({}), Language::kEnglish);
  ::setenv("SALVAGE_LANG", "zh", 1);
  EXPECT_EQ(choose({}), Language::kChinese);
}

TEST_F(ChosenLanguage, is_overruled_by_the_command_line_wherever_it_stands) {
  ::setenv("LANG", "zh_CN.UTF-8", 1);
  EXPECT_EQ(choose({"run", "--lang", "en"}), Language::kEnglish);
  EXPECT_EQ(choose({"--lang=en", "run"}), Language::kEnglish);
  ::setenv("LANG", "en_US.UTF-8", 1);
  EXPECT_EQ(choose({"run", "--lang=zh"}), Language::kChinese);
  EXPECT_EQ(choose({"run", "--lang"}), Language::kEnglish);  // CLI11 will complain
}

TEST(DisplayWidth, han_and_full_width_characters_take_two_columns) {
  EXPECT_EQ(display_width(""), 0U);
  EXPECT_EQ(display_width("layers"), 6U);
  EXPECT_EQ(display_width("层数"), 4U);
  EXPECT_EQ(display_width("第3级"), 5U);
  EXPECT_EQ(display_width("（，）"), 6U);
  EXPECT_EQ(display_width("café"), 4U);
  EXPECT_EQ(display_width("🙂"), 2U);
}

TEST(DisplayWidth, of_broken_text_stays_within_it) {
  EXPECT_LE(display_width("abc\xe5"), 5U);
  EXPECT_LE(display_width("\xf0\x9f"), 2U);
}

TEST(Padded, fills_to_the_width_on_either_side_and_never_cuts) {
  EXPECT_EQ(padded("ab", 4), "ab  ");
  EXPECT_EQ(padded("ab", 4, true), "  ab");
  EXPECT_EQ(padded("层", 4), "层  ");
  EXPECT_EQ(padded("层数层", 4), "层数层");
}

}  // namespace
}  // namespace salvage::app
