// Goal: a wrong value is named with its whole path, the first one only; a right one is taken in
// each way that clients write it. Method: small objects.

#include "api/fields.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace salvage::api {
namespace {

TEST(Fields, right_values_are_taken_absent_ones_leave_the_default) {
  const Json json = Json::parse(
      R"({"t":"x","f":true,"r":0.5,"w":7,"d":7.0,"n":null,"l":["a","b"],"o":{},"a":[]})");
  Complaint complaint;
  const Fields fields(json, "", complaint);
  std::string text = "before";
  std::string absent = "before";
  bool flag = false;
  std::optional<float> real;
  int whole = 0;
  std::optional<std::uint32_t> dotted;
  std::vector<std::string> list;
  EXPECT_TRUE(fields.text("t", text, 1));
  EXPECT_FALSE(fields.text("n", absent, 1));
  EXPECT_FALSE(fields.text("none", absent, 1));
  EXPECT_TRUE(fields.flag("f", flag));
  EXPECT_TRUE(fields.real("r", real, {0, 1}));
  EXPECT_TRUE(fields.whole("w", whole, {0, 7}));
  EXPECT_TRUE(fields.whole("d", dotted, {}));
  EXPECT_TRUE(fields.texts("l", list, 2));
  EXPECT_NE(fields.object("o"), nullptr);
  EXPECT_NE(fields.array("a"), nullptr);
  EXPECT_EQ(text, "x");
  EXPECT_EQ(absent, "before");
  EXPECT_TRUE(flag);
  EXPECT_EQ(real, 0.5F);
  EXPECT_EQ(whole, 7);
  EXPECT_EQ(dotted, 7U);
  EXPECT_EQ(list, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(complaint.any());
  EXPECT_TRUE(complaint.result());
}

// What a reader complains about in {"x": value}.
template <typename Read>
std::string complaint_about(const char* value, Read read) {
  Json json = Json::object();
  json["x"] = Json::parse(value);
  Complaint complaint;
  read(Fields(json, "outer.", complaint));
  const auto result = complaint.result();
  if (result) return "";
  EXPECT_EQ(result.error().kind, ErrorKind::kInvalidValue);
  EXPECT_EQ(result.error().param, "outer.x");
  return result.error().message;
}

TEST(Fields, wrong_values_are_refused_by_name_and_range) {
  const auto real = [](const Fields& fields) {
    std::optional<float> value;
    EXPECT_FALSE(fields.real("x", value, {0, 1}));
    EXPECT_FALSE(value);
  };
  EXPECT_EQ(complaint_about("-1", real), "'outer.x' must be a number from 0 to 1");
  EXPECT_NE(complaint_about("1.01", real), "");
  EXPECT_NE(complaint_about("\"0.5\"", real), "");
  EXPECT_NE(complaint_about("1e300", real), "");
  const auto whole = [](const Fields& fields) {
    int value = 3;
    EXPECT_FALSE(fields.whole("x", value, {0, 9}));
    EXPECT_EQ(value, 3);
  };
  EXPECT_EQ(complaint_about("10", whole), "'outer.x' must be a whole number from 0 to 9");
  for (const char* value : {"-1", "1.5", "1e30", "18446744073709551615", "true", "[1]", "\"1\""}) {
    EXPECT_NE(complaint_about(value, whole), "") << value;
  }
  const auto text = [](const Fields& fields) {
    std::string value;
    EXPECT_FALSE(fields.text("x", value, 2));
  };
  EXPECT_EQ(complaint_about("\"abc\"", text), "'outer.x' is longer than 2 bytes");
  EXPECT_EQ(complaint_about("1", text), "'outer.x' must be a text");
  const auto texts = [](const Fields& fields) {
    std::vector<std::string> value;
    EXPECT_FALSE(fields.texts("x", value, 2));
  };
  for (const char* value : {R"(["a","b","c"])", R"([1])", R"("a")", R"({})"}) {
    EXPECT_NE(complaint_about(value, texts), "") << value;
  }
  EXPECT_NE(complaint_about("[]", [](const Fields& fields) { fields.object("x"); }), "");
  EXPECT_NE(complaint_about("{}", [](const Fields& fields) { fields.array("x"); }), "");
  EXPECT_NE(complaint_about("1",
                            [](const Fields& fields) {
                              bool value = false;
                              fields.flag("x", value);
                            }),
            "");
}

TEST(Fields, the_first_complaint_stays) {
  const Json json = Json::object();
  Complaint complaint;
  const Fields fields(json, "", complaint);
  fields.missing("a");
  fields.refuse("b", "is wrong");
  ASSERT_FALSE(complaint.result());
  EXPECT_EQ(complaint.result().error().kind, ErrorKind::kMissingValue);
  EXPECT_EQ(complaint.result().error().message, "'a' is needed");
}

TEST(Fields, what_is_not_supported_is_another_kind_of_error) {
  const Json json = Json::object();
  Complaint complaint;
  Fields(json, "o.", complaint).unsupported("x", "isn't done here");
  EXPECT_EQ(complaint.result().error().kind, ErrorKind::kNotSupported);
  EXPECT_EQ(complaint.result().error().message, "'o.x' isn't done here");
}

}  // namespace
}  // namespace salvage::api
