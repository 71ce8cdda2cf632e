#pragma once

// A real model cut over real worker processes and ready to be asked: what `salvage run` does, but
// for room for the logits of every position and for what a test wants otherwise. Call it from one
// thread. Failure: a Result.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "agent/local_pipeline.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "engine/text.h"
#include "pipeline/pipeline_client.h"
#include "transport/transport.h"
#include "wire/control.h"

namespace salvage::e2e {

constexpr std::uint32_t kContext = 512;
constexpr std::uint32_t kSequences = 5;  // one answer and four others beside it

// What one request gave, by position.
struct Observed {
  std::vector<TokenId> tokens;
  std::map<std::uint32_t, std::vector<float>> logits;
  pipeline::RequestStats stats;
};

struct PipelineShape {
  std::uint32_t stages = 1;
  wire::HiddenType hidden = wire::HiddenType::kF32;
  std::optional<bool> exact;  // none: as `run` decides unasked
  bool self_check = true;
  std::uint32_t chunk_rows = 0;  // 0: chosen from prompt and stages
};

class Cluster {
 public:
  static Result<std::unique_ptr<Cluster>> start(const std::filesystem::path& model,
                                                const PipelineShape& shape);
  ~Cluster();

  agent::LocalPipeline& pipeline() { return *pipeline_; }
  // What the session statistics say: did every stage prove that its bits don't move?
  bool claims_exact() const;

  struct Ask {
    std::vector<TokenId> prompt;
    std::uint32_t tokens = 0;
    bool prompt_logits = false;         // rules prefix reuse out
    std::uint32_t replay_at_token = 0;  // 0: no replay
  };
  // Asks everything at once; answers in the order of `asks`.
  Result<std::vector<Observed>> ask(const std::vector<Ask>& asks);
  Result<Observed> ask_one(const Ask& one);

 private:
  struct Answers;
  Cluster();
  Result<void> load(const std::filesystem::path& model, const PipelineShape& shape);
  Result<pipeline::GenerateRequest> make_request(const Ask& ask, std::size_t index,
                                                 const std::shared_ptr<Answers>& answers);

  SteadyClock clock_;
  std::unique_ptr<transport::Transport> transport_;
  engine::TextTools text_;
  std::unique_ptr<agent::LocalPipeline> pipeline_;
};

}  // namespace salvage::e2e
