#include "engine/llama/checkpoint_store.h"

#include <fmt/format.h>

namespace salvage::engine {
namespace {

constexpr llama_state_seq_flags kPartial = LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY;

tl::unexpected<Error> no_checkpoint(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace

CheckpointStore::CheckpointStore(std::uint32_t count, std::uint64_t bytes)
    : bytes_(bytes), slots_(count) {
  // Not value-initialised: pages that no state was written to cost nothing.
  for (Slot& slot : slots_) slot.data = std::make_unique_for_overwrite<std::uint8_t[]>(bytes);
}

Result<void> CheckpointStore::save(llama_context* context, SequenceId sequence,
                                   CheckpointId checkpoint, std::int32_t position) {
  if (checkpoint.value >= slots_.size()) {
    return no_checkpoint(
        fmt::format("checkpoint {} of at most {}", checkpoint.value, slots_.size()));
  }
  const auto id = static_cast<llama_seq_id>(sequence.value);
  const llama_pos last = llama_memory_seq_pos_max(llama_get_memory(context), id);
  if (position <= 0 || last + 1 != position) {
    return no_checkpoint(fmt::format("a checkpoint at {} of sequence {}, which ends at {}",
                                     position, sequence.value, last + 1));
  }
  Slot& slot = slots_[checkpoint.value];
  slot.bytes = 0;
  const std::size_t written =
      llama_state_seq_get_data_ext(context, slot.data.get(), bytes_, id, kPartial);
  if (written == 0) {
    return fail(ErrorCode::kInternal, fmt::format("the state of sequence {} does not fit {} bytes",
                                                  sequence.value, bytes_));
  }
  slot.bytes = written;
  slot.position = position;
  return {};
}

Result<void> CheckpointStore::restore(llama_context* context, SequenceId sequence,
                                      CheckpointId checkpoint, std::int32_t position) const {
  if (checkpoint.value >= slots_.size() || slots_[checkpoint.value].bytes == 0) {
    return no_checkpoint(fmt::format("there is no checkpoint {}", checkpoint.value));
  }
  const Slot& slot = slots_[checkpoint.value];
  if (slot.position != position) {
    return no_checkpoint(fmt::format("checkpoint {} was saved at {}, not at {}", checkpoint.value,
                                     slot.position, position));
  }
  const auto id = static_cast<llama_seq_id>(sequence.value);
  const std::size_t read =
      llama_state_seq_set_data_ext(context, slot.data.get(), slot.bytes, id, kPartial);
  llama_memory_t memory = llama_get_memory(context);
  // Then the recurrent part ends before `position`, and what remains to be cut is keys and values.
  const bool cut = read == slot.bytes && llama_memory_seq_rm(memory, id, position, -1);
  if (!cut || llama_memory_seq_pos_max(memory, id) + 1 != position) {
    return fail(ErrorCode::kInternal,
                fmt::format("sequence {} could not go back to checkpoint {} at {}", sequence.value,
                            checkpoint.value, position));
  }
  return {};
}

std::uint64_t state_bytes(llama_context* context, SequenceId sequence) {
  return llama_state_seq_get_size_ext(context, static_cast<llama_seq_id>(sequence.value), kPartial);
}

}  // namespace salvage::engine
