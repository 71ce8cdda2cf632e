#include "app/load_line.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace salvage::app {
namespace {

// As a shell reads it back.
std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 ||
           std::string_view("._-=:,/+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string load_line(const admin::LoadRequest& request, const std::string& model) {
  const admin::LoadRequest usual;
  std::string line;
  const auto add = [&line](const char* option, const auto& value, const auto& otherwise) {
    if (value != otherwise) line += fmt::format(" {} {}", option, value);
  };
  if (!request.split.empty()) {
    line += fmt::format(" --split {}", fmt::join(request.split, ","));
  }
  for (const std::string& pin : request.pins) line += " --pin " + shell_word(pin);
  add("--ctx", request.context, usual.context);
  add("--parallel", request.sequences, usual.sequences);
  add("--threads", request.threads, usual.threads);
  add("--chunk", request.chunk, usual.chunk);
  add("--cache-type-k", request.cache_type_k, usual.cache_type_k);
  add("--cache-type-v", request.cache_type_v, usual.cache_type_v);
  add("--hidden", request.hidden, usual.hidden);
  if (request.exact) line += " --exact";
  if (!request.wait) line += " --no-wait";
  // A name that looks like an option comes last, behind what ends the options.
  if (model.starts_with('-')) return "salvage load" + line + " -- " + shell_word(model);
  return "salvage load " + shell_word(model) + line;
}

}  // namespace salvage::app
