#include "app/generation.h"

#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "app/stop_filter.h"
#include "base/bounded_queue.h"
#include "base/utf8.h"

namespace salvage::app {
namespace {

// Tokens that the reader of the text may lag behind before the pipeline waits for it.
constexpr std::size_t kEventsMax = 1024;

struct Ended {
  pipeline::FinishReason reason;
  pipeline::RequestStats stats;
};
using Event = std::variant<TokenId, Ended, Error>;

// Outlives the request: the last event may be delivered after the reader has left.
using EventQueue = std::shared_ptr<BoundedQueue<Event>>;

pipeline::RequestHandler handler_for(const EventQueue& events) {
  pipeline::RequestHandler handler;
  handler.token = [events](TokenId token) { (void)events->push(token); };
  handler.done = [events](pipeline::FinishReason reason, const pipeline::RequestStats& stats) {
    (void)events->push(Ended{reason, stats});
  };
  handler.failed = [events](const Error& error) { (void)events->push(error); };
  return handler;
}

// Turns tokens into text that may be shown.
class TextStream {
 public:
  TextStream(const engine::Vocabulary& vocabulary, std::vector<std::string> stops)
      : vocabulary_(vocabulary), filter_(std::move(stops)) {}

  std::string push(TokenId token) {
    return filter_.push(utf8_.push(vocabulary_.piece(token, false)));
  }
  std::string finish() {
    std::string rest = filter_.push(utf8_.finish());
    return rest + filter_.finish();
  }
  bool stopped() const { return filter_.stopped(); }

 private:
  const engine::Vocabulary& vocabulary_;
  Utf8Stream utf8_;
  StopFilter filter_;
};

}  // namespace

double Generation::prefill_rate() const {
  const std::uint32_t computed = stats.prompt_tokens - stats.reused_tokens;
  return stats.ttft_seconds > 0 ? computed / stats.ttft_seconds : 0;
}

double Generation::decode_rate() const {
  const bool measurable = stats.decode_seconds > 0 && stats.answer_tokens > 1;
  return measurable ? (stats.answer_tokens - 1) / stats.decode_seconds : 0;
}

Result<Generation> generate(Session& session, const GenerationOptions& options,
                            const std::function<bool(std::string_view)>& show,
                            const StopToken& stop) {
  const auto events = std::make_shared<BoundedQueue<Event>>(kEventsMax);
  const auto vocabulary = session.text().vocabulary;
  pipeline::GenerateRequest request;
  request.prompt = options.prompt;
  request.answer_tokens_max = options.tokens_max;
  ASSIGN_OR_RETURN(request.sampler, session.text().make_sampler(options.sampling));
  if (!options.ignore_end) {
    request.ends = [vocabulary](TokenId token) { return vocabulary->ends_generation(token); };
  }
  request.handler = handler_for(events);
  pipeline::PipelineClient& client = session.pipeline().client();
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
  const auto emit = [&](const std::string& text) {
    generation.text += text;
    if (!text.empty() && !show(text)) cancel();
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
      generation.reason = stream.stopped() ? pipeline::FinishReason::kStop : ended->reason;
      generation.stats = ended->stats;
      if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "interrupted");
      return generation;
    } else {
      emit(stream.finish());
      return fail(std::get<Error>(*event));
    }
  }
}

}  // namespace salvage::app
