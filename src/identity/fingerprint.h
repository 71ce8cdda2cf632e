#pragma once

// Node ids and cluster ids as people see them. All are 64 lower-case hex digits; twelve are enough
// to tell the machines of a cluster apart, all of them to trust one.

#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"

namespace salvage::identity {

// `invalid_argument`, quoting the text, unless it is a whole node id.
Result<NodeId> parse_node_id(std::string_view text);

// The first 12 digits; the whole text if it has fewer.
std::string short_form(std::string_view digits);
std::string short_form(const NodeId& node);

// "5c9e-11f2-...": to be compared by eye or read out.
std::string grouped_form(std::string_view digits);

}  // namespace salvage::identity
