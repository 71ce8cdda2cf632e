#pragma once

// A Transport inside one process, for tests of the layers above: connections are pairs of bounded
// queues of whole frames, encoded and checked like on a socket. Faults are set per transport.
// Thread rule: as transport.h. The transport outlives its listeners and connections.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/transport.h"

namespace salvage::transport {

struct MemoryFaults {
  std::uint64_t cut_after_frames = 0;  // Each connection dies after so many sent frames; 0 = never.
  std::uint64_t corrupt_frame = 0;     // Flips a bit in a connection's n-th sent frame; 0 = never.
  std::size_t queue_frames = 64;       // Frames in flight each way; a full queue blocks the sender.
};

// Any endpoint text names a listener; nothing outside this object is touched.
std::unique_ptr<Transport> make_memory_transport(MemoryFaults faults = {});

}  // namespace salvage::transport
