// The client's thread that reads results: what came back, what is sampled from it, and whose it is.

#include <algorithm>
#include <utility>

#include "pipeline/pipeline_client.h"

namespace salvage::pipeline {

void PipelineClient::result_loop() {
  transport::IncomingFrame frame;
  for (;;) {
    Result<void> done = receive_result(frame);
    if (done) done = take_result();
    deliver_all();
    if (done) results_.acknowledge();  // nothing goes back on this link; the next step is under way
    if (!done) return break_down(Error(done.error()).within("from the last stage"));
  }
}

Result<void> PipelineClient::receive_result(transport::IncomingFrame& frame) {
  for (;;) {
    RETURN_IF_ERROR(results_.receive_frame(frame));
    if (frame.header.type != wire::FrameType::kStepResult) {
      return fail(ErrorCode::kCorrupt, "a result link carried another frame than a result");
    }
    if (frame.header.epoch == options_.epoch) break;
    if (frame.header.data_bytes != 0) RETURN_IF_ERROR(results_.skip_data());
  }
  RETURN_IF_ERROR(wire::decode(frame.header, frame.body, result_));
  if (result_.row_count > options_.limits.logit_rows_max ||
      result_.vocabulary_size != options_.vocabulary_size) {
    return fail(ErrorCode::kCorrupt, "a result does not fit the plan");
  }
  const bool candidates = result_.form == wire::LogitsForm::kTopK && result_.top_k > 0;
  if (result_.form != wire::LogitsForm::kAll && !candidates) {
    return fail(ErrorCode::kCorrupt, "a result has nothing to choose a token from");
  }
  ASSIGN_OR_RETURN(auto logits, logits_.resize(result_.data_bytes() / sizeof(float)));
  if (logits.empty()) return {};
  return results_.receive_data(logits_.bytes());
}

Result<void> PipelineClient::take_result() {
  if (observer_) observer_(result_);
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const StepOutcome outcome, scheduler_.on_result(result_.step, result_.skipped));
  ++step_count_;
  if (outcome.progress) take_progress(*outcome.progress);
  for (const ResultRow& row : outcome.rows) {
    if (row.index >= result_.row_count) {
      return fail(ErrorCode::kCorrupt, "a result lacks rows that were asked for");
    }
    take_row(row);
  }
  return pump();
}

void PipelineClient::take_progress(const PromptProgress& progress) {
  const auto found = live_.find(progress.request);
  if (found == live_.end() || !found->second->request.handler.progress) return;
  events_.push_back(
      [live = found->second, progress, reused = scheduler_.reused_count(progress.request)] {
        live->request.handler.progress(progress.done, progress.total, reused);
      });
}

void PipelineClient::take_row(const ResultRow& row) {
  const auto found = live_.find(row.request);
  if (found == live_.end()) return;
  const std::shared_ptr<Live> live = found->second;
  if (result_.form == wire::LogitsForm::kAll && live->request.handler.logits) {
    // Valid until this thread receives again, which is after it delivered the events.
    events_.push_back([live, position = row.position, logits = logits_row(row.index)] {
      live->request.handler.logits(position, logits);
    });
  }
  if (!row.samples) return;
  if (live->request.answer_tokens_max == 0) return end(row.request, FinishReason::kLength);
  accept(row.request, *live, sample(*live, row.index));
}

std::span<const float> PipelineClient::logits_row(std::uint32_t index) const {
  const std::size_t vocabulary = result_.vocabulary_size;
  if (result_.form != wire::LogitsForm::kAll) return {};
  return logits_.floats().subspan(index * vocabulary, vocabulary);
}

TokenId PipelineClient::sample(Live& live, std::uint32_t index) {
  engine::Sampler& sampler = *live.request.sampler;
  if (result_.form == wire::LogitsForm::kAll) return sampler.choose(logits_row(index));
  const std::size_t begin = std::size_t{index} * result_.top_k;
  return sampler.choose(engine::TopLogits{
      .ids = std::span<const TokenId>(result_.ids).subspan(begin, result_.top_k),
      .logits = std::span<const float>(result_.logits).subspan(begin, result_.top_k),
      .log_sum_exp = result_.log_sum_exp[index]});
}

void PipelineClient::accept(RequestId id, Live& live, TokenId token) {
  const TimePoint now = clock_.now();
  if (live.stats.answer_tokens == 0) {
    live.first_token = now;
    live.stats.ttft_seconds = seconds_between(live.submitted, now);
  }
  live.stats.decode_seconds = seconds_between(live.first_token, now);
  if (token < 0) return end_without_token(id);
  if (live.request.ends && live.request.ends(token)) return end(id, FinishReason::kStop);
  if (const auto& logprobs = live.request.sampler->logprobs();
      logprobs && live.request.handler.logprobs) {
    events_.push_back([shared = live_.at(id), logprobs = *logprobs] {
      shared->request.handler.logprobs(logprobs);
    });
  }
  live.request.sampler->accept(token);
  ++live.stats.answer_tokens;
  events_.push_back([shared = live_.at(id), token] {
    if (shared->request.handler.token) shared->request.handler.token(token);
  });
  if (live.stats.answer_tokens == live.request.answer_tokens_max) {
    return end(id, FinishReason::kLength);
  }
  if (!scheduler_.has_room(id)) return end(id, FinishReason::kContextFull);
  scheduler_.on_token(id, token);
}

// A grammar may come to where no token of the model goes on; the other requests are not to blame.
void PipelineClient::end_without_token(RequestId id) {
  let_go(id);
  events_.push_back([live = live_.at(id)] {
    if (live->request.handler.failed) {
      live->request.handler.failed(
          Error(ErrorCode::kUnsupported, "the grammar allows no token of this model here"));
    }
  });
  live_.erase(id);
}

}  // namespace salvage::pipeline
