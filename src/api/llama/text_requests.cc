#include "api/llama/text_requests.h"

#include "api/prompt_field.h"
#include "api/value_json.h"
#include "base/utf8.h"

namespace salvage::api {
namespace {

std::string one_field(const char* key, Json value) {
  Json json = Json::object();
  json[key] = std::move(value);
  return to_line(json);
}

Json piece_json(const TokenPiece& piece) {
  Json json{{"id", piece.id}};
  if (valid_utf8(piece.bytes)) {
    json["piece"] = piece.bytes;
  } else {
    json["piece"] = bytes_json(piece.bytes);
  }
  return json;
}

}  // namespace

Parsed<TokenizeRequest> parse_tokenize(std::string_view body, const ParseLimits& limits) {
  ASSIGN_OR_RETURN(const Json json, parse_object(body));
  TokenizeRequest request;
  Complaint complaint;
  const Fields fields(json, "", complaint);
  read_prompt(fields, "content", limits, request.content);
  fields.flag("add_special", request.add_special);
  fields.flag("parse_special", request.parse_special);
  fields.flag("with_pieces", request.with_pieces);
  RETURN_IF_ERROR(complaint.result());
  return request;
}

Parsed<std::vector<TokenId>> parse_detokenize(std::string_view body, const ParseLimits& limits) {
  ASSIGN_OR_RETURN(const Json json, parse_object(body));
  std::vector<TokenId> ids;
  Complaint complaint;
  read_token_ids(Fields(json, "", complaint), "tokens", limits, ids);
  RETURN_IF_ERROR(complaint.result());
  return ids;
}

std::string tokens_body(std::span<const TokenId> tokens) {
  return one_field("tokens", std::vector<TokenId>(tokens.begin(), tokens.end()));
}

std::string pieces_body(std::span<const TokenPiece> pieces) {
  Json list = Json::array();
  for (const TokenPiece& piece : pieces) list.push_back(piece_json(piece));
  return one_field("tokens", std::move(list));
}

std::string content_body(std::string_view text) {
  return one_field("content", text);
}

std::string template_body(std::string_view text) {
  return one_field("prompt", text);
}

}  // namespace salvage::api
