#include "pipeline/generation.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "base/bounded_queue.h"
#include "engine/chat.h"
#include "pipeline/request_news.h"
#include "pipeline/text_stream.h"
#include "wire/xxh3.h"

namespace salvage::pipeline {
namespace {

// News of the line and of the prompt that wait to be heard; further ones are left out.
constexpr std::size_t kNewsMax = 1024;

using Event = std::variant<Waits, Read, TokenId, Ended, Error>;

// Outlives the request: the last event may be delivered after the reader has left.
using EventQueue = std::shared_ptr<BoundedQueue<Event>>;

RequestHandler handler_for(const EventQueue& events) {
  RequestHandler handler;
  const auto tell = [events](Event event) {
    if (events->size() < kNewsMax) (void)events->push(std::move(event));
  };
  handler.queued = [tell](std::uint32_t place) { tell(Waits{place}); };
  handler.progress = [tell](std::uint32_t done, std::uint32_t total, std::uint32_t reused) {
    tell(Read{done, total, reused});
  };
  handler.token = [events](TokenId token) { (void)events->push(token); };
  handler.done = [events](FinishReason reason, const RequestStats& stats) {
    (void)events->push(Ended{reason, stats});
  };
  handler.failed = [events](const Error& error) { (void)events->push(error); };
  return handler;
}

// Hashes of the rows of logits, by position: a replay reports a position again.
class LogitsHash {
 public:
  void add(std::uint32_t position, std::span<const float> logits) {
    rows_[position] = wire::xxh3(std::as_bytes(logits));
  }
  std::uint64_t value() const {
    std::vector<std::uint64_t> hashes;
    for (const auto& [position, hash] : rows_) hashes.push_back(hash);
    return wire::xxh3(std::as_bytes(std::span(hashes)));
  }

 private:
  std::map<std::uint32_t, std::uint64_t> rows_;
};

}  // namespace

Result<void> set_prompt(const engine::TextTools& text, const std::string& typed, bool chat,
                        GenerationOptions& options) {
  const engine::Vocabulary& vocabulary = *text.vocabulary;
  if (!chat) {
    ASSIGN_OR_RETURN(options.prompt, vocabulary.tokenize(typed, {}));
    return {};
  }
  ASSIGN_OR_RETURN(const auto format, text.make_chat_format());
  engine::ChatRequest request;
  request.messages.push_back({{"role", "user"}, {"content", typed}});
  ASSIGN_OR_RETURN(engine::ChatPrompt prompt, format->apply(request));
  options.prompt = std::move(prompt.tokens);
  options.turn = prompt.turn;
  options.stop = std::move(prompt.stop);
  return {};
}

double Generation::prefill_rate() const {
  const std::uint32_t computed = stats.prompt_tokens - stats.reused_tokens;
  const double seconds = stats.ttft_seconds - stats.queue_seconds;
  return seconds > 0 ? computed / seconds : 0;
}

double Generation::decode_rate() const {
  const bool measurable = stats.decode_seconds > 0 && stats.answer_tokens > 1;
  return measurable ? (stats.answer_tokens - 1) / stats.decode_seconds : 0;
}

namespace {

// Follows one request on the thread of whoever asked: events in, text and figures out.
class Follower {
 public:
  // `cancel` ends the request; its end still comes as an event.
  Follower(const engine::Vocabulary& vocabulary, const GenerationOptions& options,
           const GenerationListener& listener, std::function<void()> cancel)
      : stream_(vocabulary, options.stop), listener_(listener), cancel_(std::move(cancel)) {}

  void take(const Waits& waits) const {
    if (listener_.queued) listener_.queued(waits.place);
  }
  void take(const Read& read) const {
    if (listener_.progress) listener_.progress(read.done, read.total, read.reused);
  }
  // What was computed before the pipeline heard that the answer is over is no part of it.
  void take(TokenId token) {
    if (stream_.stopped()) return;
    generation_.tokens.push_back(token);
    if (listener_.token) listener_.token(token);
    emit(stream_.push(token));
    if (stream_.stopped()) cancel_();
  }
  void take(const Ended& ended) {
    emit(stream_.finish());
    generation_.reason = stream_.stopped() ? FinishReason::kStop : ended.reason;
    generation_.by_end_token = ended.reason == FinishReason::kStop;
    generation_.stats = ended.stats;
    end_.emplace();
  }
  void take(const Error& error) {
    emit(stream_.finish());
    end_ = fail(error);
  }

  const std::optional<Result<void>>& end() const { return end_; }
  Generation& generation() { return generation_; }

 private:
  void emit(const std::string& part) {
    generation_.text += part;
    if (!part.empty() && !listener_.show(part)) cancel_();
  }

  TextStream stream_;
  const GenerationListener& listener_;
  const std::function<void()> cancel_;
  Generation generation_;
  std::optional<Result<void>> end_;
};

Result<GenerateRequest> request_of(const engine::TextTools& text,
                                   const GenerationOptions& options) {
  GenerateRequest request;
  request.prompt = options.prompt;
  request.turn = options.turn;
  request.answer_tokens_max = options.tokens_max;
  ASSIGN_OR_RETURN(request.sampler, text.make_sampler(options.sampling));
  if (!options.ignore_end) {
    request.ends = [vocabulary = text.vocabulary](TokenId token) {
      return vocabulary->ends_generation(token);
    };
  }
  return request;
}

}  // namespace

Result<Generation> generate(PipelineClient& client, const engine::TextTools& text,
                            const GenerationOptions& options, const GenerationListener& listener,
                            const StopToken& stop) {
  // Room for all of a whole answer: who reads slowly holds up nobody else's.
  const auto events =
      std::make_shared<BoundedQueue<Event>>(std::size_t{options.tokens_max} + kNewsMax + 1);
  ASSIGN_OR_RETURN(GenerateRequest request, request_of(text, options));
  request.handler = handler_for(events);
  const auto hash = std::make_shared<LogitsHash>();
  if (options.hash_logits) {
    request.logits_for_prompt = true;
    request.handler.logits = [hash](std::uint32_t position, std::span<const float> logits) {
      hash->add(position, logits);
    };
  }
  ASSIGN_OR_RETURN(const RequestId id, client.generate(std::move(request)));
  const std::stop_callback on_stop(stop, [&client, id] { client.cancel(id); });
  Follower follower(*text.vocabulary, options, listener, [&client, id] { client.cancel(id); });
  while (!follower.end()) {
    const std::optional<Event> event = events->pop();
    std::visit([&](const auto& it) { follower.take(it); }, *event);
  }
  RETURN_IF_ERROR(*follower.end());
  if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "interrupted");
  if (options.hash_logits) follower.generation().logits_hash = hash->value();
  return std::move(follower.generation());
}

}  // namespace salvage::pipeline
