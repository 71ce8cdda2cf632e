// Goal: whoever asks for "/" gets what he can use; nothing is sent twice that the browser has, and
// nothing that a browser would run but the page's own code. Method: a page of two files, asked for
// as browsers, curl and clients do; then what the build has put in.

#include "gateway/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace salvage::gateway {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kBrowser =
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

constexpr PageFile kFiles[] = {
    {.path = "/index.html", .type = "text/html", .hash = "h1", .plain = "<p>", .gzip = "zz"},
    {.path = "/assets/page-x.js",
     .type = "text/javascript",
     .hash = "h2",
     .has_hash_in_name = true,
     .plain = "js"},
    {.path = "/favicon.svg", .type = "image/svg+xml", .hash = "h3", .plain = "svg"},
};
constexpr Page kPage{.files = kFiles, .script_hashes = "'sha256-abc'"};
constexpr Page kNoPage{.missing_because = "there was no Node.js."};

std::string header(const http::HttpReply& reply, std::string_view name) {
  for (const auto& [key, value] : reply.headers) {
    if (key == name) return value;
  }
  return "";
}

http::HttpReply reply(const Page& page, const PageWish& wish) {
  return page_reply(page, wish).value_or(http::HttpReply{.status = 404});
}

TEST(Page, a_browser_gets_the_page) {
  const http::HttpReply got = reply(kPage, {.path = "/", .accept = kBrowser});
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.content_type, "text/html");
  EXPECT_EQ(got.body, "<p>");
  EXPECT_EQ(header(got, "Cache-Control"), "no-cache");
  EXPECT_EQ(header(got, "Content-Encoding"), "");
}

TEST(Page, curl_is_told_where_the_api_is_and_a_program_gets_json) {
  EXPECT_THAT(reply(kPage, {.path = "/", .accept = "*/*"}).body, HasSubstr("/v1/models"));
  EXPECT_THAT(reply(kPage, {.path = "/"}).body, HasSubstr("/v1/chat/completions"));
  const http::HttpReply json = reply(kPage, {.path = "/", .accept = "application/json"});
  EXPECT_EQ(json.content_type, "application/json");
  EXPECT_THAT(json.body, HasSubstr(R"("api":"/v1")"));
  EXPECT_EQ(header(json, "Vary"), "Accept");
}

TEST(Page, the_page_itself_is_had_by_anyone_who_names_it) {
  EXPECT_EQ(reply(kPage, {.path = "/index.html", .accept = "*/*"}).body, "<p>");
}

TEST(Page, gzip_goes_only_to_who_takes_it_and_is_another_version) {
  const auto with = [](std::string_view encodings) {
    return reply(kPage, {.path = "/", .accept = kBrowser, .accept_encoding = encodings});
  };
  EXPECT_EQ(with("gzip, deflate, br").body, "zz");
  EXPECT_EQ(header(with("br , GZIP ; q=0.5"), "Content-Encoding"), "gzip");
  for (const char* encodings : {"", "br", "gzip;q=0", "gzip;q=0.0, br", "xgzip", ",,;"}) {
    EXPECT_EQ(with(encodings).body, "<p>") << encodings;
    EXPECT_EQ(header(with(encodings), "Content-Encoding"), "") << encodings;
  }
  EXPECT_NE(header(with("gzip"), "ETag"), header(with(""), "ETag"));
  EXPECT_THAT(header(with(""), "Vary"), HasSubstr("Accept-Encoding"));
}

TEST(Page, a_file_without_gzip_goes_plain) {
  const http::HttpReply got =
      reply(kPage, {.path = "/assets/page-x.js", .accept_encoding = "gzip"});
  EXPECT_EQ(got.body, "js");
  EXPECT_THAT(header(got, "Cache-Control"), HasSubstr("immutable"));
}

TEST(Page, what_the_browser_has_is_not_sent_again) {
  const auto with = [](std::string_view tags) {
    return reply(kPage, {.path = "/", .accept = kBrowser, .if_none_match = tags});
  };
  for (const char* tags : {"\"h1\"", "W/\"h1\"", "\"x\", \"h1\"", "*"}) {
    EXPECT_EQ(with(tags).status, 304) << tags;
    EXPECT_EQ(with(tags).body, "") << tags;
  }
  for (const char* tags : {"", "\"h1-gz\"", "h1", "\"h\""})
    EXPECT_EQ(with(tags).status, 200) << tags;
}

TEST(Page, only_its_own_code_runs_and_nobody_frames_it) {
  const http::HttpReply got = reply(kPage, {.path = "/", .accept = kBrowser});
  const std::string policy = header(got, "Content-Security-Policy");
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, HasSubstr("script-src 'self' 'sha256-abc';"));
  EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_EQ(header(got, "X-Content-Type-Options"), "nosniff");
}

TEST(Page, the_old_name_of_the_icon_counts_and_what_is_not_there_is_none) {
  EXPECT_EQ(reply(kPage, {.path = "/favicon.ico"}).content_type, "image/svg+xml");
  EXPECT_FALSE(page_reply(kPage, {.path = "/assets/other.js"}));
  EXPECT_FALSE(page_reply(kPage, {.path = "/assets/../index.html"}));
}

TEST(Page, a_build_without_the_page_says_so_and_why) {
  const http::HttpReply got = reply(kNoPage, {.path = "/", .accept = kBrowser});
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.content_type, "text/plain; charset=utf-8");
  EXPECT_THAT(got.body, HasSubstr("no page: there was no Node.js."));
  EXPECT_THAT(got.body, HasSubstr("/v1/models"));
  EXPECT_FALSE(page_reply(kNoPage, {.path = "/favicon.svg"}));
}

TEST(Page, this_build_has_the_page_or_a_reason) {
  const Page& page = built_in_page();
  if (page.files.empty()) {
    EXPECT_NE(page.missing_because, "");
    return;
  }
  const http::HttpReply got = reply(page, {.path = "/", .accept = kBrowser});
  EXPECT_THAT(got.body, HasSubstr("<div id=\"app\">"));
  EXPECT_THAT(std::string(page.script_hashes), HasSubstr("'sha256-"));
  std::size_t bytes = 0;
  for (const PageFile& file : page.files)
    bytes += file.gzip.empty() ? file.plain.size() : file.gzip.size();
  EXPECT_LT(bytes, 150'000u) << "a phone on a slow network waits for this";
}

}  // namespace
}  // namespace salvage::gateway
