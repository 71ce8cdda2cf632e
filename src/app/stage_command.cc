#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "agent/stage_worker.h"
#include "agent/worker_secret.h"
#include "app/command.h"
#include "app/port_range.h"
#include "app/words.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/process.h"
#include "engine/llama/llama_stage.h"
#include "identity/node_identity.h"
#include "transport/routing_transport.h"
#include "transport/tcp/local_transport.h"
#include "transport/tls/tls_transport.h"
#include "wire/frame.h"

namespace salvage::app {
namespace {

// The worker's socket, for the thread that ends the process when the parent is gone. Never
// destroyed: that thread may wake up while main() returns, and usually does.
std::string& socket_path() {
  static auto& path = *std::make_unique<std::string>().release();
  return path;
}

void leave_as_orphan() {
  exit_worker(socket_path(), 0);
}

void leave_as_told() {
  exit_worker(socket_path(), kExitInterrupted);
}

struct StageCommand {
  std::string listen;
  std::string listen_remote;
  std::uint32_t wire_version = wire::kWireVersion;
};

// "7421-7436": TLS on every address of this machine, the first port that is free. Where there is no
// IPv6 the second half is used.
Result<std::vector<transport::Endpoint>> remote_endpoints(const std::string& ports) {
  std::vector<transport::Endpoint> endpoints;
  if (ports.empty()) return endpoints;
  ASSIGN_OR_RETURN(const PortRange range, parse_port_range(ports));
  for (const char* host : {"[::]", "0.0.0.0"}) {
    for (std::uint32_t port = range.first; port <= range.last; ++port) {
      ASSIGN_OR_RETURN(endpoints.emplace_back(),
                       transport::parse_endpoint(fmt::format("tls:{}:{}", host, port)));
    }
  }
  return endpoints;
}

// Only the node of the stage before is let in, and that the worker itself checks: the list of
// members is the agent's business, who ends the stages of a node that is removed.
Result<std::unique_ptr<transport::SecureTransport>> make_tls(const agent::WorkerSecret& secret) {
  if (!secret.has_identity()) return std::unique_ptr<transport::SecureTransport>();
  ASSIGN_OR_RETURN(const identity::NodeKey key, identity::read_node_key(secret.key));
  transport::TlsOptions options;
  options.identity = {secret.key, secret.certificate, secret.authority, key.id};
  return transport::make_tls_transport(options);
}

Result<void> serve(const StageCommand& command, const StopToken& stop) {
  // ggml would start a debugger to print where it aborts; our parent only wants the message.
  // There are no other threads yet.
  ::setenv("GGML_NO_BACKTRACE", "1", 1);  // NOLINT(concurrency-mt-unsafe)
  agent::StageWorkerOptions options;
  ASSIGN_OR_RETURN(options.listen, transport::parse_endpoint(command.listen));
  ASSIGN_OR_RETURN(options.listen_remote, remote_endpoints(command.listen_remote));
  ASSIGN_OR_RETURN(const std::string line, read_secret_line());
  ASSIGN_OR_RETURN(const agent::WorkerSecret secret, agent::parse_worker_secret(line));
  options.auth_token = secret.token;
  options.llama_pin = kLlamaPin;
  options.wire_version = command.wire_version;
  socket_path() = options.listen.path;
  watch_lifeline(leave_as_orphan);
  // Somebody who ends a worker by its id wants it gone, in whatever step it is.
  const std::stop_callback on_signal(stop, leave_as_told);
  const SteadyClock clock;
  const auto local = transport::make_local_transport();
  ASSIGN_OR_RETURN(const auto tls, make_tls(secret));
  transport::RoutingTransport transport(*local, tls.get());
  return agent::run_stage_worker(options, transport, engine::make_llama_stage_engine, clock);
}

}  // namespace

void add_stage(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("stage", words("stage.about"));
  auto options = std::make_shared<StageCommand>();
  command->add_option("--listen", options->listen, words("stage.listen"))->required();
  command->add_option("--listen-remote", options->listen_remote, words("stage.listen_remote"));
  command->add_option("--wire-version", options->wire_version, words("option.wire_version"))
      ->check(CLI::Range(std::uint32_t{wire::kWireVersionMin}, std::uint32_t{wire::kWireVersion}));
  command->callback([&context, options] {
    context.chosen = [&context, options] { return serve(*options, context.stop); };
  });
}

}  // namespace salvage::app
