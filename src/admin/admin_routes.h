#pragma once

// The administration interface without its sockets: one request in, one answer out. Nouns are read
// with GET, verbs are POSTed with a JSON object; all stand under /api/v1/. An answer is one JSON
// object, or, for work that takes time, lines of JSON, one object each, that end with exactly one
// {"done": ...} or {"error": {"code", "message"}}. A failure before the first line is a JSON object
// {"error": ...} with a fitting HTTP status.
//
//   GET  status cluster models deployments invites glance requests
//   POST invite revoke-invite rename remove leave unload remove-model gc cancel
//   POST load verify run      answer with lines; before the end {"progress": ...}, run {"text":
//   ...}
//
// Thread rule: any thread; calls of the backend happen inside.

#include <functional>
#include <string>
#include <string_view>

#include "admin/admin_backend.h"
#include "base/stop.h"

namespace salvage::admin {

inline constexpr std::string_view kAdminPrefix = "/api/v1/";

struct AdminRequest {
  std::string_view method;
  std::string_view path;  // without the query
  std::string_view body;
};

// Takes one line without its end; false once nobody reads any more.
using LineSink = std::function<bool(const std::string& line)>;

struct AdminAnswer {
  int status = 200;
  std::string body;  // JSON; empty if the answer comes in lines
  // Writes the lines, blocking; ends soon after `stop`. Uses the backend, so it ends before that.
  std::function<void(const LineSink& sink, const StopToken& stop)> lines;
};

AdminAnswer answer_admin(const AdminRequest& request, AdminBackend& backend);

// {"error": {"code": ..., "message": ...}}
std::string error_line(const Error& error);

}  // namespace salvage::admin
