// conformance_fixtures: writes the random models that the conformance suite compares. Files that
// are there already stay; --force makes them anew.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "child_pool.h"
#include "fixture_catalogue.h"
#include "fixture_writer.h"
#include "llama.h"
#include "upstream_generator.h"

namespace salvage::conformance {
namespace {

struct Options {
  std::filesystem::path folder = "fixtures";
  std::vector<std::string> only;
  std::uint64_t seed = 42;
  unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
  bool force = false;
  bool list = false;
  bool verbose = false;
};

bool wanted(const Options& options, const std::string& name) {
  if (options.only.empty()) return true;
  for (const std::string& only : options.only) {
    if (only == name) return true;
  }
  return false;
}

std::vector<Fixture> missing_fixtures(const Options& options) {
  std::vector<Fixture> missing;
  for (Fixture& fixture : fixture_catalogue(upstream_cases())) {
    const bool there = std::filesystem::exists(options.folder / (fixture.name + ".gguf"));
    if (wanted(options, fixture.name) && (options.force || !there)) {
      missing.push_back(std::move(fixture));
    }
  }
  return missing;
}

int make_fixtures(const Options& options) {
  std::filesystem::create_directories(options.folder);
  const std::vector<Fixture> fixtures = missing_fixtures(options);
  int failed = 0;
  ChildPoolOptions pool;
  pool.job_count = fixtures.size();
  pool.parallel = options.jobs;
  run_in_children(
      pool,
      [&](std::size_t index) -> std::string {
        if (!options.verbose) llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
        const Fixture& fixture = fixtures[index];
        const auto written =
            write_fixture(fixture, options.seed, options.folder / (fixture.name + ".gguf"));
        return written ? std::string() : written.error().message();
      },
      [&](std::size_t index, const ChildResult& result) {
        if (result.finished && result.output.empty()) return;
        ++failed;
        fmt::print(stderr, "{}: {} {}\n", fixtures[index].name, result.output, result.ending);
      });
  fmt::print("{} fixtures written, {} failed\n", fixtures.size() - static_cast<std::size_t>(failed),
             failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace salvage::conformance

int main(int argc, char** argv) {
  salvage::conformance::Options options;
  CLI::App app("Writes the conformance suite's random models");
  app.add_option("-o,--out", options.folder, "folder for the files")->capture_default_str();
  app.add_option("--only", options.only, "names of fixtures to make");
  app.add_option("--seed", options.seed, "seed of the weights")->capture_default_str();
  app.add_option("-j,--jobs", options.jobs, "processes at once")->capture_default_str();
  app.add_flag("--force", options.force, "make files anew that are there");
  app.add_flag("--list", options.list, "only list the fixtures");
  app.add_flag("-v,--verbose", options.verbose, "show libllama's log");
  CLI11_PARSE(app, argc, argv);
  if (options.list) {
    for (const auto& fixture :
         salvage::conformance::fixture_catalogue(salvage::conformance::upstream_cases())) {
      fmt::print("{} {} {} layers{}\n", fixture.name, fixture.architecture, fixture.layer_count,
                 fixture.upstream ? " (upstream)" : "");
    }
    return 0;
  }
  return salvage::conformance::make_fixtures(options);
}
