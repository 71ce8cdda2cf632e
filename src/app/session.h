#pragma once

// A model, loaded and ready on this machine: what `run` and `bench` share. Opening one reads the
// model, decides the split, checks memory, makes the shards that are missing, and starts the stage
// workers. Open it from the main thread: the workers live as long as that thread.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "agent/local_pipeline.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/stop.h"
#include "engine/text.h"
#include "model/manifest.h"
#include "transport/transport.h"

namespace salvage::app {

struct SessionOptions {
  std::string model;
  std::uint32_t stages = 0;          // 0: one, or as many as `split` has
  std::vector<std::uint32_t> split;  // layers or shares a stage
  std::uint32_t threads = 0;         // a stage; 0: this machine's cores shared by the stages
  std::uint32_t context = 0;  // tokens a sequence; 0: what the model was trained for, at most 4096
  std::uint32_t sequences = 1;
  std::string cache_type_k = "q8_0";
  std::string cache_type_v = "q8_0";
  std::string hidden = "f32";
  std::uint32_t chunk = 0;           // rows a micro-batch of a prompt; 0: chosen
  bool exact = false;                // false: exact only where that is free
  std::vector<std::uint32_t> cores;  // dealt out to the stages in order, `threads` each
  bool quiet = false;
};

// Declares the options above, all but `sequences`.
void add_session_options(CLI::App& command, SessionOptions& options);

class Session {
 public:
  static Result<std::unique_ptr<Session>> open(const SessionOptions& options,
                                               const StopToken& stop);

  const model::Manifest& manifest() const { return manifest_; }
  const engine::TextTools& text() const { return text_; }
  agent::LocalPipeline& pipeline() { return *pipeline_; }
  std::uint32_t context() const { return context_; }
  std::uint32_t threads() const { return threads_; }
  double load_seconds() const { return load_seconds_; }

  // Why answers are not promised to be bit-identical to one machine's; empty = they are.
  std::vector<std::string> inexact_conditions() const;
  // The layer table: which stage holds what, for people, in their language.
  std::string layer_table(const std::vector<wire::Stats>& stats) const;

 private:
  explicit Session(const SessionOptions& options) : options_(options) {}
  Result<void> start(const StopToken& stop);
  Result<void> choose_context(const std::vector<LayerRange>& stages);
  Result<std::vector<engine::StageOptions>> stage_options(const model::Gguf& file,
                                                          const std::vector<LayerRange>& stages,
                                                          const StopToken& stop);
  engine::StageOptions common_options(std::size_t stage) const;
  Result<void> check_cores(std::size_t stage_count) const;
  Result<void> start_workers(std::vector<engine::StageOptions> stages, const StopToken& stop);

  const SessionOptions options_;
  SteadyClock clock_;
  std::unique_ptr<transport::Transport> transport_;
  model::Manifest manifest_;
  std::uint32_t context_ = 0;
  std::uint32_t threads_ = 1;
  std::uint32_t checkpoints_ = 0;  // saved states of recurrent layers that stages have room for
  bool exact_ = false;
  double load_seconds_ = 0;
  std::filesystem::path vocabulary_;
  engine::TextTools text_;
  std::unique_ptr<agent::LocalPipeline> pipeline_;
};

}  // namespace salvage::app
