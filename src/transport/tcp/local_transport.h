#pragma once

// Unix sockets and loopback TCP: the links between the processes of one machine. Socket files are
// 0600 and only peers of the same user are let in. Environment proxies play no part.

#include <memory>

#include "transport/transport.h"

namespace salvage::transport {

std::unique_ptr<Transport> make_local_transport();

}  // namespace salvage::transport
