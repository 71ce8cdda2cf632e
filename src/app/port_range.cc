#include "app/port_range.h"

#include <charconv>

#include <fmt/format.h>

namespace salvage::app {
namespace {

bool parse_port(std::string_view text, std::uint16_t& port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return !text.empty() && error == std::errc() && end == text.data() + text.size() && port != 0;
}

}  // namespace

Result<PortRange> parse_port_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  PortRange range;
  const bool first = parse_port(text.substr(0, dash), range.first);
  const bool last = dash == std::string_view::npos ? first && parse_port(text, range.last)
                                                   : parse_port(text.substr(dash + 1), range.last);
  if (first && last && range.first <= range.last) return range;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is no range of ports; write for example 7421-7436", text));
}

}  // namespace salvage::app
