#include "cluster/request_life.h"

#include <algorithm>
#include <utility>

namespace salvage::cluster {

std::string_view request_state_name(RequestState state) {
  switch (state) {
    case RequestState::kQueued:
      return "queued";
    case RequestState::kPrefill:
      return "prefill";
    case RequestState::kDecode:
      return "decode";
    case RequestState::kDone:
      return "done";
    case RequestState::kFailed:
      return "failed";
    case RequestState::kCancelled:
      return "cancelled";
  }
  return "queued";
}

bool RequestLife::start(PlanEpoch epoch) {
  if (over() || epoch <= epoch_) return false;
  if (epoch_.value != 0) ++restarts_;
  epoch_ = epoch;
  prefilled_ = 0;
  state_ = RequestState::kPrefill;
  return true;
}

bool RequestLife::prefilled(PlanEpoch epoch, std::uint32_t tokens) {
  if (state_ != RequestState::kPrefill || epoch != epoch_) return false;
  // After a restart the answer so far is computed again together with the prompt.
  const std::uint32_t all = prompt_tokens_ + answer_tokens_;
  if (tokens < prefilled_ || tokens > all) return false;
  prefilled_ = tokens;
  if (prefilled_ == all) state_ = RequestState::kDecode;
  return true;
}

bool RequestLife::token(PlanEpoch epoch) {
  if (state_ != RequestState::kDecode || epoch != epoch_) return false;
  ++answer_tokens_;
  return true;
}

bool RequestLife::requeue(PlanEpoch epoch) {
  const bool runs = state_ == RequestState::kPrefill || state_ == RequestState::kDecode;
  if (!runs || epoch != epoch_) return false;
  state_ = RequestState::kQueued;
  prefilled_ = 0;
  return true;
}

bool RequestLife::finish() {
  return state_ == RequestState::kDecode && end(RequestState::kDone, "");
}
bool RequestLife::fail(std::string reason) {
  return end(RequestState::kFailed, std::move(reason));
}
bool RequestLife::cancel() {
  return end(RequestState::kCancelled, "");
}

bool RequestLife::end(RequestState state, std::string reason) {
  if (over()) return false;
  state_ = state;
  reason_ = std::move(reason);
  return true;
}

}  // namespace salvage::cluster
