#include "gateway/page.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/ascii.h"

namespace salvage::gateway {
namespace {

constexpr std::string_view kPlainText = "text/plain; charset=utf-8";
constexpr std::string_view kForPeople =
    "salvage: an API for language models, and in a browser a page to chat with them.\n"
    "\n"
    "  base address of clients   this address with /v1 behind it\n"
    "  models                    GET /v1/models\n"
    "  a question                POST /v1/chat/completions\n"
    "  is it alive               GET /health\n";
constexpr std::string_view kForPrograms =
    R"({"name":"salvage","api":"/v1","models":"/v1/models","health":"/health",)"
    R"("page":"/index.html"})"
    "\n";
// As long as a year, which stands for ever.
constexpr std::string_view kForEver = "public, max-age=31536000, immutable";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Cuts off what stands before `separator`; the last part is the rest.
std::string_view next_part(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view part = trimmed(rest.substr(0, end));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

// "q=0", "q=0.0": by HTTP a refusal. What isn't a number refuses nothing.
bool is_refusal(std::string_view parameter) {
  if (!parameter.starts_with("q=") && !parameter.starts_with("Q=")) return false;
  double weight = 1;
  const std::string_view number = parameter.substr(2);
  (void)std::from_chars(number.data(), number.data() + number.size(), weight);
  return weight <= 0;
}

// Whether a list such as "text/html, */*;q=0.8" names `value` itself.
bool names(std::string_view list, std::string_view value) {
  while (!list.empty()) {
    std::string_view item = next_part(list, ',');
    const bool is_meant = same_ignoring_case(next_part(item, ';'), value);
    bool is_refused = false;
    while (!item.empty()) is_refused = is_refusal(next_part(item, ';')) || is_refused;
    if (is_meant) return !is_refused;
  }
  return false;
}

// Without regard to whether a proxy has called an ETag weak.
bool names_tag(std::string_view list, std::string_view tag) {
  while (!list.empty()) {
    std::string_view item = next_part(list, ',');
    if (item == "*") return true;
    if (item.starts_with("W/")) item.remove_prefix(2);
    if (item == tag) return true;
  }
  return false;
}

// Nothing from elsewhere, no code but the page's own, in nobody's frame. Text becomes HTML nowhere
// but in Svelte's own templates.
std::string content_policy(const Page& page) {
  return fmt::format(
      "default-src 'none'; script-src 'self' {}; style-src 'self'; img-src 'self' data:; "
      "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
      "require-trusted-types-for 'script'; trusted-types svelte-trusted-html",
      page.script_hashes);
}

http::HttpReply text_reply(std::string_view type, std::string_view body) {
  http::HttpReply reply{.content_type = std::string(type), .body = std::string(body)};
  reply.headers = {
      {"Cache-Control", "no-cache"}, {"Vary", "Accept"}, {"X-Content-Type-Options", "nosniff"}};
  return reply;
}

http::HttpReply file_reply(const Page& page, const PageFile& file, const PageWish& wish) {
  const bool is_gzip = !file.gzip.empty() && names(wish.accept_encoding, "gzip");
  const std::string tag = fmt::format("\"{}{}\"", file.hash, is_gzip ? "-gz" : "");
  http::HttpReply reply{.content_type = std::string(file.type)};
  reply.headers = {
      {"ETag", tag},
      {"Cache-Control", std::string(file.has_hash_in_name ? kForEver : "no-cache")},
      {"Vary", "Accept, Accept-Encoding"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Content-Security-Policy", content_policy(page)},
  };
  if (names_tag(wish.if_none_match, tag)) {
    reply.status = 304;
    return reply;
  }
  if (is_gzip) reply.headers.emplace_back("Content-Encoding", "gzip");
  reply.body = is_gzip ? file.gzip : file.plain;
  return reply;
}

const PageFile* find_file(const Page& page, std::string_view path) {
  const auto found = std::find_if(page.files.begin(), page.files.end(),
                                  [path](const PageFile& file) { return file.path == path; });
  return found == page.files.end() ? nullptr : &*found;
}

}  // namespace

std::optional<http::HttpReply> page_reply(const Page& page, const PageWish& wish) {
  const bool is_browser = names(wish.accept, "text/html");
  if (wish.path == "/" && !is_browser) {
    return names(wish.accept, "application/json") ? text_reply("application/json", kForPrograms)
                                                  : text_reply(kPlainText, kForPeople);
  }
  if (page.files.empty() && (wish.path == "/" || wish.path == "/index.html")) {
    return text_reply(kPlainText, fmt::format("This build of salvage has no page: {}\n\n{}",
                                              page.missing_because, kForPeople));
  }
  std::string_view path = wish.path;
  if (path == "/") path = "/index.html";
  if (path == "/favicon.ico") path = "/favicon.svg";  // browsers read it as well
  const PageFile* file = find_file(page, path);
  if (file == nullptr) return std::nullopt;
  return file_reply(page, *file, wish);
}

}  // namespace salvage::gateway
