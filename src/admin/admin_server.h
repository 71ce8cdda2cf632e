#pragma once

// Serves the administration interface (admin_routes.h) on a Unix socket in the data folder, to
// processes of the same user. One request a connection. Whoever says nothing, or says it slowly,
// costs one of kConnectionsMax threads for kRequestTime and nobody else anything; a client that
// goes away ends its work.
//
// Threads: one accepts, one watches for clients that go away, one per connection. The destructor
// lets nobody in, stops what runs, gives it half a second to say so, and ends the connections.

#include <filesystem>
#include <memory>

#include "admin/admin_backend.h"
#include "base/clock.h"
#include "base/result.h"

namespace salvage::admin {

inline constexpr const char* kAdminSocket = "admin.sock";
inline constexpr std::size_t kConnectionsMax = 32;

class AdminServer {
 public:
  // The backend outlives the server. `unavailable` if another process serves this folder.
  static Result<std::unique_ptr<AdminServer>> start(const std::filesystem::path& folder,
                                                    AdminBackend& backend);
  virtual ~AdminServer() = default;
};

}  // namespace salvage::admin
