#pragma once

// The life of one request as the cluster tells it: where it is, in which plan epoch, how far. A
// pure state machine, for `salvage ps` now and for taking up answers again after a loss later. One
// thread owns it. Events that don't fit the state change nothing and give false: late frames of a
// request that is over are no error.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/ids.h"

namespace salvage::cluster {

enum class RequestState { kQueued, kPrefill, kDecode, kDone, kFailed, kCancelled };
std::string_view request_state_name(RequestState state);  // "queued", ...

class RequestLife {
 public:
  RequestLife(RequestId request, std::uint32_t prompt_tokens)
      : request_(request), prompt_tokens_(prompt_tokens) {}

  // Its first rows go out in this epoch. Again with a higher epoch: it is computed anew.
  bool start(PlanEpoch epoch);
  // So many prompt tokens are in the KV caches, all told.
  bool prefilled(PlanEpoch epoch, std::uint32_t tokens);
  // One more token of the answer.
  bool token(PlanEpoch epoch);
  // The epoch's pipeline is gone; the request waits for another one and keeps its tokens.
  bool requeue(PlanEpoch epoch);
  bool finish();
  bool fail(std::string reason);
  bool cancel();

  RequestId request() const { return request_; }
  RequestState state() const { return state_; }
  bool over() const { return state_ >= RequestState::kDone; }
  PlanEpoch epoch() const { return epoch_; }
  std::uint32_t prompt_tokens() const { return prompt_tokens_; }
  std::uint32_t prefilled_tokens() const { return prefilled_; }
  std::uint32_t answer_tokens() const { return answer_tokens_; }
  std::uint32_t restarts() const { return restarts_; }
  const std::string& reason() const { return reason_; }

 private:
  bool end(RequestState state, std::string reason);
  RequestId request_;
  RequestState state_ = RequestState::kQueued;
  PlanEpoch epoch_;
  std::uint32_t prompt_tokens_;
  std::uint32_t prefilled_ = 0;
  std::uint32_t answer_tokens_ = 0;
  std::uint32_t restarts_ = 0;
  std::string reason_;
};

}  // namespace salvage::cluster
