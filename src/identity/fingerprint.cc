#include "identity/fingerprint.h"

#include <fmt/format.h>

#include "base/sha256.h"

namespace salvage::identity {
namespace {

constexpr std::size_t kDigestDigits = 64;
constexpr std::size_t kShortDigits = 12;
constexpr std::size_t kGroupDigits = 4;

}  // namespace

Result<NodeId> parse_node_id(std::string_view text) {
  if (is_digest(text)) return NodeId{std::string(text)};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is no node id: it has {} lower-case hex digits",
                          text.substr(0, kDigestDigits), kDigestDigits));
}

std::string short_form(std::string_view digits) {
  return std::string(digits.substr(0, kShortDigits));
}

std::string short_form(const NodeId& node) {
  return short_form(node.value);
}

std::string grouped_form(std::string_view digits) {
  std::string grouped;
  for (std::size_t i = 0; i < digits.size(); i += kGroupDigits) {
    if (i > 0) grouped.push_back('-');
    grouped.append(digits.substr(i, kGroupDigits));
  }
  return grouped;
}

}  // namespace salvage::identity
