#include <cstdlib>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "agent/stage_worker.h"
#include "app/command.h"
#include "app/words.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/process.h"
#include "engine/llama/llama_stage.h"
#include "transport/tcp/local_transport.h"
#include "wire/limits.h"

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

Result<void> serve(const std::string& listen, const StopToken& stop) {
  // ggml would start a debugger to print where it aborts; our parent only wants the message.
  // There are no other threads yet.
  ::setenv("GGML_NO_BACKTRACE", "1", 1);  // NOLINT(concurrency-mt-unsafe)
  agent::StageWorkerOptions options;
  ASSIGN_OR_RETURN(options.listen, transport::parse_endpoint(listen));
  ASSIGN_OR_RETURN(options.auth_token, read_secret_line());
  if (options.auth_token.size() != wire::kAuthTokenBytes) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("the secret on standard input must have {} hex digits", wire::kAuthTokenBytes));
  }
  options.llama_pin = kLlamaPin;
  socket_path() = options.listen.path;
  watch_lifeline(leave_as_orphan);
  // Somebody who ends a worker by its id wants it gone, in whatever step it is.
  const std::stop_callback on_signal(stop, leave_as_told);
  const SteadyClock clock;
  const auto transport = transport::make_local_transport();
  return agent::run_stage_worker(options, *transport, engine::make_llama_stage_engine, clock);
}

}  // namespace

void add_stage(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("stage", words("stage.about"));
  auto listen = std::make_shared<std::string>();
  command->add_option("--listen", *listen, words("stage.listen"))->required();
  command->callback([&context, listen] {
    context.chosen = [&context, listen] { return serve(*listen, context.stop); };
  });
}

}  // namespace salvage::app
