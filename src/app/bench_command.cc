// `salvage bench`: what this model does on this machine with these stages. Each test runs several
// times and the best one counts, since other work on a machine only ever makes it slower. Prompts
// are random tokens, different each time, so that nothing is reused.

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/command.h"
#include "app/format.h"
#include "app/progress.h"
#include "app/session.h"
#include "app/words.h"
#include "base/bounded_queue.h"
#include "base/random.h"
#include "pipeline/chunking.h"

namespace salvage::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kSeed = 20240521;
// Tokens in the context when decode begins; it grows from there, so it belongs to the figure.
constexpr std::uint32_t kDecodeDepth = 1;

struct BenchOptions {
  SessionOptions session;
  std::vector<std::uint32_t> prompts{512};
  std::uint32_t tokens = 64;
  std::vector<std::uint32_t> parallel{1};
  std::uint32_t repeat = 3;
  bool json = false;
  bool csv = false;
};

struct StageLoad {
  double busy = 0;  // share of the test's time in which the stage computed
  std::uint64_t rss_peak_bytes = 0;
};

struct Measurement {
  std::string test;  // "prefill" or "decode"
  std::uint32_t tokens = 0;
  std::uint32_t parallel = 1;
  std::uint32_t chunks = 0;
  double seconds = 0;
  double tokens_per_second = 0;
  double ttft_seconds = 0;
  std::vector<StageLoad> stages;

  double tpot_seconds() const { return tokens_per_second > 0 ? parallel / tokens_per_second : 0; }
  double bubble() const {
    double busy = 0;
    for (const StageLoad& stage : stages) busy += stage.busy;
    return stages.empty() ? 0 : 1 - busy / static_cast<double>(stages.size());
  }
};

// Random prompts; lets tokens of one round end at once.
class Bench {
 public:
  Bench(Session& session, const BenchOptions& options, const StopToken& stop)
      : session_(session), options_(options), stop_(stop), random_(kSeed) {}

  Result<Measurement> prefill(std::uint32_t tokens);
  Result<Measurement> decode(std::uint32_t parallel);

 private:
  struct Round {
    double wall_seconds = 0;    // from the first submission to the last end
    double ttft_seconds = 0;    // the last first token
    double decode_seconds = 0;  // the longest decode
    std::uint64_t answer_tokens = 0;
  };
  Result<Round> play(std::uint32_t parallel, std::uint32_t prompt, std::uint32_t tokens);
  std::vector<TokenId> random_prompt(std::uint32_t tokens);
  Result<std::vector<StageLoad>> load_of(double seconds);

  Session& session_;
  const BenchOptions& options_;
  const StopToken& stop_;
  SteadyClock clock_;
  Random random_;
};

std::vector<TokenId> Bench::random_prompt(std::uint32_t tokens) {
  std::vector<TokenId> prompt(tokens);
  const std::uint32_t vocabulary = session_.pipeline().stages().back().facts.vocabulary_size;
  for (TokenId& token : prompt) token = static_cast<TokenId>(random_.below(vocabulary));
  return prompt;
}

Result<Bench::Round> Bench::play(std::uint32_t parallel, std::uint32_t prompt,
                                 std::uint32_t tokens) {
  using Outcome = Result<pipeline::RequestStats>;
  const auto outcomes = std::make_shared<BoundedQueue<Outcome>>(parallel);
  Round round;
  // A long prompt or answer is not waited for; the bench ends with it.
  const std::stop_callback on_stop(stop_, [this] {
    session_.pipeline().client().fail_all(Error(ErrorCode::kCancelled, "interrupted"));
  });
  const TimePoint begin = clock_.now();
  for (std::uint32_t i = 0; i < parallel; ++i) {
    pipeline::GenerateRequest request;
    request.prompt = random_prompt(prompt);
    request.answer_tokens_max = tokens;
    ASSIGN_OR_RETURN(request.sampler, session_.text().make_sampler({.temperature = 0}));
    request.handler.done = [outcomes](pipeline::FinishReason, const pipeline::RequestStats& stats) {
      (void)outcomes->push(stats);
    };
    request.handler.failed = [outcomes](const Error& error) { (void)outcomes->push(fail(error)); };
    RETURN_IF_ERROR(session_.pipeline().client().generate(std::move(request)));
  }
  for (std::uint32_t i = 0; i < parallel; ++i) {
    const auto outcome = outcomes->pop();
    if (!*outcome) return fail(outcome->error());
    round.ttft_seconds = std::max(round.ttft_seconds, (*outcome)->ttft_seconds);
    round.decode_seconds = std::max(round.decode_seconds, (*outcome)->decode_seconds);
    round.answer_tokens += (*outcome)->answer_tokens;
  }
  round.wall_seconds = seconds_between(begin, clock_.now());
  if (stop_.stop_requested()) return fail(ErrorCode::kCancelled, "interrupted");
  return round;
}

Result<std::vector<StageLoad>> Bench::load_of(double seconds) {
  ASSIGN_OR_RETURN(const auto stats, session_.pipeline().stats(true));
  std::vector<StageLoad> loads;
  for (const wire::Stats& stage : stats) {
    loads.push_back({static_cast<double>(stage.busy_us) / 1e6 / seconds, stage.rss_peak_bytes});
  }
  return loads;
}

Result<Measurement> Bench::prefill(std::uint32_t tokens) {
  const auto stage_count = static_cast<std::uint32_t>(session_.pipeline().stages().size());
  const pipeline::SchedulerLimits& limits = session_.pipeline().limits();
  const std::uint32_t rows =
      limits.chunk_rows != 0 ? std::min(limits.chunk_rows, limits.rows_max)
                             : pipeline::choose_chunk_rows(tokens, stage_count, limits.rows_max);
  Measurement best;
  best.test = "prefill";
  best.tokens = tokens;
  best.chunks = (tokens + rows - 1) / rows;
  for (std::uint32_t i = 0; i < options_.repeat; ++i) {
    RETURN_IF_ERROR(session_.pipeline().stats(true));
    ASSIGN_OR_RETURN(const Round round, play(1, tokens, 1));
    if (best.seconds != 0 && round.ttft_seconds >= best.seconds) continue;
    best.seconds = best.ttft_seconds = round.ttft_seconds;
    best.tokens_per_second = tokens / round.ttft_seconds;
    ASSIGN_OR_RETURN(best.stages, load_of(round.wall_seconds));
  }
  return best;
}

Result<Measurement> Bench::decode(std::uint32_t parallel) {
  Measurement best;
  best.test = "decode";
  best.tokens = options_.tokens;
  best.parallel = parallel;
  for (std::uint32_t i = 0; i < options_.repeat; ++i) {
    RETURN_IF_ERROR(session_.pipeline().stats(true));
    // One more token than measured: the first belongs to the prompt.
    ASSIGN_OR_RETURN(const Round round, play(parallel, kDecodeDepth, options_.tokens + 1));
    const double rate = static_cast<double>(round.answer_tokens - parallel) / round.decode_seconds;
    if (rate <= best.tokens_per_second) continue;
    best.seconds = round.decode_seconds;
    best.ttft_seconds = round.ttft_seconds;
    best.tokens_per_second = rate;
    ASSIGN_OR_RETURN(best.stages, load_of(round.wall_seconds));
  }
  return best;
}

Json stages_json(Session& session, const std::vector<wire::Stats>& stats,
                 const std::vector<Measurement>& measurements) {
  Json stages = Json::array();
  for (std::size_t i = 0; i < stats.size(); ++i) {
    const engine::StageFacts& facts = session.pipeline().stages()[i].facts;
    double busy = 0;
    for (const Measurement& one : measurements) busy = std::max(busy, one.stages[i].busy);
    stages.push_back({{"index", i},
                      {"layers", {facts.layers.begin, facts.layers.end}},
                      {"weights_bytes", facts.memory.weights_bytes},
                      {"kv_bytes", facts.memory.kv_cache_bytes},
                      {"compute_bytes", facts.memory.compute_bytes},
                      {"peak_rss_bytes", stats[i].rss_peak_bytes},
                      {"busy", busy}});
  }
  return stages;
}

Json measurement_json(const Measurement& one) {
  Json busy = Json::array();
  for (const StageLoad& stage : one.stages) busy.push_back(stage.busy);
  Json json{{"tokens", one.tokens},
            {"seconds", one.seconds},
            {"tokens_per_second", one.tokens_per_second},
            {"ttft_ms", one.ttft_seconds * 1000},
            {"busy", busy},
            {"bubble", one.bubble()}};
  if (one.test == "prefill") json["chunks"] = one.chunks;
  if (one.test == "decode") json["parallel"] = one.parallel;
  if (one.test == "decode") json["depth"] = kDecodeDepth;
  if (one.test == "decode") json["tpot_ms"] = one.tpot_seconds() * 1000;
  return json;
}

Result<void> print_json_report(Session& session, const std::vector<Measurement>& measurements) {
  ASSIGN_OR_RETURN(const auto stats, session.pipeline().stats(false));
  Json prefill = Json::array();
  Json decode = Json::array();
  for (const Measurement& one : measurements) {
    (one.test == "prefill" ? prefill : decode).push_back(measurement_json(one));
  }
  const auto conditions = session.inexact_conditions();
  const Json json{{"model", session.manifest().name},
                  {"architecture", session.manifest().architecture},
                  {"threads", session.threads()},
                  {"context", session.context()},
                  {"exact", conditions.empty()},
                  {"exact_conditions", conditions},
                  {"load_seconds", session.load_seconds()},
                  {"ttft_ms", prefill.empty() ? Json() : prefill.front()["ttft_ms"]},
                  {"stages", stages_json(session, stats, measurements)},
                  {"prefill", prefill},
                  {"decode", decode}};
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
  return {};
}

void print_csv(const std::vector<Measurement>& measurements) {
  std::cout << "test,tokens,parallel,chunks,seconds,tokens_per_second,ttft_ms,tpot_ms,bubble\n";
  for (const Measurement& one : measurements) {
    std::cout << fmt::format("{},{},{},{},{:.6f},{:.3f},{:.3f},{:.3f},{:.4f}\n", one.test,
                             one.tokens, one.parallel, one.chunks, one.seconds,
                             one.tokens_per_second, one.ttft_seconds * 1000,
                             one.test == "decode" ? one.tpot_seconds() * 1000 : 0, one.bubble());
  }
}

void print_table(const std::vector<Measurement>& measurements) {
  std::cout << padded(words("bench.test"), 24) << padded(words("bench.rate"), 10, true)
            << padded(words("bench.ttft"), 12, true) << padded(words("bench.tpot"), 12, true)
            << padded(words("bench.chunks"), 8, true) << padded(words("table.bubble"), 9, true)
            << "  " << words("table.busy") << '\n';
  for (const Measurement& one : measurements) {
    const bool decodes = one.test == "decode";
    std::vector<std::string> busy;
    for (const StageLoad& stage : one.stages)
      busy.push_back(fmt::format("{:.0f}%", stage.busy * 100));
    std::cout << padded(decodes ? words("bench.decode_row", one.parallel, one.tokens)
                                : words("bench.prefill_row", one.tokens),
                        24)
              << padded(fmt::format("{:.1f}", one.tokens_per_second), 10, true)
              << padded(format_seconds(one.ttft_seconds), 12, true)
              << padded(decodes ? format_seconds(one.tpot_seconds()) : "-", 12, true)
              << padded(decodes ? "-" : std::to_string(one.chunks), 8, true)
              << padded(fmt::format("{:.0f}%", one.bubble() * 100), 9, true) << "  "
              << fmt::format("{}", fmt::join(busy, " ")) << '\n';
  }
}

Result<void> bench(BenchOptions options, const StopToken& stop) {
  const std::uint32_t longest = *std::max_element(options.prompts.begin(), options.prompts.end());
  options.session.sequences = *std::max_element(options.parallel.begin(), options.parallel.end());
  if (options.session.context == 0)
    options.session.context = std::max(longest + 2, options.tokens + 2);
  // Its time starts before loading: what is measured may take minutes and is announced once.
  const SteadyClock clock;
  Progress progress(clock, options.session.quiet);
  ASSIGN_OR_RETURN(const auto session, Session::open(options.session, stop));
  if (!options.session.quiet) {
    ASSIGN_OR_RETURN(const auto stats, session->pipeline().stats(false));
    std::cerr << session->layer_table(stats) << std::endl;
  }
  Bench runner(*session, options, stop);
  std::vector<Measurement> measurements;
  const double steps = static_cast<double>(options.prompts.size() + options.parallel.size());
  for (const std::uint32_t tokens : options.prompts) {
    progress.update(words("bench.measuring", words("bench.prefill_row", tokens)),
                    static_cast<double>(measurements.size()) / steps);
    ASSIGN_OR_RETURN(Measurement one, runner.prefill(tokens));
    measurements.push_back(std::move(one));
  }
  for (const std::uint32_t parallel : options.parallel) {
    progress.update(words("bench.measuring", words("bench.decode_row", parallel, options.tokens)),
                    static_cast<double>(measurements.size()) / steps);
    ASSIGN_OR_RETURN(Measurement one, runner.decode(parallel));
    measurements.push_back(std::move(one));
  }
  progress.clear();
  if (options.json) return print_json_report(*session, measurements);
  options.csv ? print_csv(measurements) : print_table(measurements);
  return {};
}

}  // namespace

void add_bench(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("bench", words("bench.about"));
  auto options = std::make_shared<BenchOptions>();
  add_session_options(*command, options->session);
  command->add_option("-p,--prompt", options->prompts, words("bench.prompt"))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1U, 1U << 20));
  command->add_option("-n,--tokens", options->tokens, words("bench.tokens"))
      ->check(CLI::Range(1U, 1U << 20));
  command->add_option("--parallel", options->parallel, words("bench.parallel"))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1U, 64U));
  command->add_option("--repeat", options->repeat, words("bench.repeat"))
      ->check(CLI::Range(1U, 1000U));
  auto* json = command->add_flag("--json", options->json, words("option.json"));
  command->add_flag("--csv", options->csv, words("bench.csv"))->excludes(json);
  command->callback([&context, options] {
    if (options->json || options->csv) options->session.quiet = true;
    context.chosen = [&context, options] { return bench(*options, context.stop); };
  });
}

}  // namespace salvage::app
