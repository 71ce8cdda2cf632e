#include "app/cluster_run.h"

#include <chrono>
#include <iostream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/ask.h"
#include "app/cluster_tables.h"
#include "app/format.h"
#include "app/load_command.h"
#include "app/words.h"
#include "base/clock.h"

namespace salvage::app {
namespace {

admin::LoadRequest load_request(const SessionOptions& session) {
  admin::LoadRequest request;
  set_model(request, session.model);
  request.split = session.split;
  request.context = session.context;
  request.threads = session.threads;
  request.chunk = session.chunk;
  request.cache_type_k = session.cache_type_k;
  request.cache_type_v = session.cache_type_v;
  request.hidden = session.hidden;
  request.exact = session.exact;
  request.if_needed = true;
  return request;
}

// Shows the pieces of the answer; false once nobody reads them.
bool show_piece(const std::string& line, bool json) {
  if (json) return true;
  (void)read_json(line, [](const Json& piece) {
    std::cout << piece.value("text", std::string()) << std::flush;
  });
  return static_cast<bool>(std::cout);
}

void print_statistics(const Json& answer) {
  const std::string finish = words("finish." + answer.value("finish_reason", std::string("stop")));
  std::cerr << words("run.statistics", answer.value("prompt_tokens", 0),
                     answer.value("answer_tokens", 0), finish,
                     format_seconds(answer.value("ttft_ms", 0.0) / 1000),
                     format_rate(answer.value("prefill_tokens_per_second", 0.0)),
                     format_rate(answer.value("decode_tokens_per_second", 0.0)))
            << '\n';
  const auto conditions = answer.value("exact_conditions", std::vector<std::string>{});
  std::cerr << (conditions.empty()
                    ? words("run.exact_yes")
                    : words("run.exact_no", fmt::format("{}", fmt::join(conditions, "; "))))
            << '\n';
}

void print_answer(Json answer, double load_seconds) {
  answer["load_seconds"] = load_seconds;
  answer["threads"] = nullptr;  // each machine's own choice
  print_json(answer);
}

}  // namespace

bool cluster_answers(const admin::AdminClient& client, const SessionOptions& session) {
  if (session.stages != 0 || !session.cores.empty() || !client.running()) return false;
  const auto status = client.get("status");
  bool coordinator = false;
  return status &&
         read_json(*status,
                   [&](const Json& json) {
                     coordinator = json.value("role", std::string()) == "coordinator";
                   })
             .has_value() &&
         coordinator;
}

Result<void> run_on_cluster(const admin::AdminClient& client, const ClusterRunOptions& options,
                            const StopToken& stop) {
  const bool talk = !options.session.quiet && !options.json;
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  ASSIGN_OR_RETURN(
      const std::string loaded,
      follow_load(client, load_request(options.session),
                  talk ? LoadProgress::Form::kAuto : LoadProgress::Form::kQuiet, stop));
  const std::chrono::duration<double> load_time = clock.now() - begin;
  coordinator::RunWish wish = options.wish;
  RETURN_IF_ERROR(read_json(loaded, [&](const Json& json) {
    wish.model = json.at("model").get<std::string>();
    if (talk) std::cerr << deployment_text(json.at("deployment")) << '\n';
  }));
  ASSIGN_OR_RETURN(
      const std::string answer,
      client.follow(
          "run", admin::encode(wish),
          [&](const std::string& line) { return show_piece(line, options.json); }, stop));
  if (!options.json) std::cout << std::endl;
  if (talk) std::cerr << '\n';
  return read_json(answer, [&](const Json& json) {
    if (options.json) print_answer(json, load_time.count());
    if (talk) print_statistics(json);
  });
}

}  // namespace salvage::app
