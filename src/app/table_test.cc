// Goal: columns line up in every language. Method: small tables.

#include "app/table.h"

#include <gtest/gtest.h>

namespace salvage::app {
namespace {

TEST(Table, columns_are_as_wide_as_their_widest_cell) {
  Table table;
  table.column("node");
  table.column("MB", Table::Align::kRight);
  table.column("state");
  table.row({"attic", "7", "online"});
  table.row({"pi", "1234", ""});
  EXPECT_EQ(table.text(),
            "node     MB  state\n"
            "attic     7  online\n"
            "pi     1234\n");
}

TEST(Table, han_characters_take_two_columns) {
  Table table;
  table.column("层");
  table.column("x");
  table.row({"a", "y"});
  table.row({"四层", "z"});
  EXPECT_EQ(table.text(),
            "层    x\n"
            "a     y\n"
            "四层  z\n");
}

TEST(Table, without_rows_shows_its_titles) {
  Table table;
  table.column("node");
  EXPECT_EQ(table.text(), "node\n");
}

}  // namespace
}  // namespace salvage::app
