#pragma once

// The sub-commands of the one binary. Each add_*() declares its options beside their meaning and
// sets what runs when it is chosen; main() runs the chosen one and turns its Result into an exit
// code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "base/stop.h"

namespace salvage::app {

struct CommandContext {
  StopToken stop;  // Ctrl-C
  std::function<Result<void>()> chosen;
};

void add_up(CLI::App& app, CommandContext& context);
void add_join(CLI::App& app, CommandContext& context);
void add_invite(CLI::App& app, CommandContext& context);
void add_leave(CLI::App& app, CommandContext& context);
void add_status(CLI::App& app, CommandContext& context);
void add_nodes(CLI::App& app, CommandContext& context);
void add_ps(CLI::App& app, CommandContext& context);
void add_top(CLI::App& app, CommandContext& context);
void add_cancel(CLI::App& app, CommandContext& context);
void add_rename(CLI::App& app, CommandContext& context);
void add_remove(CLI::App& app, CommandContext& context);
void add_models(CLI::App& app, CommandContext& context);
void add_load(CLI::App& app, CommandContext& context);
void add_unload(CLI::App& app, CommandContext& context);
void add_verify(CLI::App& app, CommandContext& context);
void add_rm(CLI::App& app, CommandContext& context);
void add_gc(CLI::App& app, CommandContext& context);
void add_inspect(CLI::App& app, CommandContext& context);
void add_shard(CLI::App& app, CommandContext& context);
void add_run(CLI::App& app, CommandContext& context);
void add_bench(CLI::App& app, CommandContext& context);
void add_stage(CLI::App& app, CommandContext& context);

// Names of the pinned llama.cpp, for handshakes and --version.
inline constexpr const char* kLlamaPin = "v0.4.0";

}  // namespace salvage::app
