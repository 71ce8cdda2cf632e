#pragma once

// How a machine that has nothing gets the program: one line for its shell, which fetches the
// portable archive from this machine and joins. What makes that safe stands in the line itself: the
// key that the server has to prove (its SHA-256 is the node id), and the SHA-256 of the archive,
// compared before anything of it is unpacked or run. The join secret is not sent; the token in the
// path opens the download and nothing else (identity::download_token()).
// Pure functions, any thread.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace salvage::download {

// /salvage/<invite id>/<token>/salvage.tar.gz
struct DownloadPath {
  std::string invite_id;  // 16 lower-case hex digits
  std::string token;      // 32 of them
};
std::string to_string(const DownloadPath& path);
// Exactly that form and nothing else: no other file, no ".", nothing after it.
std::optional<DownloadPath> parse_download_path(std::string_view path);

struct DownloadOffer {
  NodeId server;
  std::vector<std::string> places;  // "192.168.1.20:7419", "[fd00::2]:7419", best first
  DownloadPath path;
  std::string archive_sha256;
  std::string join_code;
};
// For any shell, with curl 7.68, coreutils, tar and gzip. `invalid_argument` for an offer with a
// part that a shell could take for anything but text.
Result<std::string> download_line(const DownloadOffer& offer);

// A node id as `curl --pinnedpubkey` wants it: "sha256//<base64>".
Result<std::string> public_key_pin(const NodeId& node);

}  // namespace salvage::download
