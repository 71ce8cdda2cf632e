#pragma once

// The commands' side of the administration interface (admin_routes.h): finds the program that runs
// with a data folder, asks it, gives its errors back as they were.
//
// Thread rule: one thread; a stop request may come from any. Failure: `unavailable` if no program
// runs with this folder; the message says which command starts one.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/stop.h"

namespace salvage::admin {

class AdminClient {
 public:
  explicit AdminClient(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Does a program answer? Never waits.
  bool running() const;

  // The answer's JSON object. `name` without the prefix: "status".
  Result<std::string> get(std::string_view name) const;
  Result<std::string> post(std::string_view name, const std::string& body) const;

  // Hands over each line before the last, as a JSON object; gives what "done" holds. `line` returns
  // false to hang up, which ends the work like `stop`.
  using Line = std::function<bool(const std::string& line)>;
  Result<std::string> follow(std::string_view name, const std::string& body, const Line& line,
                             const StopToken& stop) const;

 private:
  Error nobody() const;
  std::filesystem::path folder_;
};

}  // namespace salvage::admin
