#pragma once

// The chat page that is served at "/": the files of web/, made by the build and held in the program
// (tools/page.sh), and the answer to a request for one of them. Pure, any thread.
//
// A browser gets the page, by what it says it accepts; whoever asks for "/" with curl gets a few
// lines on where the API is, and a client that wants JSON gets the same as JSON. A build on a
// machine that couldn't make the page says so at "/", and why.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "http/http_service.h"

namespace salvage::gateway {

struct PageFile {
  std::string_view path;  // "/index.html"
  std::string_view type;
  std::string_view hash;          // of `plain`, for the ETag
  bool has_hash_in_name = false;  // other content has another name: it may be kept for ever
  std::string_view plain;
  std::string_view gzip;
};

struct Page {
  std::span<const PageFile> files;
  std::string_view script_hashes;    // of the scripts that stand in the HTML, as CSP has them
  std::string_view missing_because;  // why there are no files, as one sentence
};

// Defined in what the build makes.
const Page& built_in_page();

struct PageWish {
  std::string_view path;
  std::string_view accept;
  std::string_view accept_encoding;
  std::string_view if_none_match;
};

// None: there is no such file.
std::optional<http::HttpReply> page_reply(const Page& page, const PageWish& wish);

}  // namespace salvage::gateway
