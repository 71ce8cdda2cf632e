#pragma once

// A running salvage: everything that `up` and `join` keep alive, wired together. The coordinator's
// machine runs coordinator and agent, the others an agent; both have a door on the node port, and
// the administration socket in the data folder.
//
// Threads: start() and wait() on one; the stages live as long as the object. The destructor ends
// everything in order: nobody new comes in, what runs is stopped, links end, then the parts go. It
// waits for nobody longer than some two seconds.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "admin/admin_server.h"
#include "agent/node_agent.h"
#include "app/api_service.h"
#include "app/cluster_view.h"
#include "app/download_service.h"
#include "app/enrolment.h"
#include "app/machine.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/stop.h"
#include "coordinator/coordinator.h"
#include "discovery/beacon_listener.h"
#include "discovery/beacon_sender.h"
#include "metrics/request_ledger.h"
#include "pipeline/door.h"
#include "state/state_db.h"
#include "store/piece_store.h"
#include "transport/routing_transport.h"
#include "transport/secure_transport.h"

namespace salvage::app {

inline constexpr std::uint16_t kNodePort = 7420;

// The fingerprint of this machine's own kernels, whatever model they run.
std::string own_kernels();

struct NodeProcessOptions {
  std::filesystem::path folder;
  std::uint16_t port = kNodePort;
  std::uint16_t stage_port_first = 7421;
  std::uint16_t stage_port_count = 16;
  std::uint32_t wire_version = wire::kWireVersion;
  DownloadOptions download;  // the coordinator's, as the next
  ApiOptions api;
  // What happens, a line each, for people. Called from any thread.
  std::function<void(const std::string&)> say;
};

class NodeProcess {
 public:
  // The state outlives the process. An enrolment with an authority makes it the coordinator.
  static Result<std::unique_ptr<NodeProcess>> start(const NodeProcessOptions& options,
                                                    state::StateDb& state, Enrolment enrolment);
  ~NodeProcess();
  NodeProcess(const NodeProcess&) = delete;
  NodeProcess& operator=(const NodeProcess&) = delete;

  // Until `stop`, or until this machine is no member any more: then a failure that says why, or
  // none if it left by itself.
  Result<void> wait(const StopToken& stop) EXCLUDES(mutex_);
  // Ends wait(). From any thread.
  void finish(Result<void> outcome) EXCLUDES(mutex_);
  // This machine is no member any more; `key_too`: nor will it be known again. Ends wait().
  Result<void> forget_membership(bool key_too) EXCLUDES(row_mutex_);

  // --- for the administration (app/coordinator_admin.h, app/node_admin.h) ---
  const NodeProcessOptions& options() const { return options_; }
  const Clock& clock() const { return clock_; }
  state::StateDb& state() { return state_; }
  store::PieceStore& store() { return *store_; }
  coordinator::Coordinator* coordinator() { return coordinator_.get(); }  // null on other nodes
  // A new code, with the line for machines that have nothing. The coordinator's machine only.
  Result<coordinator::OpenInvite> invite(coordinator::InviteOptions options);
  agent::NodeAgent& agent() { return *agent_; }
  const ApiService* api() const { return api_.get(); }  // null: not served here
  metrics::RequestLedger& ledger() { return ledger_; }  // the coordinator's machine only
  const Machine& machine() const { return *machine_; }
  const Enrolment& enrolment() const { return enrolment_; }
  const ViewKeeper& view() const { return view_; }
  std::uint16_t port() const { return port_; }
  // The coordinator's machine, for people: "attic (tls:192.168.1.20:7420)", as far as it is known.
  std::string coordinator_text() const;
  std::string problem() const EXCLUDES(mutex_);  // of the link to the coordinator
  std::string name() const EXCLUDES(mutex_);     // of this machine, as the cluster calls it
  bool connected() const { return agent_->connected(); }

 private:
  NodeProcess(const NodeProcessOptions& options, state::StateDb& state, Enrolment enrolment);
  Result<void> start_parts();
  Result<std::unique_ptr<transport::Listener>> listen();
  Result<void> start_coordinator();
  Result<void> start_api();
  void start_door(std::unique_ptr<transport::Listener> listener);
  Result<void> start_agent();
  void start_beacon();
  Result<void> start_admin();

  // The door.
  pipeline::Terms terms(const wire::Hello& hello, const transport::Connection& connection);
  void admit(std::unique_ptr<transport::Connection> connection, const wire::Hello& hello);
  bool is_admitted(const NodeId& node) const;
  void shut_door();

  // The agent's link.
  agent::NodeAgentEvents agent_events();
  std::vector<transport::Endpoint> coordinator_endpoints() const EXCLUDES(mutex_);
  wire::NodeFacts facts() const;
  void on_view(const wire::ClusterView& view);
  void on_link_down(const Error& error) EXCLUDES(mutex_);
  void on_refused(const Error& error);
  void on_sighting(const discovery::Sighting& sighting) EXCLUDES(mutex_);
  void remember_coordinator() EXCLUDES(mutex_, row_mutex_);
  void look_around();
  void say_event(const coordinator::ClusterEvent& event);
  void say(const std::string& line) EXCLUDES(mutex_);

  const NodeProcessOptions options_;
  const SteadyClock clock_;
  state::StateDb& state_;
  const Enrolment enrolment_;
  ViewKeeper view_;
  std::uint16_t port_ = 0;
  std::string kernel_fingerprint_;
  std::optional<Machine> machine_;
  std::unique_ptr<store::PieceStore> store_;
  std::unique_ptr<transport::SecureTransport> tls_;
  std::unique_ptr<transport::Transport> local_;
  std::optional<transport::RoutingTransport> transport_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  std::unique_ptr<DownloadService> download_;
  metrics::RequestLedger ledger_;
  std::unique_ptr<ApiService> api_;
  std::unique_ptr<agent::NodeAgent> agent_;
  std::unique_ptr<pipeline::Door> door_;
  std::unique_ptr<discovery::BeaconSender> beacon_;
  std::unique_ptr<discovery::BeaconListener> listener_;
  std::unique_ptr<admin::AdminBackend> backend_;
  std::unique_ptr<admin::AdminServer> admin_;
  Gate callers_;                       // the door's callbacks that use the coordinator
  std::atomic<bool> started_ = false;  // all parts are there

  mutable Mutex mutex_;
  Condition wake_;
  bool ending_ GUARDED_BY(mutex_) = false;
  std::multiset<NodeId> served_ GUARDED_BY(mutex_);  // whose links the coordinator serves
  std::optional<Result<void>> outcome_ GUARDED_BY(mutex_);
  std::string problem_ GUARDED_BY(mutex_);
  std::string name_ GUARDED_BY(mutex_);
  std::vector<std::string> known_addresses_ GUARDED_BY(mutex_);    // of the coordinator
  std::string known_name_ GUARDED_BY(mutex_);                      // of this machine, on disk
  std::vector<std::string> sighted_addresses_ GUARDED_BY(mutex_);  // by its beacon
  Mutex row_mutex_;  // who changes the identity's row reads it first
  bool forgotten_ GUARDED_BY(row_mutex_) = false;
  std::vector<discovery::LocalAddress> own_addresses_;  // wait()'s thread only
};

}  // namespace salvage::app
