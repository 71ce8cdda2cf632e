// conformance_fixtures: writes the random models that the conformance suite compares, for looking
// at them by hand; the suite itself makes what it misses.

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "fixture_catalogue.h"
#include "fixture_store.h"
#include "upstream_generator.h"

namespace {

using salvage::conformance::Fixture;

void list_fixtures(const std::vector<Fixture>& fixtures) {
  for (const Fixture& fixture : fixtures) {
    fmt::print("{} {} {} layers{}\n", fixture.name, fixture.architecture, fixture.layer_count,
               fixture.upstream ? " (upstream)" : "");
  }
}

}  // namespace

int main(int argc, char** argv) {
  salvage::conformance::FixtureStore store;
  store.folder = "fixtures";
  store.jobs = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::string> only;
  bool list = false;
  CLI::App app("Writes the conformance suite's random models");
  app.add_option("-o,--out", store.folder, "folder for the files")->capture_default_str();
  app.add_option("--only", only, "names of fixtures to make");
  app.add_option("--seed", store.seed, "seed of the weights")->capture_default_str();
  app.add_option("-j,--jobs", store.jobs, "processes at once")->capture_default_str();
  app.add_flag("--list", list, "only list the fixtures");
  CLI11_PARSE(app, argc, argv);

  std::vector<Fixture> fixtures;
  for (Fixture& fixture :
       salvage::conformance::fixture_catalogue(salvage::conformance::upstream_cases())) {
    const bool wanted = only.empty() || std::count(only.begin(), only.end(), fixture.name) > 0;
    if (wanted) fixtures.push_back(std::move(fixture));
  }
  if (list) {
    list_fixtures(fixtures);
    return 0;
  }
  const auto made = store.make(fixtures);
  if (!made) {
    fmt::print(stderr, "{}\n", made.error().message());
    return 1;
  }
  fmt::print("{} of {} fixtures made in {}\n", *made, fixtures.size(), store.folder.string());
  return 0;
}
