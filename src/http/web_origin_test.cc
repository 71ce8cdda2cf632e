// Goal: strange web pages are told from this server's own page and from programs. Method: the
// headers that browsers and programs send.

#include "http/web_origin.h"

#include <string>

#include <gtest/gtest.h>

namespace salvage::http {
namespace {

HttpRequest request_with(const std::string& host, const std::string& origin = {}) {
  HttpRequest request;
  request.headers.emplace_back("Host", host);
  if (!origin.empty()) request.headers.emplace_back("Origin", origin);
  return request;
}

TEST(WebOrigin, programs_and_the_own_page_are_no_strangers) {
  EXPECT_FALSE(has_foreign_origin(request_with("127.0.0.1:8765")));
  EXPECT_FALSE(has_foreign_origin(request_with("127.0.0.1:8765", "http://127.0.0.1:8765")));
  EXPECT_FALSE(has_foreign_origin(request_with("LOCALHOST:8765", "http://localhost:8765")));
  EXPECT_FALSE(has_foreign_origin(request_with("[::1]:8765", "http://[::1]:8765")));
  for (const char* const program :
       {"app://obsidian.md", "chrome-extension://abc", "vscode-webview://1", "tauri://localhost"}) {
    EXPECT_FALSE(has_foreign_origin(request_with("127.0.0.1:8765", program))) << program;
  }
}

TEST(WebOrigin, other_pages_are) {
  for (const char* const page : {"https://example.org", "http://example.org:8765", "null",
                                 "http://127.0.0.1:3000", "http://localhost:8765", "HTTPS://x.y"}) {
    EXPECT_TRUE(has_foreign_origin(request_with("127.0.0.1:8765", page))) << page;
  }
}

TEST(WebOrigin, names_that_can_be_registered_are_not_ours) {
  for (const char* const ours :
       {"127.0.0.1:8765", "[::1]:8765", "[fe80::1]", "localhost:8765", "attic", "attic.local:8765",
        "Attic.LAN", "a.localhost", "x.home.arpa.", ""}) {
    EXPECT_FALSE(has_foreign_host(request_with(ours))) << ours;
  }
  for (const char* const strange : {"evil.example:8765", "127.0.0.1.evil.com", "local.evil.com",
                                    "xlocal.com", "[", "a.lan.com."}) {
    EXPECT_EQ(has_foreign_host(request_with(strange)), std::string(strange) != "[") << strange;
  }
}

}  // namespace
}  // namespace salvage::http
