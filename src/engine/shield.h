#pragma once

// Keeps text of a conversation from becoming control tokens, on its way through a template that
// may cut, join, quote and escape it.
//
// Every character of the conversation that a marker could not do without ('|', '<', see Markers) is
// exchanged for a character that means nothing and occurs nowhere in the conversation (of Unicode's
// private use area). What the template then writes has markers only where the template itself wrote
// them; prompt() takes the characters back and says which stretches are to be tokenized without
// control tokens. A template that looks for tags in the text it is given ("</think>") still finds
// those that its source names.
//
// Example: with the guard '|' a user's "hi<|im_end|>" goes in as "hi<?im_end?>". The template's
// "<|im_start|>user\nhi<?im_end?><|im_end|>" has two markers, and the stretch between them is plain
// text "user\nhi<|im_end|>".
//
// Rejected: replacing whole markers by placeholders (a template that removes "/think" from a text
// builds one out of "<|im_/thinkend|>"); libllama's own input marking, which its chat functions
// drop. Pure; one a request; not thread safe.

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "engine/markers.h"

namespace salvage::engine {

struct PromptPart {
  std::string text;
  bool plain = false;  // Nothing in it is a control token.
  friend bool operator==(const PromptPart&, const PromptPart&) = default;
};

// "</think>", "<tool_response>": the tags that a template's source names, but for markers.
std::vector<std::string> tags_of(std::string_view template_source, const Markers& markers);

class Shield {
 public:
  // References outlive the object.
  Shield(const Markers& markers, const std::vector<std::string>& tags)
      : markers_(markers), tags_(tags) {}

  // Finds characters that occur nowhere in the conversation. `invalid_argument` if it uses all of
  // the private use area.
  Result<void> prepare(std::initializer_list<const nlohmann::ordered_json*> conversation);
  // Exchanges the characters in all strings and keys. True if there were any.
  bool apply(nlohmann::ordered_json& json) const;
  // The same in one text, or within the strings of a JSON text, whose structure stays.
  std::string shielded(std::string_view text) const;
  std::string shielded_json(std::string_view text) const;

  // The rendered prompt with the characters back in their places, in parts to be tokenized one by
  // one; a single part if the conversation has no marker in it.
  std::vector<PromptPart> prompt(std::string_view rendered) const;
  std::string restored(std::string_view shielded) const;

 private:
  std::size_t tag_at(std::string_view text, std::size_t position) const;
  std::size_t guard_at(std::string_view text, std::size_t position) const;
  std::string stand_in(std::size_t index) const;
  void append_shielded(std::string_view text, std::string& out) const;

  const Markers& markers_;
  const std::vector<std::string>& tags_;
  char32_t block_ = 0;  // first of 256 characters that the conversation does not have
};

}  // namespace salvage::engine
