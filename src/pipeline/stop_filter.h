#pragma once

// Keeps stop strings out of the answer. Text that might be the beginning of one is held back until
// it is known. Pure; one a request; not thread safe.

#include <string>
#include <string_view>
#include <vector>

namespace salvage::pipeline {

class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // What may be shown now. After a stop string was found, stopped() and nothing more comes.
  std::string push(std::string_view text);
  // At the end of the answer: what was held back for nothing.
  std::string finish();
  bool stopped() const { return stopped_; }
  const std::string& found() const { return found_; }  // which stop string; empty before

 private:
  std::size_t held_back() const;

  std::vector<std::string> stops_;
  std::string pending_;
  std::string found_;
  bool stopped_ = false;
};

}  // namespace salvage::pipeline
