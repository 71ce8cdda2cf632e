#pragma once

// States of sequences that can't be cut back (recurrent and hybrid models), kept so that a sequence
// can go back to where it was. A state is what libllama calls partial: the recurrent part alone,
// of the same size however long the sequence is. Keys and values of a hybrid model stay in the
// cache, which is cut back to the state's position when the state is restored.
//
// Room is bounded: `count` states of `bytes`, fixed when the stage loads and reserved in the plan;
// a page of it costs memory once it was written. Nothing is ever evicted: whoever numbers the
// checkpoints (pipeline/prefix_cache.h) says which one a new state replaces, so every stage of a
// pipeline always holds the same ones.
//
// Owned by one engine and called on its thread. The context must outlive the calls, not the object.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <llama.h>

#include "base/ids.h"
#include "base/result.h"

namespace salvage::engine {

class CheckpointStore {
 public:
  CheckpointStore() = default;
  // std::bad_alloc if there is no address space for it.
  CheckpointStore(std::uint32_t count, std::uint64_t bytes);

  std::uint64_t bytes() const { return bytes_; }  // of one
  std::uint32_t count() const { return static_cast<std::uint32_t>(slots_.size()); }

  // `sequence` must end before `position`. `internal` if the state doesn't fit the room.
  Result<void> save(llama_context* context, SequenceId sequence, CheckpointId checkpoint,
                    std::int32_t position);
  // `sequence` ends before `position` afterwards. Its keys and values before that must be there.
  Result<void> restore(llama_context* context, SequenceId sequence, CheckpointId checkpoint,
                       std::int32_t position) const;

 private:
  struct Slot {
    std::unique_ptr<std::uint8_t[]> data;
    std::size_t bytes = 0;       // of the state in it; 0: none
    std::int32_t position = -1;  // where the sequence ended when it was saved
  };

  std::uint64_t bytes_ = 0;
  std::vector<Slot> slots_;
};

// What the state of `sequence` takes now.
std::uint64_t state_bytes(llama_context* context, SequenceId sequence);

}  // namespace salvage::engine
