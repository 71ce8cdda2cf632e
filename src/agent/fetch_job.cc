#include "agent/fetch_job.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/sha256.h"
#include "model/piece_catalogue.h"
#include "model/skeleton.h"

namespace salvage::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Logger kLog("fetch");
constexpr auto kReportPeriod = milliseconds(250);
constexpr auto kFetchTick = milliseconds(500);
// Others may fetch from us what we have just got; the list is long, so not after every piece.
constexpr auto kInventoryPeriod = seconds(2);
constexpr int kMakeTriesMax = 3;
constexpr auto kBlobTime = seconds(30);

Error cancelled_error() {
  return {ErrorCode::kCancelled, "the fetch was cancelled"};
}

}  // namespace

FetchJob::FetchJob(FetchJobOptions options, FetchJobEvents events, store::PieceStore& store,
                   transport::Transport& transport, const Clock& clock)
    : options_(std::move(options)),
      events_(std::move(events)),
      store_(store),
      transport_(transport),
      clock_(clock),
      model_{options_.order.model},
      layers_{options_.order.layer_begin, options_.order.layer_end},
      last_report_(clock.now()),
      thread_([this] { run(); }) {}

FetchJob::~FetchJob() {
  cancel();
  thread_.join();
}

void FetchJob::cancel() {
  stop_.request_stop();
  queue_.close();
}

void FetchJob::run() {
  state_.epoch = options_.order.epoch;
  state_.model = model_.value;
  const Result<void> done = carry_out();
  queue_.close();  // links that still deliver must not wait for us
  sources_.clear();
  writers_.clear();
  events_.inventory(model_);
  report_end(done);
  over_ = true;
}

Result<void> FetchJob::carry_out() {
  if (!is_digest(model_.value)) {
    return fail(ErrorCode::kInvalidArgument, "the order names no model");
  }
  RETURN_IF_ERROR(open_sources());
  report("catalogue", true);
  RETURN_IF_ERROR(get_catalogue());
  if (layers_.count() == 0) return {};  // the catalogue is all that was wanted
  RETURN_IF_ERROR(store_.check_room(model_, layers_));
  Result<void> made = get_and_make();
  // Damage that shows only when the shard is made: that piece is missing now, and fetched alone.
  for (int i = 1; i < kMakeTriesMax && !made && made.error().code() == ErrorCode::kCorrupt; ++i) {
    kLog.warn("fetched_again", {{"model", model_.value}, {"why", made.error().message()}});
    made = get_and_make();
  }
  return made;
}

Result<void> FetchJob::get_and_make() {
  ended_.reset();
  asked_.clear();
  RETURN_IF_ERROR(get_pieces());
  return options_.order.spare ? Result<void>() : make_files();
}

Result<void> FetchJob::open_sources() {
  for (const wire::FetchSource& known : options_.order.sources) {
    const NodeId node{known.node};
    if (node == options_.self || !is_digest(known.node)) continue;
    SourceOptions source{.node = node,
                         .endpoints = {},
                         .llama_pin = options_.llama_pin,
                         .wire_version = options_.wire_version};
    for (const std::string& text : known.endpoints) {
      ASSIGN_OR_RETURN(transport::Endpoint endpoint, transport::parse_endpoint(text));
      endpoint.node = node;
      source.endpoints.push_back(std::move(endpoint));
    }
    SourceEvents events;
    events.received = [this](SourceAnswer answer) { (void)queue_.push(std::move(answer)); };
    events.failed = [this](std::uint64_t request, const Error& error) {
      (void)queue_.push(Failed{request, error});
    };
    sources_[node] = {known, std::make_unique<WeightsSource>(std::move(source), std::move(events),
                                                             transport_, clock_)};
  }
  return {};
}

// --- the catalogue -------------------------------------------------------------------------------

Result<void> FetchJob::get_catalogue() {
  if (store_.entry(model_)) return {};
  ASSIGN_OR_RETURN(const std::string text, get_blob("entry", model::kEntryBytesMax));
  ASSIGN_OR_RETURN(const model::CatalogueEntry entry, model::parse_entry(text));
  if (entry.id() != model_) {
    return fail(ErrorCode::kCorrupt, "a source sent the catalogue entry of another model");
  }
  ASSIGN_OR_RETURN(const std::string skeleton, get_blob("skeleton", model::kSkeletonBytesMax));
  return store_.put_model(entry, skeleton);  // verifies the skeleton
}

Result<std::string> FetchJob::get_blob(const std::string& kind, std::uint64_t bytes_max) {
  Error last(ErrorCode::kUnavailable, "no other machine has this model");
  for (auto& [node, source] : sources_) {
    auto blob = get_blob_from(source, kind, bytes_max);
    if (blob || cancelled()) return blob;
    last = std::move(blob).error();
  }
  return fail(std::move(last).within(fmt::format("cannot fetch the model's {}", kind)));
}

Result<std::string> FetchJob::get_blob_from(Source& source, const std::string& kind,
                                            std::uint64_t bytes_max) {
  wire::BlobRequest range{.kind = kind, .name = model_.value, .offset = 0, .length = 0};
  ASSIGN_OR_RETURN(const SourceAnswer size, one_answer(source, range));
  if (size.total_bytes > bytes_max) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} bytes are over the limit of {}", size.total_bytes, bytes_max));
  }
  std::string blob;
  while (blob.size() < size.total_bytes) {
    range.offset = blob.size();
    range.length = std::min<std::uint64_t>(size.total_bytes - blob.size(), wire::kBlobBytesMax);
    ASSIGN_OR_RETURN(const SourceAnswer part, one_answer(source, range));
    blob.append(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
  }
  return blob;
}

// Before the plan exists there is one question at a time.
Result<SourceAnswer> FetchJob::one_answer(Source& source, const wire::BlobRequest& range) {
  const std::uint64_t request = next_request_++;
  source.link->ask({request, range});
  auto event = queue_.pop(deadline_after(clock_.now(), kBlobTime));
  if (cancelled()) return fail(cancelled_error());
  if (!event) {
    source.link->reset();
    return fail(ErrorCode::kDeadlineExceeded, "the source doesn't answer");
  }
  if (auto* failed = std::get_if<Failed>(&*event)) return fail(std::move(failed->error));
  auto& answer = std::get<SourceAnswer>(*event);
  if (answer.request != request) return fail(ErrorCode::kCorrupt, "an answer out of order");
  return std::move(answer);
}

// --- the pieces ----------------------------------------------------------------------------------

Result<void> FetchJob::get_pieces() {
  ASSIGN_OR_RETURN(const store::StageNeeds needs, store_.stage_needs(model_, layers_));
  std::vector<store::WantedPiece> wanted;
  for (const model::PieceEntry& piece : needs.missing) {
    auto writer = store_.begin_fetch(piece.digest);
    if (!writer) return fail(std::move(writer).error());
    wanted.push_back({piece.digest, piece.name, piece.bytes, (*writer)->offset()});
    writers_[piece.digest] = std::move(*writer);
  }
  plan_.emplace(std::move(wanted));
  return fetch_until_ended();
}

Result<void> FetchJob::fetch_until_ended() {
  report("pieces", true);
  for (const auto& [node, source] : sources_) {
    std::set<PieceDigest> has;
    for (const std::string& digest : source.known.pieces) has.insert(PieceDigest{digest});
    RETURN_IF_ERROR(apply(plan_->add_source(node, has, clock_.now())));
  }
  RETURN_IF_ERROR(apply(plan_->tick(clock_.now())));
  TimePoint next_tick = deadline_after(clock_.now(), kFetchTick);
  while (!ended_) {
    auto event = queue_.pop(next_tick);
    if (cancelled()) return fail(cancelled_error());
    if (event) RETURN_IF_ERROR(take(std::move(*event)));
    if (clock_.now() >= next_tick) {
      next_tick = deadline_after(clock_.now(), kFetchTick);
      RETURN_IF_ERROR(apply(plan_->tick(clock_.now())));
    }
    report("pieces", false);
  }
  return std::move(*ended_);
}

Result<void> FetchJob::take(Event event) {
  if (const auto* answer = std::get_if<SourceAnswer>(&event)) return take_bytes(*answer);
  auto& failed = std::get<Failed>(event);
  kLog.warn("range_failed", {{"why", failed.error.message()}});
  last_failure_ = std::move(failed.error);
  asked_.erase(failed.request);
  return apply(plan_->request_failed(failed.request, clock_.now()));
}

Result<void> FetchJob::take_bytes(const SourceAnswer& answer) {
  const auto asked = asked_.find(answer.request);
  if (asked == asked_.end()) return {};  // was dropped
  const store::AskRange range = asked->second;
  asked_.erase(asked);
  const auto writer = writers_.find(range.piece);
  if (writer != writers_.end()) {
    RETURN_IF_ERROR(writer->second->write(range.offset, answer.bytes));
  }
  return apply(plan_->received(answer.request, answer.bytes.size(), clock_.now()));
}

Result<void> FetchJob::apply(store::FetchActions actions) {
  for (store::FetchAction& action : actions) {
    if (const auto* range = std::get_if<store::AskRange>(&action)) {
      RETURN_IF_ERROR(ask(*range));
    } else if (const auto* drop = std::get_if<store::DropRequest>(&action)) {
      asked_.erase(drop->request);
      const auto source = sources_.find(drop->source);
      if (source != sources_.end()) source->second.link->reset();
    } else if (const auto* piece = std::get_if<store::FinishPiece>(&action)) {
      RETURN_IF_ERROR(finish(piece->piece));
    } else {
      auto& ended = std::get<store::FetchEnded>(action);
      Result<void> how;
      if (ended.error) how = fail(std::move(*ended.error));
      if (ended.error && last_failure_) {
        how = fail(Error(how.error().code(),
                         fmt::format("{} ({})", how.error().message(), last_failure_->message())));
      }
      ended_ = std::move(how);
    }
  }
  return {};
}

Result<void> FetchJob::ask(const store::AskRange& range) {
  const auto source = sources_.find(range.source);
  if (source == sources_.end()) {
    return fail(ErrorCode::kInternal, "the plan asks a source that is not there");
  }
  asked_[range.request] = range;
  source->second.link->ask({range.request,
                            {.kind = "piece",
                             .name = range.piece.value,
                             .offset = range.offset,
                             .length = range.bytes}});
  return {};
}

Result<void> FetchJob::finish(const PieceDigest& piece) {
  const auto writer = writers_.find(piece);
  if (writer == writers_.end()) return fail(ErrorCode::kInternal, "a piece without a writer");
  const Result<void> stored =
      writer->second->finish([this](std::uint64_t) { return !cancelled(); });
  writers_.erase(writer);
  if (stored) {
    if (clock_.now() - last_inventory_ > kInventoryPeriod) {
      last_inventory_ = clock_.now();
      events_.inventory(model_);
    }
    return apply(plan_->piece_stored(piece, clock_.now()));
  }
  if (stored.error().code() != ErrorCode::kCorrupt) return fail(stored.error());
  kLog.warn("piece_rejected", {{"piece", piece.value}, {"why", stored.error().message()}});
  ASSIGN_OR_RETURN(writers_[piece], store_.begin_fetch(piece));  // from its beginning
  return apply(plan_->piece_rejected(piece, clock_.now()));
}

Result<void> FetchJob::make_files() {
  report("shard", true);
  const auto going = [this](std::string_view, double fraction) {
    (void)fraction;
    report("shard", false);
    return !cancelled();
  };
  ASSIGN_OR_RETURN(const store::StageFiles files,
                   store_.make_stage({.model = model_, .layers = layers_, .spares = {}}, going));
  events_.files(files);
  return {};
}

// --- reports -------------------------------------------------------------------------------------

void FetchJob::report(const std::string& phase, bool now) {
  if (!now && clock_.now() - last_report_ < kReportPeriod) return;
  last_report_ = clock_.now();
  state_.phase = phase;
  if (plan_) {
    state_.bytes_done = plan_->totals().bytes_done;
    state_.bytes_total = plan_->totals().bytes_total;
    state_.bytes_resumed = plan_->totals().bytes_resumed;
  }
  events_.progress(state_);
}

void FetchJob::report_end(const Result<void>& done) {
  if (!done) {
    state_.error_code = error_code_name(done.error().code());
    state_.error = done.error().message();
    if (!cancelled()) {
      kLog.error("fetch_failed", {{"model", model_.value}, {"why", done.error().message()}});
    }
  }
  report(done ? "done" : "failed", true);
}

}  // namespace salvage::agent
