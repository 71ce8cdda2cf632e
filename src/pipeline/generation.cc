#include "pipeline/generation.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "base/bounded_queue.h"
#include "engine/chat.h"
#include "pipeline/text_stream.h"
#include "wire/xxh3.h"

namespace salvage::pipeline {
namespace {

// Tokens that the reader of the text may lag behind before the pipeline waits for it.
constexpr std::size_t kEventsMax = 1024;

struct Ended {
  FinishReason reason;
  RequestStats stats;
};
using Event = std::variant<TokenId, Ended, Error>;

// Outlives the request: the last event may be delivered after the reader has left.
using EventQueue = std::shared_ptr<BoundedQueue<Event>>;

RequestHandler handler_for(const EventQueue& events) {
  RequestHandler handler;
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
  return stats.ttft_seconds > 0 ? computed / stats.ttft_seconds : 0;
}

double Generation::decode_rate() const {
  const bool measurable = stats.decode_seconds > 0 && stats.answer_tokens > 1;
  return measurable ? (stats.answer_tokens - 1) / stats.decode_seconds : 0;
}

Result<Generation> generate(PipelineClient& client, const engine::TextTools& text,
                            const GenerationOptions& options,
                            const std::function<bool(std::string_view)>& show,
                            const StopToken& stop) {
  const auto events = std::make_shared<BoundedQueue<Event>>(kEventsMax);
  const auto vocabulary = text.vocabulary;
  GenerateRequest request;
  request.prompt = options.prompt;
  request.turn = options.turn;
  request.answer_tokens_max = options.tokens_max;
  ASSIGN_OR_RETURN(request.sampler, text.make_sampler(options.sampling));
  if (!options.ignore_end) {
    request.ends = [vocabulary](TokenId token) { return vocabulary->ends_generation(token); };
  }
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

  Generation generation;
  TextStream stream(*vocabulary, options.stop);
  // Cancelling reports the end into the queue that this thread empties: make room first.
  const auto cancel = [&] {
    while (events->try_pop()) {
    }
    client.cancel(id);
  };
  const auto emit = [&](const std::string& part) {
    generation.text += part;
    if (!part.empty() && !show(part)) cancel();
  };
  for (;;) {
    const std::optional<Event> event = events->pop();
    if (const auto* token = std::get_if<TokenId>(&*event)) {
      if (stream.stopped()) continue;
      generation.tokens.push_back(*token);
      emit(stream.push(*token));
      if (stream.stopped()) cancel();
    } else if (const auto* ended = std::get_if<Ended>(&*event)) {
      emit(stream.finish());
      generation.reason = stream.stopped() ? FinishReason::kStop : ended->reason;
      generation.stats = ended->stats;
      if (options.hash_logits) generation.logits_hash = hash->value();
      if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "interrupted");
      return generation;
    } else {
      emit(stream.finish());
      return fail(std::get<Error>(*event));
    }
  }
}

}  // namespace salvage::pipeline
