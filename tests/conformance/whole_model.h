#pragma once

// The truth that stages are compared with: the whole model in one process, through plain llama.h
// and none of our engine's code. Same settings as a stage: flash attention, q8_0 KV cache.

#include <filesystem>
#include <memory>

#include "base/result.h"
#include "logits.h"
#include "model/cache_type.h"
#include "run_plan.h"

namespace salvage::conformance {

class WholeModel {
 public:
  // Loads the file; calls libllama, which may abort the process.
  static Result<WholeModel> load(const std::filesystem::path& path,
                                 CacheType cache_type = CacheType::kQ8_0, bool repack = true);
  WholeModel(WholeModel&&) noexcept;
  WholeModel& operator=(WholeModel&&) noexcept;
  ~WholeModel();

  std::uint32_t vocabulary_size() const;
  // Runs the plan from an empty cache; logits of every position.
  Result<Logits> run(const RunPlan& plan);

 private:
  struct State;
  explicit WholeModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace salvage::conformance
