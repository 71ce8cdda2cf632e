#pragma once

// Tokens in, text out that may be shown: whole UTF-8 characters, no control tokens, no stop string
// and no beginning of one. Pure; one an answer; not thread safe.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "engine/text.h"
#include "pipeline/stop_filter.h"

namespace salvage::pipeline {

class TextStream {
 public:
  // The vocabulary outlives the stream. Control tokens give no text, except `visible` ones.
  TextStream(const engine::Vocabulary& vocabulary, std::vector<std::string> stops,
             std::vector<TokenId> visible = {})
      : vocabulary_(vocabulary), filter_(std::move(stops)), visible_(std::move(visible)) {}

  std::string push(TokenId token) {
    const bool visible = std::find(visible_.begin(), visible_.end(), token) != visible_.end();
    return filter_.push(utf8_.push(vocabulary_.piece(token, visible)));
  }
  // At the end of the answer: what was held back for nothing.
  std::string finish() {
    std::string rest = filter_.push(utf8_.finish());
    return rest + filter_.finish();
  }
  bool stopped() const { return filter_.stopped(); }
  const std::string& stop_found() const { return filter_.found(); }

 private:
  const engine::Vocabulary& vocabulary_;
  Utf8Stream utf8_;
  StopFilter filter_;
  std::vector<TokenId> visible_;
};

}  // namespace salvage::pipeline
