#include "api/openai/response_format.h"

#include <fmt/format.h>

#include "api/common_fields.h"
#include "api/limits.h"
#include "api/quote.h"

namespace salvage::api {
namespace {

void take_schema(const Fields& fields, GenerateRequest& request) {
  const Json* schema = fields.find("schema");
  if (schema == nullptr) {
    ApiError error = missing_value(fields.path("schema"));
    error.kind = ErrorKind::kInvalidJsonSchema;
    return fields.complaint().add(std::move(error));
  }
  if (is_schema(*schema, fields.path("schema"), fields.complaint())) request.json_schema = *schema;
}

}  // namespace

void read_format(const Fields& format, GenerateRequest& request) {
  std::string type;
  if (format.find("type") == nullptr) return format.missing("type");
  if (!format.text("type", type, kNameBytesMax) || type == "text") return;
  if (type == "json_object") {
    if (format.find("schema") != nullptr) return take_schema(format, request);
    // A schema that says nothing allows any object.
    if (!request.json_schema) request.json_schema = Json::object();
    return;
  }
  if (type != "json_schema") {
    return format.refuse(
        "type", fmt::format("is {}; it must be text, json_object or json_schema", in_quotes(type)));
  }
  const Json* nested = format.object("json_schema");
  if (nested == nullptr) return take_schema(format, request);
  take_schema(Fields(*nested, format.path("json_schema."), format.complaint()), request);
}

}  // namespace salvage::api
