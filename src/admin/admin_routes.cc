#include "admin/admin_routes.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "admin/info_json.h"
#include "api/bounded_json.h"
#include "api/server_bodies.h"
#include "metrics/glance_json.h"

namespace salvage::admin {
namespace {

using api::Json;
using api::to_line;

AdminAnswer refuse(const Error& error) {
  return {.status = http_status(error.code()), .body = error_line(error)};
}

template <typename Value>
AdminAnswer object(const Result<Value>& value) {
  if (!value) return refuse(value.error());
  return {.body = to_line(to_json(*value))};
}

template <typename Value>
AdminAnswer list(const char* key, const Result<std::vector<Value>>& values) {
  if (!values) return refuse(values.error());
  Json items = Json::array();
  for (const Value& value : *values) items.push_back(to_json(value));
  Json json = Json::object();
  json[key] = std::move(items);
  return {.body = to_line(json)};
}

AdminAnswer nothing(const Result<void>& done) {
  if (!done) return refuse(done.error());
  return {.body = "{}"};
}

std::string line_of(const char* key, Json value) {
  Json json = Json::object();
  json[key] = std::move(value);
  return to_line(json);
}

// The last line of an answer in lines.
template <typename Outcome>
void finish(const LineSink& sink, const Result<Outcome>& outcome) {
  sink(outcome ? line_of("done", to_json(*outcome)) : error_line(outcome.error()));
}

Report report_to(const LineSink& sink) {
  return [&sink](const WorkProgress& progress) {
    return sink(line_of("progress", to_json(progress)));
  };
}

// --- one function a route ---

AdminAnswer get_status(std::string_view /*body*/, AdminBackend& backend) {
  return {.body = to_line(to_json(backend.status()))};
}
AdminAnswer get_cluster(std::string_view /*body*/, AdminBackend& backend) {
  return object(backend.cluster());
}
AdminAnswer get_models(std::string_view /*body*/, AdminBackend& backend) {
  return list("models", backend.models());
}
AdminAnswer get_deployments(std::string_view /*body*/, AdminBackend& backend) {
  return list("deployments", backend.deployments());
}
AdminAnswer get_invites(std::string_view /*body*/, AdminBackend& backend) {
  return list("invites", backend.invites());
}

AdminAnswer get_glance(std::string_view /*body*/, AdminBackend& backend) {
  return object(backend.glance());
}
AdminAnswer get_requests(std::string_view /*body*/, AdminBackend& backend) {
  const auto records = backend.requests();
  return records ? AdminAnswer{.body = to_line(metrics::requests_json(*records))}
                 : refuse(records.error());
}

AdminAnswer post_invite(std::string_view body, AdminBackend& backend) {
  const auto request = parse_invite(body);
  return request ? object(backend.invite(*request)) : refuse(request.error());
}

AdminAnswer post_rename(std::string_view body, AdminBackend& backend) {
  const auto request = parse_rename(body);
  if (!request) return refuse(request.error());
  const auto name = backend.rename(*request);
  if (!name) return refuse(name.error());
  return {.body = line_of("name", *name)};
}

AdminAnswer post_cancel(std::string_view body, AdminBackend& backend) {
  const auto request = parse_named(body, "id");
  if (!request) return refuse(request.error());
  const auto id = backend.cancel(request->value);
  return id ? AdminAnswer{.body = api::cancelled_body(*id)} : refuse(id.error());
}

AdminAnswer post_leave(std::string_view body, AdminBackend& backend) {
  const auto request = parse_leave(body);
  return request ? nothing(backend.leave(*request)) : refuse(request.error());
}

AdminAnswer post_gc(std::string_view body, AdminBackend& backend) {
  const auto request = parse_gc(body);
  return request ? object(backend.gc(*request)) : refuse(request.error());
}

template <Result<void> (AdminBackend::*call)(const std::string&)>
AdminAnswer named(std::string_view body, std::string_view key, AdminBackend& backend) {
  const auto request = parse_named(body, key);
  return request ? nothing((backend.*call)(request->value)) : refuse(request.error());
}
AdminAnswer post_revoke_invite(std::string_view body, AdminBackend& backend) {
  return named<&AdminBackend::revoke_invite>(body, "id", backend);
}
AdminAnswer post_remove(std::string_view body, AdminBackend& backend) {
  return named<&AdminBackend::remove>(body, "node", backend);
}
AdminAnswer post_unload(std::string_view body, AdminBackend& backend) {
  return named<&AdminBackend::unload>(body, "model", backend);
}
AdminAnswer post_remove_model(std::string_view body, AdminBackend& backend) {
  return named<&AdminBackend::remove_model>(body, "model", backend);
}

AdminAnswer post_load(std::string_view body, AdminBackend& backend) {
  auto request = parse_load(body);
  if (!request) return refuse(request.error());
  return {
      .lines = [wish = std::move(*request), &backend](const LineSink& sink, const StopToken& stop) {
        finish(sink, backend.load(wish, report_to(sink), stop));
      }};
}

AdminAnswer post_verify(std::string_view body, AdminBackend& backend) {
  auto request = parse_named(body, "model");
  if (!request) return refuse(request.error());
  return {.lines = [model = std::move(request->value), &backend](const LineSink& sink,
                                                                 const StopToken& stop) {
    finish(sink, backend.verify(model, report_to(sink), stop));
  }};
}

AdminAnswer post_run(std::string_view body, AdminBackend& backend) {
  auto request = parse_run(body);
  if (!request) return refuse(request.error());
  return {
      .lines = [wish = std::move(*request), &backend](const LineSink& sink, const StopToken& stop) {
        const auto show = [&sink](std::string_view text) { return sink(line_of("text", text)); };
        finish(sink, backend.run(wish, show, stop));
      }};
}

struct Route {
  std::string_view method;
  std::string_view name;
  AdminAnswer (*call)(std::string_view body, AdminBackend& backend);
};
constexpr std::array kRoutes{
    Route{"GET", "status", get_status},
    Route{"GET", "cluster", get_cluster},
    Route{"GET", "models", get_models},
    Route{"GET", "deployments", get_deployments},
    Route{"GET", "invites", get_invites},
    Route{"GET", "glance", get_glance},
    Route{"GET", "requests", get_requests},
    Route{"POST", "invite", post_invite},
    Route{"POST", "revoke-invite", post_revoke_invite},
    Route{"POST", "rename", post_rename},
    Route{"POST", "remove", post_remove},
    Route{"POST", "leave", post_leave},
    Route{"POST", "load", post_load},
    Route{"POST", "unload", post_unload},
    Route{"POST", "remove-model", post_remove_model},
    Route{"POST", "verify", post_verify},
    Route{"POST", "gc", post_gc},
    Route{"POST", "run", post_run},
    Route{"POST", "cancel", post_cancel},
};

}  // namespace

std::string error_line(const Error& error) {
  return line_of("error", to_json(error));
}

AdminAnswer answer_admin(const AdminRequest& request, AdminBackend& backend) {
  if (request.path.substr(0, kAdminPrefix.size()) != kAdminPrefix) {
    return refuse(Error(ErrorCode::kNotFound, "there is nothing under this path"));
  }
  const std::string_view name = request.path.substr(kAdminPrefix.size());
  const auto found =
      std::find_if(kRoutes.begin(), kRoutes.end(), [&](const Route& r) { return r.name == name; });
  if (found == kRoutes.end()) {
    return refuse(Error(ErrorCode::kNotFound, "this version knows no such request"));
  }
  if (found->method != request.method) {
    AdminAnswer answer =
        refuse(Error(ErrorCode::kInvalidArgument, fmt::format("{} takes {}", name, found->method)));
    answer.status = 405;
    return answer;
  }
  return found->call(request.body, backend);
}

}  // namespace salvage::admin
