#include "admin/admin_request.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/bounded_json.h"

namespace salvage::admin {
namespace {

using api::Json;
using api::parse_bounded_json;
using api::to_line;

constexpr std::size_t kNameBytesMax = 512;
constexpr std::size_t kPromptBytesMax = std::size_t{64} << 20;

template <typename Number>
struct Range {
  Number min = std::numeric_limits<Number>::min();
  Number max = std::numeric_limits<Number>::max();
};

// Reads the keys of one object, each once; finish() refuses what was not asked for. The first
// failure is kept, so that a reader can be written as a list of fields.
class Fields {
 public:
  Fields(std::string_view body, std::size_t bytes_max) {
    auto parsed = parse_bounded_json(body, {.bytes_max = bytes_max, .depth_max = kAdminDepthMax});
    if (!parsed) {
      problem_ = std::move(parsed).error().message();
    } else if (!parsed->is_object()) {
      problem_ = "the body must be one JSON object";
    } else {
      object_ = std::move(*parsed);
    }
  }

  void text(const char* key, std::string& value, std::size_t bytes_max = kNameBytesMax) {
    const Json* found = find(key);
    if (found == nullptr) return;
    if (!found->is_string()) return refuse(key, "must be a text");
    const auto& text = found->get_ref<const std::string&>();
    if (text.size() > bytes_max) {
      return refuse(key, fmt::format("is longer than {} bytes", bytes_max));
    }
    value = text;
  }

  void flag(const char* key, bool& value) {
    const Json* found = find(key);
    if (found == nullptr) return;
    if (!found->is_boolean()) return refuse(key, "must be true or false");
    value = found->get<bool>();
  }

  // Whole numbers.
  template <typename Number>
  void number(const char* key, Number& value, Range<Number> range = {}) {
    const Json* found = find(key);
    if (found == nullptr) return;
    if (!whole(*found, value, range)) {
      refuse(key, fmt::format("must be a whole number from {} to {}", range.min, range.max));
    }
  }

  void real(const char* key, float& value, Range<double> range) {
    const Json* found = find(key);
    if (found == nullptr) return;
    const double number = found->is_number() ? found->get<double>() : std::nan("");
    if (!(number >= range.min && number <= range.max)) {
      return refuse(key, fmt::format("must be a number from {} to {}", range.min, range.max));
    }
    value = static_cast<float>(number);
  }

  void numbers(const char* key, std::vector<std::uint32_t>& values) {
    each(key, "whole numbers", [&](const Json& item) {
      std::uint32_t value = 0;
      if (!whole(item, value, Range<std::uint32_t>{})) return false;
      values.push_back(value);
      return true;
    });
  }

  void texts(const char* key, std::vector<std::string>& values) {
    each(key, "texts", [&](const Json& item) {
      if (!item.is_string() || item.get_ref<const std::string&>().size() > kNameBytesMax)
        return false;
      values.push_back(item.get<std::string>());
      return true;
    });
  }

  void require(const char* key, bool given) {
    if (!given) refuse(key, "is missing");
  }
  void refuse(const char* key, const std::string& why) {
    if (problem_.empty()) problem_ = fmt::format("\"{}\" {}", key, why);
  }

  Result<void> finish() const {
    if (!problem_.empty()) return fail(ErrorCode::kInvalidArgument, problem_);
    for (const auto& [key, value] : object_.items()) {
      if (!seen_.contains(key)) {
        return fail(ErrorCode::kInvalidArgument, fmt::format("unknown key \"{}\"", printable(key)));
      }
    }
    return {};
  }

 private:
  const Json* find(const char* key) {
    seen_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  template <typename Number>
  static bool whole(const Json& json, Number& value, Range<Number> range) {
    if (json.is_number_unsigned()) {
      const auto number = json.get<std::uint64_t>();
      if (!std::in_range<Number>(number)) return false;
      value = static_cast<Number>(number);
    } else if (json.is_number_integer()) {
      const auto number = json.get<std::int64_t>();
      if (!std::in_range<Number>(number)) return false;
      value = static_cast<Number>(number);
    } else {
      return false;
    }
    return value >= range.min && value <= range.max;
  }

  template <typename Take>
  void each(const char* key, const char* what, Take take) {
    const Json* found = find(key);
    if (found == nullptr) return;
    const bool fits = found->is_array() && found->size() <= kNodesMax &&
                      std::all_of(found->begin(), found->end(), take);
    if (!fits) refuse(key, fmt::format("must be a list of at most {} {}", kNodesMax, what));
  }

  // What a message quotes of a peer's text.
  static std::string printable(std::string_view text) {
    std::string shown(text.substr(0, 40));
    std::replace_if(
        shown.begin(), shown.end(), [](char c) { return c < 0x20 || c == 0x7f; }, '?');
    return shown;
  }

  Json object_ = Json::object();
  std::set<std::string, std::less<>> seen_;
  std::string problem_;
};

void read_sampling(Fields& fields, engine::SamplingOptions& sampling) {
  fields.number("seed", sampling.seed);
  fields.real("temperature", sampling.temperature, {0, 100});
  fields.number("top_k", sampling.top_k, {0, 1 << 20});
  fields.real("top_p", sampling.top_p, {0, 1});
  fields.real("min_p", sampling.min_p, {0, 1});
  fields.real("repeat_penalty", sampling.repeat_penalty, {0.01, 10});
}

}  // namespace

Result<InviteRequest> parse_invite(std::string_view body) {
  InviteRequest request;
  Fields fields(body, kSmallBodyBytesMax);
  fields.number("uses", request.uses, {1, cluster::kInviteUsesMax});
  fields.number("ttl_seconds", request.ttl_seconds, {1, cluster::kInviteTtlMsMax / 1000});
  fields.flag("ephemeral", request.ephemeral);
  fields.text("label", request.label, cluster::kLabelBytesMax);
  RETURN_IF_ERROR(fields.finish());
  return request;
}

Result<RenameRequest> parse_rename(std::string_view body) {
  RenameRequest request;
  Fields fields(body, kSmallBodyBytesMax);
  fields.text("node", request.node);
  fields.text("name", request.name);
  fields.require("name", !request.name.empty());
  RETURN_IF_ERROR(fields.finish());
  return request;
}

Result<LeaveRequest> parse_leave(std::string_view body) {
  LeaveRequest request;
  Fields fields(body, kSmallBodyBytesMax);
  fields.flag("forget", request.forget);
  RETURN_IF_ERROR(fields.finish());
  return request;
}

Result<LoadRequest> parse_load(std::string_view body) {
  LoadRequest request;
  Fields fields(body, kSmallBodyBytesMax);
  fields.text("model", request.model);
  fields.text("path", request.path, kPathBytesMax);
  fields.numbers("split", request.split);
  fields.texts("pins", request.pins);
  fields.number("context", request.context, {0, 1U << 24});
  fields.number("sequences", request.sequences, {0, 256});
  fields.number("threads", request.threads, {0, 512});
  fields.number("chunk", request.chunk, {0, 4096});
  fields.text("cache_type_k", request.cache_type_k);
  fields.text("cache_type_v", request.cache_type_v);
  fields.text("hidden", request.hidden);
  fields.flag("exact", request.exact);
  fields.flag("wait", request.wait);
  fields.flag("if_needed", request.if_needed);
  for (const auto& [key, type] : {std::pair("cache_type_k", &request.cache_type_k),
                                  std::pair("cache_type_v", &request.cache_type_v)}) {
    if (*type != "q8_0" && *type != "f16") fields.refuse(key, "must be q8_0 or f16");
  }
  if (request.hidden != "f32" && request.hidden != "f16" && request.hidden != "q8") {
    fields.refuse("hidden", "must be f32, f16 or q8");
  }
  fields.require("model", !request.model.empty() || !request.path.empty());
  if (!request.path.empty() && request.path.front() != '/') {
    fields.refuse("path", "must be absolute");
  }
  RETURN_IF_ERROR(fields.finish());
  return request;
}

Result<GcRequest> parse_gc(std::string_view body) {
  GcRequest request;
  Fields fields(body, kSmallBodyBytesMax);
  fields.flag("dry_run", request.dry_run);
  fields.number("bytes_max", request.bytes_max);
  RETURN_IF_ERROR(fields.finish());
  return request;
}

Result<coordinator::RunWish> parse_run(std::string_view body) {
  coordinator::RunWish wish;
  Fields fields(body, kAdminBodyBytesMax);
  fields.text("model", wish.model);
  fields.text("prompt", wish.prompt, kPromptBytesMax);
  fields.flag("chat", wish.chat);
  fields.number("tokens_max", wish.tokens_max, {1, 1U << 24});
  fields.flag("hash_logits", wish.hash_logits);
  read_sampling(fields, wish.sampling);
  fields.require("prompt", !wish.prompt.empty());
  RETURN_IF_ERROR(fields.finish());
  return wish;
}

Result<NamedRequest> parse_named(std::string_view body, std::string_view key) {
  NamedRequest request;
  const std::string name(key);
  Fields fields(body, kSmallBodyBytesMax);
  fields.text(name.c_str(), request.value, key == "model" ? kPathBytesMax : kNameBytesMax);
  fields.require(name.c_str(), !request.value.empty());
  RETURN_IF_ERROR(fields.finish());
  return request;
}

std::string encode(const InviteRequest& request) {
  return to_line({{"uses", request.uses},
                  {"ttl_seconds", request.ttl_seconds},
                  {"ephemeral", request.ephemeral},
                  {"label", request.label}});
}

std::string encode(const RenameRequest& request) {
  return to_line({{"node", request.node}, {"name", request.name}});
}

std::string encode(const LeaveRequest& request) {
  Json json = Json::object();
  json["forget"] = request.forget;
  return to_line(json);
}

bool LoadRequest::places() const {
  LoadRequest plain;
  plain.model = model;
  plain.path = path;
  plain.wait = wait;
  plain.if_needed = if_needed;
  return !(*this == plain);
}

std::string encode(const LoadRequest& request) {
  return to_line({{"model", request.model},
                  {"path", request.path},
                  {"split", request.split},
                  {"pins", request.pins},
                  {"context", request.context},
                  {"sequences", request.sequences},
                  {"threads", request.threads},
                  {"chunk", request.chunk},
                  {"cache_type_k", request.cache_type_k},
                  {"cache_type_v", request.cache_type_v},
                  {"hidden", request.hidden},
                  {"exact", request.exact},
                  {"wait", request.wait},
                  {"if_needed", request.if_needed}});
}

std::string encode(const GcRequest& request) {
  return to_line({{"dry_run", request.dry_run}, {"bytes_max", request.bytes_max}});
}

std::string encode(const coordinator::RunWish& request) {
  const engine::SamplingOptions& sampling = request.sampling;
  return to_line({{"model", request.model},
                  {"prompt", request.prompt},
                  {"chat", request.chat},
                  {"tokens_max", request.tokens_max},
                  {"hash_logits", request.hash_logits},
                  {"seed", sampling.seed},
                  {"temperature", sampling.temperature},
                  {"top_k", sampling.top_k},
                  {"top_p", sampling.top_p},
                  {"min_p", sampling.min_p},
                  {"repeat_penalty", sampling.repeat_penalty}});
}

std::string encode_named(std::string_view key, const std::string& value) {
  Json json = Json::object();
  json[std::string(key)] = value;
  return to_line(json);
}

}  // namespace salvage::admin
