#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cluster_run.h"
#include "app/command.h"
#include "app/data_folder.h"
#include "app/format.h"
#include "app/session.h"
#include "app/words.h"
#include "base/terminal.h"
#include "base/utf8.h"
#include "pipeline/generation.h"

namespace salvage::app {
namespace {

using Json = nlohmann::ordered_json;

// A prompt that is larger than this is no prompt: the longest contexts hold some 4 MB of text.
constexpr std::size_t kPromptBytesMax = std::size_t{64} << 20;

struct RunOptions {
  SessionOptions session;
  std::string prompt;
  std::string file;
  std::uint32_t tokens_max = 256;
  engine::SamplingOptions sampling;
  bool chat = false;
  bool json = false;
  bool local = false;        // even if a coordinator runs here
  bool hash_logits = false;  // of every row: for comparing clusters with one machine
  std::string data;
};

Result<std::string> read_all(std::istream& stream, const std::string& name) {
  std::string text;
  std::array<char, 65536> buffer{};
  while (stream.read(buffer.data(), buffer.size()) || stream.gcount() > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(stream.gcount()));
    if (text.size() > kPromptBytesMax) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("the prompt from {} is larger than {}",
                                                           name, format_bytes(kPromptBytesMax)));
    }
  }
  return text;
}

Result<std::string> read_prompt(const RunOptions& options) {
  std::string text = options.prompt;
  if (!options.file.empty()) {
    if (!text.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  "the prompt was given twice: as an argument and with --file");
    }
    std::ifstream stream(options.file, std::ios::binary);
    if (!stream) {
      return fail(ErrorCode::kNotFound,
                  fmt::format("cannot read the prompt file {}", options.file));
    }
    ASSIGN_OR_RETURN(text, read_all(stream, options.file));
  } else if (text.empty()) {
    if (is_terminal(Stream::kInput))
      return fail(ErrorCode::kInvalidArgument, words("run.prompt_missing"));
    ASSIGN_OR_RETURN(text, read_all(std::cin, "standard input"));
  }
  if (text.empty()) return fail(ErrorCode::kInvalidArgument, words("run.prompt_missing"));
  const std::size_t valid = utf8_valid_prefix(text);
  if (valid != text.size()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the prompt is not UTF-8: byte {} ({:#04x}) is no part of a character; "
                            "convert it first, for example with iconv",
                            valid, static_cast<unsigned>(static_cast<unsigned char>(text[valid]))));
  }
  return text;
}

Result<pipeline::GenerationOptions> prepare(const Session& session, const RunOptions& options,
                                            const std::string& text) {
  pipeline::GenerationOptions generation;
  generation.tokens_max = options.tokens_max;
  generation.sampling = options.sampling;
  generation.hash_logits = options.hash_logits;
  RETURN_IF_ERROR(pipeline::set_prompt(session.text(), text, options.chat, generation));
  return generation;
}

Json stages_json(Session& session, const std::vector<wire::Stats>& stats) {
  Json stages = Json::array();
  for (std::size_t i = 0; i < session.pipeline().stages().size(); ++i) {
    const agent::LoadedStage& stage = session.pipeline().stages()[i];
    stages.push_back(
        {{"index", i},
         {"layers", {stage.facts.layers.begin, stage.facts.layers.end}},
         {"weights_bytes", stage.facts.memory.weights_bytes},
         {"kv_bytes", stage.facts.memory.kv_cache_bytes},
         {"compute_bytes", stage.facts.memory.compute_bytes},
         {"checkpoint_bytes", stage.facts.checkpoint_count * stage.facts.checkpoint_bytes},
         {"rss_bytes", stats[i].rss_bytes},
         {"peak_rss_bytes", stats[i].rss_peak_bytes},
         {"steps", stats[i].steps},
         {"rows", stats[i].rows},
         {"busy_us", stats[i].busy_us},
         {"exact", stage.check.exact},
         {"condition", stage.check.condition},
         {"kernels", stage.facts.kernel_fingerprint},
         {"pid", stage.pid}});
  }
  return stages;
}

void print_json_answer(Session& session, const pipeline::Generation& generation,
                       const std::vector<wire::Stats>& stats) {
  const auto conditions = session.inexact_conditions();
  Json json{{"text", generation.text},
            {"token_ids", generation.tokens},
            {"finish_reason", pipeline::finish_reason_name(generation.reason)},
            {"prompt_tokens", generation.stats.prompt_tokens},
            {"answer_tokens", generation.stats.answer_tokens},
            {"ttft_ms", generation.stats.ttft_seconds * 1000},
            {"prefill_tokens_per_second", generation.prefill_rate()},
            {"decode_tokens_per_second", generation.decode_rate()},
            {"load_seconds", session.load_seconds()},
            {"context", session.context()},
            {"threads", session.threads()},
            {"exact", conditions.empty()},
            {"exact_conditions", conditions},
            {"stages", stages_json(session, stats)}};
  if (generation.logits_hash != 0) {
    json["logits_hash"] = fmt::format("{:016x}", generation.logits_hash);
  }
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
}

void print_statistics(const Session& session, const pipeline::Generation& generation) {
  const std::string finish =
      words("finish." + std::string(pipeline::finish_reason_name(generation.reason)));
  std::cerr << words("run.statistics", generation.stats.prompt_tokens,
                     generation.stats.answer_tokens, finish,
                     format_seconds(generation.stats.ttft_seconds),
                     format_rate(generation.prefill_rate()), format_rate(generation.decode_rate()))
            << '\n';
  const auto conditions = session.inexact_conditions();
  std::cerr << (conditions.empty()
                    ? words("run.exact_yes")
                    : words("run.exact_no", fmt::format("{}", fmt::join(conditions, "; "))))
            << '\n';
}

ClusterRunOptions cluster_options(const RunOptions& options, std::string prompt) {
  ClusterRunOptions cluster;
  cluster.session = options.session;
  cluster.json = options.json;
  cluster.wish.prompt = std::move(prompt);
  cluster.wish.chat = options.chat;
  cluster.wish.tokens_max = options.tokens_max;
  cluster.wish.sampling = options.sampling;
  cluster.wish.hash_logits = options.hash_logits;
  return cluster;
}

Result<void> run(const RunOptions& options, const StopToken& stop) {
  ASSIGN_OR_RETURN(std::string text, read_prompt(options));
  const admin::AdminClient client(choose_data_folder(options.data));
  if (!options.local && cluster_answers(client, options.session)) {
    return run_on_cluster(client, cluster_options(options, std::move(text)), stop);
  }
  ASSIGN_OR_RETURN(const auto session, Session::open(options.session, stop));
  ASSIGN_OR_RETURN(const pipeline::GenerationOptions generation_options,
                   prepare(*session, options, text));
  const bool talk = !options.session.quiet && !options.json;
  if (talk) {
    ASSIGN_OR_RETURN(const auto stats, session->pipeline().stats(false));
    std::cerr << session->layer_table(stats) << '\n';
  }
  const auto show = [&](std::string_view part) {
    if (options.json) return true;
    std::cout << part << std::flush;
    return static_cast<bool>(std::cout);
  };
  ASSIGN_OR_RETURN(const pipeline::Generation generation,
                   pipeline::generate(session->pipeline().client(), session->text(),
                                      generation_options, {.show = show}, stop));
  if (!options.json) {
    std::cout << std::endl;
    if (talk) std::cerr << '\n';
    if (talk) print_statistics(*session, generation);
    return {};
  }
  ASSIGN_OR_RETURN(const auto stats, session->pipeline().stats(false));
  print_json_answer(*session, generation, stats);
  return {};
}

void add_sampling_options(CLI::App& command, engine::SamplingOptions& sampling) {
  command.add_option("--seed", sampling.seed, words("run.seed"));
  command.add_option("--temp", sampling.temperature, words("run.temperature"))
      ->check(CLI::Range(0.0, 100.0));
  command.add_option("--top-k", sampling.top_k, words("run.top_k"))->check(CLI::Range(0, 1 << 20));
  command.add_option("--top-p", sampling.top_p, words("run.top_p"))->check(CLI::Range(0.0, 1.0));
  command.add_option("--min-p", sampling.min_p, words("run.min_p"))->check(CLI::Range(0.0, 1.0));
  command.add_option("--repeat-penalty", sampling.repeat_penalty, words("run.repeat_penalty"))
      ->check(CLI::Range(0.01, 10.0));
}

}  // namespace

void add_run(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("run", words("run.about"));
  auto options = std::make_shared<RunOptions>();
  add_session_options(*command, options->session);
  command->add_option("PROMPT", options->prompt, words("run.prompt"));
  command->add_option("--file", options->file, words("run.file"));
  command->add_option("-n,--tokens", options->tokens_max, words("run.tokens"))
      ->check(CLI::Range(1U, 1U << 24))
      ->capture_default_str();
  add_sampling_options(*command, options->sampling);
  command->add_flag("--chat", options->chat, words("run.chat"));
  command->add_flag("--local", options->local, words("run.local"));
  add_data_option(*command, options->data);
  command->add_flag("--logits-hash", options->hash_logits, words("run.logits_hash"));
  command->add_flag("--json", options->json, words("option.json"));
  command->callback([&context, options] {
    if (options->json) options->session.quiet = true;
    context.chosen = [&context, options] { return run(*options, context.stop); };
  });
}

}  // namespace salvage::app
