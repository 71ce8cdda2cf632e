#pragma once

// The API's port on the coordinator's machine: HTTP for people's tools (gateway/api_handler.h),
// answered by the cluster's pipelines. On loopback unless told otherwise; beyond it only with keys.
//
// Keys are kept as digests in the state. The first start makes one, which is shown once.
// Threads: everything from any thread. What is passed in outlives it; the destructor ends all
// answers.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "coordinator/coordinator.h"
#include "gateway/api_handler.h"
#include "gateway/serving_backend.h"
#include "http/http_service.h"
#include "metrics/request_ledger.h"
#include "state/state_db.h"

namespace salvage::app {

inline constexpr std::uint16_t kApiPort = 8765;

struct ApiOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = kApiPort;  // 0: any that is free
  bool served = true;
  std::vector<std::string> keys;  // beside those in the state
  bool insecure = false;          // beyond loopback without keys
};

class ApiService final : public gateway::ServingBackend {
 public:
  // `invalid_argument`: no address of this machine, or the port is taken.
  static Result<std::unique_ptr<ApiService>> start(const ApiOptions& options, state::StateDb& state,
                                                   coordinator::Coordinator& coordinator,
                                                   metrics::RequestLedger& ledger,
                                                   const Clock& clock);
  ~ApiService() override;

  std::vector<api::ModelEntry> models() override;
  Result<gateway::ReadyModel> ready(const std::string& model) override;
  metrics::ClusterGlance glance() override;

  std::string url() const { return url_; }
  const std::string& new_key() const { return new_key_; }  // empty: none was made now
  bool keys_required() const { return keys_required_; }

 private:
  ApiService(coordinator::Coordinator& coordinator, const Clock& clock)
      : coordinator_(coordinator), clock_(clock) {}

  // What a model's chat template can, once it was read.
  struct Abilities {
    bool tools = false;
    bool thinking = false;
  };
  void add_abilities(const ModelId& model, api::ModelEntry& entry) EXCLUDES(mutex_);

  coordinator::Coordinator& coordinator_;
  const Clock& clock_;
  Mutex mutex_;
  std::map<ModelId, Abilities> abilities_ GUARDED_BY(mutex_);
  std::string url_;
  std::string new_key_;
  bool keys_required_ = false;
  std::unique_ptr<gateway::ApiHandler> handler_;
  std::unique_ptr<http::HttpService> service_;
};

// What a person reads about it: the address, the key if it is new, a line that asks something.
std::string api_text(const ApiService& service);

}  // namespace salvage::app
