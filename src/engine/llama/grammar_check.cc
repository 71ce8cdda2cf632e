#include "engine/llama/grammar_check.h"

#include <cstddef>
#include <cstring>
#include <exception>
#include <vector>

#include <fmt/format.h>

#include <llama-grammar.h>

#include "engine/schema_limits.h"

namespace salvage::engine {
namespace {

// A millisecond or two; grammars of hundreds of tools take some ten thousand.
constexpr std::size_t kGrammarStepsMax = std::size_t{1} << 20;
// Of libllama's recursion, which takes some 200 bytes of stack a rule.
constexpr std::size_t kRuleDepthMax = 8192;
constexpr int kQuotedMax = 80;  // characters of a grammar in a message

bool ends_sequence(const llama_grammar_element& element) {
  return element.type == LLAMA_GRETYPE_END || element.type == LLAMA_GRETYPE_ALT;
}

bool may_be_empty(const llama_grammar_rule& rule) {
  bool at_start = true;
  for (const llama_grammar_element& element : rule) {
    if (ends_sequence(element) && at_start) return true;
    at_start = ends_sequence(element);
  }
  return false;
}

// The rules that may begin what a rule stands for, as often as libllama would look at them.
std::vector<std::size_t> first_rules(const llama_grammar_rules& rules,
                                     const std::vector<bool>& empty, std::size_t index) {
  std::vector<std::size_t> firsts;
  bool first = true;
  for (const llama_grammar_element& element : rules[index]) {
    if (ends_sequence(element)) {
      first = true;
    } else if (first && element.type == LLAMA_GRETYPE_RULE_REF) {
      if (element.value < rules.size()) firsts.push_back(element.value);
      first = element.value < rules.size() && empty[element.value];
    } else {
      first = false;
    }
  }
  return firsts;
}

// Walks as libllama does, within bounds. A rule that begins with itself, on whatever path, is what
// it refuses.
class RecursionWalk {
 public:
  explicit RecursionWalk(const llama_grammar_rules& rules)
      : busy_(rules.size(), false), visited_(rules.size(), false) {
    std::vector<bool> empty;
    for (const auto& rule : rules) empty.push_back(may_be_empty(rule));
    for (std::size_t i = 0; i < rules.size(); ++i) firsts_.push_back(first_rules(rules, empty, i));
  }

  Result<void> walk() {
    for (std::size_t i = 0; i < firsts_.size(); ++i) {
      if (!visited_[i]) RETURN_IF_ERROR(walk_from(i));
    }
    return {};
  }

 private:
  struct Visit {
    std::size_t rule = 0;
    std::size_t next = 0;  // of its first rules
  };

  Result<void> walk_from(std::size_t start) {
    std::vector<Visit> path{{start, 0}};
    busy_[start] = true;
    while (!path.empty()) {
      Visit& visit = path.back();
      if (visit.next == firsts_[visit.rule].size()) {
        busy_[visit.rule] = false;
        visited_[visit.rule] = true;
        path.pop_back();
        continue;
      }
      const std::size_t rule = firsts_[visit.rule][visit.next++];
      if (busy_[rule]) {
        return fail(ErrorCode::kInvalidArgument,
                    "a rule begins with itself; write the recursion at its end");
      }
      if (++steps_ > kGrammarStepsMax || path.size() > kRuleDepthMax) {
        return fail(ErrorCode::kInvalidArgument, "its rules have too many ways to begin");
      }
      busy_[rule] = true;
      path.push_back({rule, 0});
    }
    return {};
  }

  std::vector<std::vector<std::size_t>> firsts_;
  std::vector<bool> busy_;
  std::vector<bool> visited_;
  std::size_t steps_ = 0;
};

// libllama's own loop over the rules, which would print a grammar that it doesn't understand.
Result<void> read_rules(const std::string& grammar, llama_grammar_parser& parser) {
  const char* at = grammar.c_str();
  while (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n' || *at == '#') {
    at += *at == '#' ? std::strcspn(at, "\r\n") : 1;
  }
  try {
    while (*at != '\0') at = parser.parse_rule(at);
  } catch (const std::exception& thrown) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("it isn't a grammar in GBNF: {:.{}}", thrown.what(), kQuotedMax));
  }
  return {};
}

Result<void> check_names(const llama_grammar_parser& parser) {
  for (const auto& [name, rule] : parser.symbol_ids) {
    if (rule >= parser.rules.size() || parser.rules[rule].empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("it has no rule named {:.{}}", name, kQuotedMax));
    }
  }
  if (parser.symbol_ids.contains("root")) return {};
  return fail(ErrorCode::kInvalidArgument, "it has no rule named root");
}

}  // namespace

Result<void> check_grammar(const llama_vocab* vocabulary, const std::string& grammar) {
  RETURN_IF_ERROR(check_grammar_text(grammar));
  llama_grammar_parser parser(vocabulary);
  RETURN_IF_ERROR(read_rules(grammar, parser));
  RETURN_IF_ERROR(check_names(parser));
  return RecursionWalk(parser.rules).walk();
}

}  // namespace salvage::engine
