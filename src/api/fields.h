#pragma once

// Reads the fields of one JSON object by name, the way clients of several services fill them: null
// counts as absent, names we don't know are nobody's business, a whole number may be written
// as 5.0. A wrong value is refused and named; the first complaint is kept, so that a reader can be
// written as a list of fields and asked once at its end. Borrows the object. Not thread safe.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/errors.h"

namespace salvage::api {

// The first of many complaints about one request.
class Complaint {
 public:
  void add(ApiError error) {
    if (!first_) first_ = std::move(error);
  }
  bool any() const { return first_.has_value(); }
  // Nothing, or the complaint.
  Parsed<void> result() const;

 private:
  std::optional<ApiError> first_;
};

template <typename Number>
struct Range {
  Number min = std::numeric_limits<Number>::lowest();
  Number max = std::numeric_limits<Number>::max();
};

class Fields {
 public:
  // `object` must be an object; `path` is what stands before its fields' names in complaints:
  // "stream_options." Both must outlive this.
  Fields(const Json& object, std::string path, Complaint& complaint)
      : object_(object), path_(std::move(path)), complaint_(complaint) {}

  // None if absent, or null.
  const Json* find(const char* key) const;
  bool is_null(const char* key) const;  // there, and null
  std::string path(std::string_view key) const { return path_ + std::string(key); }
  Complaint& complaint() const { return complaint_; }

  // Each leaves `value` alone if the field is absent or wrong. True if it took a value.
  bool text(const char* key, std::string& value, std::size_t bytes_max) const;
  bool flag(const char* key, bool& value) const;
  bool flag(const char* key, std::optional<bool>& value) const;
  bool real(const char* key, std::optional<float>& value, Range<double> range) const;
  template <typename Number>
  bool whole(const char* key, Number& value, Range<std::int64_t> range) const;
  template <typename Number>
  bool whole(const char* key, std::optional<Number>& value, Range<std::int64_t> range) const;
  bool texts(const char* key, std::vector<std::string>& values, std::size_t count_max) const;
  // Of these JSON types, or none.
  const Json* object(const char* key) const;
  const Json* array(const char* key) const;

  void refuse(std::string_view key, std::string_view why) const;  // "must be ..."
  void missing(std::string_view key) const;
  void unsupported(std::string_view key, std::string_view why) const;

 private:
  std::optional<std::int64_t> whole_number(const char* key, Range<std::int64_t> range) const;

  const Json& object_;
  std::string path_;
  Complaint& complaint_;
};

// A text that must be there, of at most kNameBytesMax bytes; empty after a complaint.
std::string needed_name(const Fields& fields, const char* key);

// 5 and 5.0 are the whole number 5; anything else is none.
std::optional<std::int64_t> whole_of(const Json& json);

// "messages[3]"
std::string item_path(std::string_view list, std::size_t index);

// For complaints that no Fields is at hand for; `param` is the whole path.
ApiError invalid_value(std::string param, std::string_view why);
ApiError missing_value(std::string param);
ApiError not_supported(std::string param, std::string_view why);

template <typename Number>
bool Fields::whole(const char* key, Number& value, Range<std::int64_t> range) const {
  const auto number = whole_number(key, range);
  if (number) value = static_cast<Number>(*number);
  return number.has_value();
}

template <typename Number>
bool Fields::whole(const char* key, std::optional<Number>& value, Range<std::int64_t> range) const {
  const auto number = whole_number(key, range);
  if (number) value = static_cast<Number>(*number);
  return number.has_value();
}

}  // namespace salvage::api
