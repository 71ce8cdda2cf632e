#include "api/fields.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/limits.h"

namespace salvage::api {

Parsed<void> Complaint::result() const {
  if (first_) return fail(*first_);
  return {};
}

ApiError invalid_value(std::string param, std::string_view why) {
  std::string message = fmt::format("'{}' {}", param, why);
  return {
      .kind = ErrorKind::kInvalidValue, .message = std::move(message), .param = std::move(param)};
}

ApiError missing_value(std::string param) {
  std::string message = fmt::format("'{}' is needed", param);
  return {
      .kind = ErrorKind::kMissingValue, .message = std::move(message), .param = std::move(param)};
}

ApiError not_supported(std::string param, std::string_view why) {
  std::string message = fmt::format("'{}' {}", param, why);
  return {
      .kind = ErrorKind::kNotSupported, .message = std::move(message), .param = std::move(param)};
}

std::string item_path(std::string_view list, std::size_t index) {
  return fmt::format("{}[{}]", list, index);
}

std::string needed_name(const Fields& fields, const char* key) {
  std::string name;
  fields.text(key, name, kNameBytesMax);
  if (name.empty()) fields.missing(key);
  return name;
}

std::optional<std::int64_t> whole_of(const Json& json) {
  if (json.is_number_unsigned()) {
    const auto number = json.get<std::uint64_t>();
    if (!std::in_range<std::int64_t>(number)) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (!json.is_number_float()) return std::nullopt;
  const auto number = json.get<double>();
  // Doubles are exact for whole numbers up to 2^53.
  constexpr double kExactMax = 9007199254740992.0;
  if (!(std::abs(number) <= kExactMax) || std::floor(number) != number) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

const Json* Fields::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool Fields::is_null(const char* key) const {
  const auto found = object_.find(key);
  return found != object_.end() && found->is_null();
}

bool Fields::text(const char* key, std::string& value, std::size_t bytes_max) const {
  const Json* found = find(key);
  if (found == nullptr) return false;
  if (!found->is_string()) {
    refuse(key, "must be a text");
    return false;
  }
  const auto& text = found->get_ref<const std::string&>();
  if (text.size() > bytes_max) {
    refuse(key, fmt::format("is longer than {} bytes", bytes_max));
    return false;
  }
  value = text;
  return true;
}

bool Fields::flag(const char* key, bool& value) const {
  const Json* found = find(key);
  if (found == nullptr) return false;
  if (!found->is_boolean()) {
    refuse(key, "must be true or false");
    return false;
  }
  value = found->get<bool>();
  return true;
}

bool Fields::flag(const char* key, std::optional<bool>& value) const {
  bool given = false;
  if (!flag(key, given)) return false;
  value = given;
  return true;
}

bool Fields::real(const char* key, std::optional<float>& value, Range<double> range) const {
  const Json* found = find(key);
  if (found == nullptr) return false;
  const double number = found->is_number() ? found->get<double>() : std::nan("");
  if (!(number >= range.min && number <= range.max)) {
    refuse(key, fmt::format("must be a number from {} to {}", range.min, range.max));
    return false;
  }
  value = static_cast<float>(number);
  return true;
}

std::optional<std::int64_t> Fields::whole_number(const char* key, Range<std::int64_t> range) const {
  const Json* found = find(key);
  if (found == nullptr) return std::nullopt;
  const auto number = whole_of(*found);
  if (number && *number >= range.min && *number <= range.max) return number;
  refuse(key, fmt::format("must be a whole number from {} to {}", range.min, range.max));
  return std::nullopt;
}

bool Fields::texts(const char* key, std::vector<std::string>& values, std::size_t count_max) const {
  const Json* found = find(key);
  if (found == nullptr) return false;
  bool fits = found->is_array() && found->size() <= count_max;
  std::vector<std::string> taken;
  for (std::size_t i = 0; fits && i < found->size(); ++i) {
    const Json& item = (*found)[i];
    fits = item.is_string() && item.get_ref<const std::string&>().size() <= kNameBytesMax;
    if (fits) taken.push_back(item.get<std::string>());
  }
  if (!fits) {
    refuse(key, fmt::format("must be a list of at most {} texts, each of at most {} bytes",
                            count_max, kNameBytesMax));
    return false;
  }
  values = std::move(taken);
  return true;
}

const Json* Fields::object(const char* key) const {
  const Json* found = find(key);
  if (found == nullptr || found->is_object()) return found;
  refuse(key, "must be an object");
  return nullptr;
}

const Json* Fields::array(const char* key) const {
  const Json* found = find(key);
  if (found == nullptr || found->is_array()) return found;
  refuse(key, "must be a list");
  return nullptr;
}

void Fields::refuse(std::string_view key, std::string_view why) const {
  complaint_.add(invalid_value(path(key), why));
}

void Fields::missing(std::string_view key) const {
  complaint_.add(missing_value(path(key)));
}

void Fields::unsupported(std::string_view key, std::string_view why) const {
  complaint_.add(not_supported(path(key), why));
}

}  // namespace salvage::api
