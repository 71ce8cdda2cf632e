#pragma once

// What a worker is told over its standard input, where no other process can see it: the token of
// its plan's links and, if it has to talk to other machines, this node's identity. One line. Pure.

#include <string>
#include <string_view>

#include "base/result.h"

namespace salvage::agent {

struct WorkerSecret {
  std::string token;  // wire::kAuthTokenBytes hex digits
  // PEM; all empty for a worker that stays within this machine.
  std::string key;
  std::string certificate;
  std::string authority;

  bool has_identity() const { return !key.empty(); }
};

// Without line ends.
std::string encode_worker_secret(const WorkerSecret& secret);

// `invalid_argument` for anything else; the message never quotes the text.
Result<WorkerSecret> parse_worker_secret(std::string_view line);

}  // namespace salvage::agent
