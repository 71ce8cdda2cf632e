#pragma once

// Names that people give to machines, and machines to themselves. Pure.

#include <string>
#include <string_view>

#include "base/ids.h"

namespace salvage::cluster {

// `wanted` as a name that is safe to print, to type and to put into --pin: letters and digits of
// any language, '.', '_' and '-'; everything else becomes '-'. At most kNameBytesMax bytes, never
// empty.
std::string clean_name(std::string_view wanted);

// The first 12 digits: enough to tell the machines of a cluster apart.
std::string short_id(const NodeId& node);

}  // namespace salvage::cluster
