#pragma once

// Memory that was freed but is kept for later goes back to the system. For after something large
// that won't come again soon: on a small machine others need it. Takes milliseconds; any thread.

namespace salvage {

void give_back_heap();

}  // namespace salvage
