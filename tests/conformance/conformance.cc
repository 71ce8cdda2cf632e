// conformance: proves that stages give the bits of the whole model. Makes the random models that it
// misses, judges each in a process of its own, shows that it can fail (mutations), and writes or
// checks docs/reference/architectures.md. The last line is `exact N, refused N, wrong N`.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "child_pool.h"
#include "fixture_catalogue.h"
#include "fixture_check.h"
#include "fixture_store.h"
#include "llama.h"
#include "mutations.h"
#include "outcome.h"
#include "quant_matrix.h"
#include "report.h"
#include "upstream_generator.h"

namespace salvage::conformance {
namespace {

// Fewer than this, and something that worked is broken. Raise it when an architecture is proven.
constexpr std::size_t kUpstreamExactMin = 104;

// Rows of 256 and more: the one that is quantised.
constexpr const char* kQuantisedFixture = "llama-wide";

struct Options {
  FixtureStore store;
  std::filesystem::path work_folder = "work";
  std::vector<std::string> only;
  std::filesystem::path page;        // write the generated page here
  std::filesystem::path check_page;  // or compare it with this file
  bool json = false;
  bool unproven = false;
  bool mutations_only = false;
  bool quants_only = false;
  bool verbose = false;
};

std::vector<Fixture> chosen_fixtures(const Options& options) {
  std::vector<Fixture> chosen;
  for (Fixture& fixture : fixture_catalogue(upstream_cases())) {
    const bool all = options.only.empty();
    if (all || std::count(options.only.begin(), options.only.end(), fixture.name) > 0) {
      chosen.push_back(std::move(fixture));
    }
  }
  return chosen;
}

Outcome judge(const Options& options, const Fixture& fixture) {
  if (!options.verbose) llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  FixtureCheck check;
  check.model = options.store.path(fixture);
  check.work_folder = options.work_folder / fixture.name;
  check.unproven = options.unproven ? model::Unproven::kAllow : model::Unproven::kRefuse;
  return check_fixture(check);
}

void name_outcome(Outcome& outcome, const Fixture& fixture) {
  outcome.name = fixture.name;
  outcome.architecture = fixture.architecture;
  outcome.upstream = fixture.upstream;
  if (outcome.layer_count == 0) outcome.layer_count = fixture.layer_count;
}

// A child that aborted is a wrong outcome: what its shards made libllama do is our doing.
std::vector<Outcome> judge_all(const Options& options, const std::vector<Fixture>& fixtures) {
  std::vector<Outcome> outcomes(fixtures.size());
  run_in_children(
      {.job_count = fixtures.size(), .parallel = options.store.jobs, .seconds_max = 300},
      [&](std::size_t index) { return to_json(judge(options, fixtures[index])); },
      [&](std::size_t index, const ChildResult& result) {
        Outcome& outcome = outcomes[index];
        outcome = outcome_from_json(result.output);
        if (!result.finished) {
          outcome.verdict = Verdict::kWrong;
          outcome.reason = "the process ended: " + result.ending;
        }
        name_outcome(outcome, fixtures[index]);
        if (!options.json) fmt::print("{}\n", report_line(outcome));
        std::fflush(stdout);
      });
  return outcomes;
}

std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool deal_with_page(const Options& options, const std::string& page) {
  if (!options.page.empty()) std::ofstream(options.page) << page;
  if (options.check_page.empty() || read_file(options.check_page) == page) return true;
  fmt::print(stderr, "{} is stale: run `make conformance`\n", options.check_page.string());
  return false;
}

void print_json(const std::vector<Outcome>& outcomes) {
  fmt::print("[\n");
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    fmt::print("  {}{}\n", to_json(outcomes[i]), i + 1 < outcomes.size() ? "," : "");
  }
  fmt::print("]\n");
}

// The suite must be able to fail.
bool mutations_caught(const Options& options, const std::vector<Fixture>& fixtures) {
  const MutationTotals totals =
      check_mutations(options.store, fixtures, options.work_folder, [&](const std::string& line) {
        if (!options.json) fmt::print("{}\n", line);
        std::fflush(stdout);
      });
  if (!options.json) {
    fmt::print("mutations caught {} of {}, unspoiled twins exact {} of {}\n", totals.caught,
               totals.mutation_count, totals.controls_exact, totals.control_count);
  }
  return totals.good();
}

bool groupings_exact(const Options& options, const std::vector<Fixture>& fixtures) {
  const auto wide = std::find_if(fixtures.begin(), fixtures.end(), [](const Fixture& fixture) {
    return fixture.name == kQuantisedFixture;
  });
  const QuantTotals totals = check_quantisations(options.store.path(*wide), options.work_folder,
                                                 options.store.jobs, [&](const std::string& line) {
                                                   if (!options.json) fmt::print("{}\n", line);
                                                   std::fflush(stdout);
                                                 });
  if (!options.json) {
    fmt::print("quantisations exact in every grouping {} of {}\n", totals.exact, totals.type_count);
  }
  return totals.good();
}

int run(const Options& options) {
  const std::vector<Fixture> fixtures = chosen_fixtures(options);
  const auto made = options.store.make(fixtures);
  if (!made) {
    fmt::print(stderr, "{}\n", made.error().message());
    return 1;
  }
  if (options.only.empty()) options.store.prune(fixtures);
  if (options.mutations_only) return mutations_caught(options, fixtures) ? 0 : 1;
  if (options.quants_only) return groupings_exact(options, fixtures) ? 0 : 1;
  const std::vector<Outcome> outcomes = judge_all(options, fixtures);
  const Totals totals = count_outcomes(outcomes);
  bool good = totals.wrong == 0;
  if (options.only.empty()) {
    good = good && totals.upstream_exact >= kUpstreamExactMin;
    good = deal_with_page(options, architectures_page(outcomes)) && good;
    good = mutations_caught(options, fixtures) && good;
    good = groupings_exact(options, fixtures) && good;
  }
  if (options.json) {
    print_json(outcomes);
    return good ? 0 : 1;
  }
  fmt::print("of llama.cpp's own {} random models: exact {}, at least {} wanted\n", totals.upstream,
             totals.upstream_exact, kUpstreamExactMin);
  fmt::print("exact {}, refused {}, wrong {}\n", totals.exact, totals.refused, totals.wrong);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace salvage::conformance

int main(int argc, char** argv) {
  salvage::conformance::Options options;
  options.store.folder = "fixtures";
  options.store.jobs = std::max(1U, std::thread::hardware_concurrency());
  CLI::App app("Compares stages with whole models, bit for bit");
  app.add_option("--fixtures", options.store.folder, "folder of the random models")
      ->capture_default_str();
  app.add_option("--work", options.work_folder, "folder for shards")->capture_default_str();
  app.add_option("--only", options.only, "names of fixtures");
  app.add_option("--page", options.page, "write architectures.md here");
  app.add_option("--check-page", options.check_page, "fail unless this file is architectures.md");
  app.add_option("-j,--jobs", options.store.jobs, "processes at once")->capture_default_str();
  app.add_flag("--json", options.json, "one array of outcomes on stdout");
  app.add_flag("--unproven", options.unproven, "also cut architectures without proof so far");
  app.add_flag("--mutations-only", options.mutations_only, "only show that the suite can fail");
  app.add_flag("--quants-only", options.quants_only, "only compare groupings of quantised models");
  app.add_flag("-v,--verbose", options.verbose, "show libllama's log");
  CLI11_PARSE(app, argc, argv);
  if (options.mutations_only) options.only = salvage::conformance::mutated_fixtures();
  if (options.quants_only) options.only = {salvage::conformance::kQuantisedFixture};
  return salvage::conformance::run(options);
}
