#include "wire/control.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "wire/cluster_fields.h"

namespace salvage::wire {
namespace {

using Json = nlohmann::json;

constexpr LinkRole kRoles[] = {LinkRole::kControl, LinkRole::kData, LinkRole::kNode,
                               LinkRole::kWeights, LinkRole::kJoin};

// A struct with a list of fields of its own, inside of a message.
template <typename Value>
concept Record = requires {
  visit_fields(Of<Value>{}, [](const char*, auto, FieldTraits) {});
};

// --- One field to CBOR's data model -------------------------------------------------------------

template <typename Value>
Json to_json(const Value& value) {
  return value;
}
Json to_json(HiddenType type) {
  return hidden_type_name(type);
}
Json to_json(LinkRole role) {
  return link_role_name(role);
}
template <Record Value>
Json to_json(const std::vector<Value>& records) {
  Json list = Json::array();
  for (const Value& record : records) {
    Json map = Json::object();
    visit_fields(Of<Value>{}, [&](const char* key, auto member, FieldTraits) {
      map[key] = to_json(record.*member);
    });
    list.push_back(std::move(map));
  }
  return list;
}

// --- and back: false if the value has another type or does not fit -------------------------------

bool from_json(const Json& json, bool& value) {
  if (!json.is_boolean()) return false;
  value = json.get<bool>();
  return true;
}
bool from_json(const Json& json, std::uint64_t& value) {
  if (!json.is_number_unsigned()) return false;
  value = json.get<std::uint64_t>();
  return true;
}
bool from_json(const Json& json, std::uint32_t& value) {
  std::uint64_t wide = 0;
  if (!from_json(json, wide) || wide > std::numeric_limits<std::uint32_t>::max()) return false;
  value = static_cast<std::uint32_t>(wide);
  return true;
}
bool from_json(const Json& json, double& value) {
  if (!json.is_number()) return false;
  value = json.get<double>();
  return true;
}
bool from_json(const Json& json, std::string& value) {
  if (!json.is_string()) return false;
  const auto& text = json.get_ref<const std::string&>();
  if (text.size() > kTextBytesMax) return false;
  value = text;
  return true;
}
bool from_json(const Json& json, HiddenType& value);
bool from_json(const Json& json, LinkRole& value);
template <typename Item>
bool from_json(const Json& json, std::vector<Item>& value);
template <Record Value>
bool from_json(const Json& json, Value& record) {
  if (!json.is_object()) return false;
  bool good = true;
  visit_fields(Of<Value>{}, [&](const char* key, auto member, FieldTraits traits) {
    const auto found = json.find(key);
    if (found == json.end()) {
      good = good && !traits.required;
    } else {
      good = good && from_json(*found, record.*member);
    }
  });
  return good;
}
template <typename Item>
bool from_json(const Json& json, std::vector<Item>& value) {
  if (!json.is_array() || json.size() > kListItemsMax) return false;
  value.resize(json.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (!from_json(json[i], value[i])) return false;
  }
  return true;
}
bool from_json(const Json& json, HiddenType& value) {
  std::string name;
  if (!from_json(json, name)) return false;
  const auto type = parse_hidden_type(name);
  if (!type) return false;
  value = *type;
  return true;
}
bool from_json(const Json& json, LinkRole& value) {
  std::string name;
  if (!from_json(json, name)) return false;
  const auto found = std::find_if(std::begin(kRoles), std::end(kRoles),
                                  [&](LinkRole role) { return link_role_name(role) == name; });
  if (found == std::end(kRoles)) return false;
  value = *found;
  return true;
}

// --- Limits --------------------------------------------------------------------------------------

bool too_long(const std::string& text) {
  return text.size() > kTextBytesMax;
}
template <typename Value>
bool too_long(const Value&) {
  return false;
}
template <Record Value>
bool too_long(const Value& record);
template <typename Item>
bool too_long(const std::vector<Item>& list) {
  return list.size() > kListItemsMax ||
         std::any_of(list.begin(), list.end(), [](const Item& item) { return too_long(item); });
}
template <Record Value>
bool too_long(const Value& record) {
  bool long_one = false;
  visit_fields(Of<Value>{}, [&](const char*, auto member, FieldTraits) {
    long_one = long_one || too_long(record.*member);
  });
  return long_one;
}

std::string cut_prose(const std::string& text) {
  std::string cut = text.substr(0, kTextBytesMax);
  // Not in the middle of a character; text that was no UTF-8 anyway stays as it is.
  const std::size_t whole = utf8_valid_prefix(cut);
  if (cut.size() - whole < 4) cut.resize(whole);
  return cut;
}

// Parsing recurses with the nesting of its input, so hostile bytes pass through this first: it
// builds nothing and stops at the first list that is too deep or too long.
class LimitCheck : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ <= kControlDepthMax; }
  bool start_array(std::size_t) override { return ++depth_ <= kControlDepthMax; }
  bool key(string_t&) override { return true; }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  std::uint32_t depth_ = 0;
};

template <typename Message>
Result<Json> parse_map(std::span<const std::byte> body) {
  const std::string_view name = frame_type_name(Message::kType);
  if (body.size() > kControlBodyBytesMax) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: the body is too long", name));
  }
  const auto* begin = reinterpret_cast<const std::uint8_t*>(body.data());
  const auto* end = begin + body.size();
  LimitCheck limits;
  if (!Json::sax_parse(begin, end, &limits, nlohmann::json::input_format_t::cbor)) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: the body is not CBOR within limits", name));
  }
  Json map = Json::from_cbor(begin, end, true, false);
  if (!map.is_object()) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: the body is not a CBOR map", name));
  }
  return map;
}

}  // namespace

std::string_view link_role_name(LinkRole role) {
  switch (role) {
    case LinkRole::kControl:
      return "control";
    case LinkRole::kData:
      return "data";
    case LinkRole::kNode:
      return "node";
    case LinkRole::kWeights:
      return "weights";
    case LinkRole::kJoin:
      return "join";
  }
  return {};
}

template <typename Message>
Result<void> encode_control(const Message& message, std::vector<std::byte>& body) {
  Json map = Json::object();
  const char* long_key = nullptr;
  visit_fields(Of<Message>{}, [&](const char* key, auto member, FieldTraits traits) {
    const auto& value = message.*member;
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
      if (traits.cut && too_long(value)) {
        map[key] = cut_prose(value);
        return;
      }
    }
    if (too_long(value)) long_key = key;
    map[key] = to_json(value);
  });
  if (long_key != nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} is too long", frame_type_name(Message::kType), long_key));
  }
  const std::vector<std::uint8_t> bytes = Json::to_cbor(map);
  const auto view = std::as_bytes(std::span(bytes));
  if (view.size() > kControlBodyBytesMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: the body is too long", frame_type_name(Message::kType)));
  }
  body.assign(view.begin(), view.end());
  return {};
}

template <typename Message>
Result<Message> decode_control(std::span<const std::byte> body) {
  ASSIGN_OR_RETURN(const Json map, parse_map<Message>(body));
  Message message;
  std::string problem;
  visit_fields(Of<Message>{}, [&](const char* key, auto member, FieldTraits traits) {
    const auto found = map.find(key);
    if (found == map.end()) {
      if (traits.required) problem = fmt::format("{} is missing", key);
    } else if (!from_json(*found, message.*member)) {
      problem = fmt::format("{} has a wrong type or is out of range", key);
    }
  });
  if (!problem.empty()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{}: {}", frame_type_name(Message::kType), problem));
  }
  return message;
}

template <typename Message>
std::string describe(const Message& message) {
  std::string line(frame_type_name(Message::kType));
  visit_fields(Of<Message>{}, [&](const char* key, auto member, FieldTraits traits) {
    const std::string value =
        traits.secret
            ? "***"
            : to_json(message.*member).dump(-1, ' ', false, Json::error_handler_t::replace);
    line += fmt::format(" {}={}", key, value);
  });
  return line;
}

#define SALVAGE_INSTANTIATE(Message)                                                      \
  template Result<void> encode_control<Message>(const Message&, std::vector<std::byte>&); \
  template Result<Message> decode_control<Message>(std::span<const std::byte>);           \
  template std::string describe<Message>(const Message&);
SALVAGE_INSTANTIATE(Hello)
SALVAGE_INSTANTIATE(HelloReply)
SALVAGE_INSTANTIATE(LoadStage)
SALVAGE_INSTANTIATE(StageLoaded)
SALVAGE_INSTANTIATE(StageFailed)
SALVAGE_INSTANTIATE(StatsRequest)
SALVAGE_INSTANTIATE(Stats)
SALVAGE_INSTANTIATE(Ping)
SALVAGE_INSTANTIATE(Pong)
SALVAGE_INSTANTIATE(Progress)
SALVAGE_INSTANTIATE(Unload)
SALVAGE_INSTANTIATE(Shutdown)
SALVAGE_INSTANTIATE(JoinRequest)
SALVAGE_INSTANTIATE(JoinReply)
SALVAGE_INSTANTIATE(NodeFacts)
SALVAGE_INSTANTIATE(NodeStatus)
SALVAGE_INSTANTIATE(ClusterView)
SALVAGE_INSTANTIATE(MemberRequest)
SALVAGE_INSTANTIATE(MemberReply)
SALVAGE_INSTANTIATE(Inventory)
SALVAGE_INSTANTIATE(FetchOrder)
SALVAGE_INSTANTIATE(FetchProgress)
SALVAGE_INSTANTIATE(StartStage)
SALVAGE_INSTANTIATE(StageListening)
SALVAGE_INSTANTIATE(BlobRequest)
SALVAGE_INSTANTIATE(BlobReply)
#undef SALVAGE_INSTANTIATE

}  // namespace salvage::wire
