#include "app/table.h"

#include <algorithm>

#include "app/words.h"
#include "base/check.h"

namespace salvage::app {

void Table::row(std::vector<std::string> cells) {
  CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::string> lines(rows_.size() + 1);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = display_width(columns_[c].title);
    for (const auto& cells : rows_) width = std::max(width, display_width(cells[c]));
    const bool right = columns_[c].align == Align::kRight;
    lines[0] += padded(columns_[c].title, width, right) + "  ";
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      lines[r + 1] += padded(rows_[r][c], width, right) + "  ";
    }
  }
  std::string text;
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace salvage::app
