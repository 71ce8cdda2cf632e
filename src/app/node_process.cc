#include "app/node_process.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "app/command.h"
#include "app/coordinator_admin.h"
#include "app/format.h"
#include "app/node_admin.h"
#include "app/version.h"
#include "app/wall_clock.h"
#include "app/words.h"
#include "base/log.h"
#include "base/process.h"
#include "base/system_info.h"
#include "engine/llama/fingerprint.h"
#include "engine/llama/llama_text.h"
#include "transport/tcp/local_transport.h"
#include "transport/tls/tls_transport.h"

namespace salvage::app {
namespace {

constexpr Logger kLog("node");
constexpr Duration kNewsPeriod = std::chrono::seconds(3);

}  // namespace

std::string own_kernels() {
  return engine::kernel_fingerprint(engine::WeightPlacement{}, engine::StageOptions{});
}

NodeProcess::NodeProcess(const NodeProcessOptions& options, state::StateDb& state,
                         Enrolment enrolment)
    : options_(options),
      state_(state),
      enrolment_(std::move(enrolment)),
      view_(enrolment_.coordinator),
      kernel_fingerprint_(own_kernels()),
      name_(enrolment_.name),
      known_addresses_(enrolment_.coordinator_addresses),
      known_name_(enrolment_.name) {}

Result<std::unique_ptr<NodeProcess>> NodeProcess::start(const NodeProcessOptions& options,
                                                        state::StateDb& state,
                                                        Enrolment enrolment) {
  std::unique_ptr<NodeProcess> process(new NodeProcess(options, state, std::move(enrolment)));
  RETURN_IF_ERROR(process->start_parts());
  return process;
}

Result<void> NodeProcess::start_parts() {
  ASSIGN_OR_RETURN(store_, store::PieceStore::open(options_.folder));
  transport::TlsOptions tls;
  tls.identity = enrolment_.identity;
  tls.admits = [this](const NodeId& node) { return is_admitted(node); };
  ASSIGN_OR_RETURN(tls_, transport::make_tls_transport(tls));
  local_ = transport::make_local_transport();
  transport_.emplace(*local_, tls_.get());
  // Bound first, for everything else needs to know the port; nobody is answered yet.
  ASSIGN_OR_RETURN(auto listener, listen());
  port_ = listener->endpoint().port;
  ASSIGN_OR_RETURN(machine_, Machine::look({.version = kVersion,
                                            .kernel_fingerprint = kernel_fingerprint_,
                                            .folder = options_.folder,
                                            .port = port_}));
  own_addresses_ = machine_->addresses();
  if (enrolment_.authority) RETURN_IF_ERROR(start_coordinator());
  RETURN_IF_ERROR(start_agent());
  start_door(std::move(listener));
  start_beacon();
  started_ = true;
  RETURN_IF_ERROR(start_api());
  return start_admin();
}

Result<void> NodeProcess::start_api() {
  if (!coordinator_ || !options_.api.served) return {};
  ASSIGN_OR_RETURN(api_, ApiService::start(options_.api, state_, *coordinator_, ledger_, clock_));
  return {};
}

Result<std::unique_ptr<transport::Listener>> NodeProcess::listen() {
  const auto on = [&](transport::EndpointKind kind, const char* address) {
    const transport::Endpoint endpoint{.kind = kind, .address = address, .port = options_.port};
    return enrolment_.authority ? tls_->listen_for_joiners(endpoint) : tls_->listen(endpoint);
  };
  auto both = on(transport::EndpointKind::kTls6, "::");
  if (both) return both;
  auto old = on(transport::EndpointKind::kTls4, "0.0.0.0");  // no IPv6 here
  if (old) return old;
  return fail(ErrorCode::kUnavailable,
              fmt::format("the port {} can't be listened on: {}; is salvage running already? "
                          "--port takes another",
                          options_.port, old.error().message()));
}

Result<void> NodeProcess::start_coordinator() {
  coordinator::CoordinatorOptions options;
  options.version = kVersion;
  options.llama_pin = kLlamaPin;
  options.kernel_fingerprint = kernel_fingerprint_;
  options.wire_version = options_.wire_version;
  options.self = enrolment_.identity.id;
  options.name = enrolment_.name;
  options.port = port_;
  options.authority = *enrolment_.authority;
  options.cluster_name = enrolment_.cluster_name;
  options.wall_clock_ms = wall_clock_ms;
  options.make_text = engine::make_llama_text_tools;
  options.event = [this](const coordinator::ClusterEvent& event) { say_event(event); };
  options.shut_out = [this](const NodeId& node) { tls_->close_peer(node); };
  const coordinator::Parts parts{state_, *store_, *transport_, clock_};
  ASSIGN_OR_RETURN(coordinator_, coordinator::Coordinator::start(std::move(options), parts));
  DownloadOptions download = options_.download;
  download.served = [this](const std::string& peer, std::uint64_t bytes) {
    say(words("event.fetched", peer, format_bytes(bytes)));
  };
  download_ = std::make_unique<DownloadService>(std::move(download), enrolment_.identity,
                                                *coordinator_, clock_);
  return {};
}

Result<void> NodeProcess::start_agent() {
  agent::NodeAgentOptions options;
  ASSIGN_OR_RETURN(options.executable, own_executable());
  options.llama_pin = kLlamaPin;
  options.kernel_fingerprint = kernel_fingerprint_;
  options.wire_version = options_.wire_version;
  options.identity = enrolment_.identity;
  options.coordinator = enrolment_.coordinator;
  options.threads = static_cast<std::uint32_t>(usable_cores().size());
  options.stage_port_first = options_.stage_port_first;
  options.stage_port_count = options_.stage_port_count;
  agent_ = std::make_unique<agent::NodeAgent>(std::move(options), agent_events(), *store_,
                                              *transport_, clock_);
  return {};
}

// A LAN without multicast only means that nobody is helped when an address changes.
void NodeProcess::start_beacon() {
  const auto note = [](const Error& error) { kLog.warn("no_beacon", {{"why", error.message()}}); };
  if (coordinator_) {
    discovery::BeaconSenderOptions options;
    options.cluster_id = enrolment_.cluster_id;
    options.key_pem = enrolment_.identity.key_pem;
    options.certificate_pem = enrolment_.identity.certificate_pem;
    options.coordinator = enrolment_.coordinator;
    options.addresses = [this] { return machine_->beacon_addresses(); };
    auto sender = discovery::BeaconSender::start(std::move(options), clock_);
    if (!sender) return note(sender.error());
    beacon_ = std::move(*sender);
    return;
  }
  discovery::BeaconListenerOptions options;
  options.cluster_id = enrolment_.cluster_id;
  options.authority_pem = enrolment_.identity.authority_pem;
  options.seen = [this](const discovery::Sighting& sighting) { on_sighting(sighting); };
  auto listener = discovery::BeaconListener::start(std::move(options), clock_);
  if (!listener) return note(listener.error());
  listener_ = std::move(*listener);
}

Result<void> NodeProcess::start_admin() {
  if (coordinator_) {
    backend_ = make_coordinator_admin(*this);
  } else {
    backend_ = make_node_admin(*this);
  }
  ASSIGN_OR_RETURN(admin_, admin::AdminServer::start(options_.folder, *backend_));
  return {};
}

// --- ending --------------------------------------------------------------------------------------

NodeProcess::~NodeProcess() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
  }
  // The coordinator's own goodbye would only be news to itself.
  if (agent_ && !coordinator_) agent_->say_goodbye();
  api_.reset();    // answers end
  admin_.reset();  // commands end; the answers that they wait for are stopped
  download_.reset();
  beacon_.reset();
  listener_.reset();
  if (agent_) agent_->stop_serving();  // links of weights end
  shut_door();
  agent_.reset();
  coordinator_.reset();
}

// The door's callbacks return only when their links have ended, so the links go first.
void NodeProcess::shut_door() {
  std::set<NodeId> served;
  {
    MutexLock lock(mutex_);
    served.insert(served_.begin(), served_.end());
  }
  if (tls_) {
    for (const NodeId& node : served) tls_->close_peer(node);
  }
  callers_.close();
  door_.reset();
}

void NodeProcess::finish(Result<void> outcome) {
  MutexLock lock(mutex_);
  if (!outcome_) outcome_ = std::move(outcome);
  wake_.notify_all();
}

Result<void> NodeProcess::forget_membership(bool key_too) {
  {
    MutexLock lock(row_mutex_);
    forgotten_ = true;
    RETURN_IF_ERROR(state_.forget_cluster(key_too));
  }
  finish({});
  return {};
}

Result<void> NodeProcess::wait(const StopToken& stop) {
  const std::stop_callback on_stop(stop, [this] { finish({}); });
  for (;;) {
    {
      MutexLock lock(mutex_);
      const TimePoint next = deadline_after(clock_.now(), kNewsPeriod);
      while (!outcome_ && wake_.wait_until(mutex_, next)) {
      }
      if (outcome_) return *outcome_;
    }
    look_around();
  }
}

// Cables are plugged, leases end: who has new addresses says so.
void NodeProcess::look_around() {
  std::vector<discovery::LocalAddress> now = machine_->addresses();
  if (now != own_addresses_) {
    own_addresses_ = std::move(now);
    agent_->facts_changed();
  }
  if (download_) download_->look();
  if (listener_ && !agent_->connected()) listener_->ask();
}

Result<coordinator::OpenInvite> NodeProcess::invite(coordinator::InviteOptions options) {
  options.addresses = machine_->join_addresses();
  ASSIGN_OR_RETURN(coordinator::OpenInvite made, coordinator_->invite(options));
  download_->offer(made, options.addresses);
  return made;
}

std::string NodeProcess::problem() const {
  MutexLock lock(mutex_);
  return problem_;
}

std::string NodeProcess::name() const {
  MutexLock lock(mutex_);
  return name_;
}

void NodeProcess::say(const std::string& line) {
  {
    MutexLock lock(mutex_);
    if (ending_) return;
  }
  options_.say(line);
}

void NodeProcess::say_event(const coordinator::ClusterEvent& event) {
  if (event.code == "node_joined") return say(words("event.joined", event.node));
  if (event.code == "node_online") return say(words("event.online", event.node));
  if (event.code == "node_offline") return say(words("event.offline", event.node));
  if (event.code == "node_lost") return say(words("event.lost", event.node, event.detail));
  if (event.code == "node_left") return say(words("event.left", event.node));
  if (event.code == "node_removed") return say(words("event.removed", event.node));
  if (event.code != "deployment") return;
  const std::string state = words("deployment." + event.state);
  say(event.detail.empty() ? words("event.deployment", event.model, state)
                           : words("event.deployment_why", event.model, state, event.detail));
}

}  // namespace salvage::app
