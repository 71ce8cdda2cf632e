#pragma once

// Rows under titles, as wide as they need to be; Han characters take two columns. Pure.

#include <string>
#include <utility>
#include <vector>

namespace salvage::app {

class Table {
 public:
  enum class Align { kLeft, kRight };
  void column(std::string title, Align align = Align::kLeft) {
    columns_.push_back({std::move(title), align});
  }
  // As many cells as there are columns.
  void row(std::vector<std::string> cells);
  // Lines with their ends; no blanks at the end of a line.
  std::string text() const;

 private:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace salvage::app
