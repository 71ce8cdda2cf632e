#include "fixture_store.h"

#include <regex>
#include <set>
#include <system_error>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "child_pool.h"
#include "fixture_writer.h"
#include "llama.h"

namespace salvage::conformance {
namespace {

// Counts up when the generator itself (weights, lengthening of arrays) changes.
constexpr int kGeneratorVersion = 1;

std::string describe(const Fixture& fixture) {
  std::string text = fmt::format("{} {} {} {} {} ", fixture.name, fixture.architecture,
                                 fixture.experts, fixture.saved_by_upstream, fixture.layer_count);
  for (const MetadataEdit& edit : fixture.edits) {
    text += edit.key + "=";
    std::visit(
        [&](const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::vector<bool>>) {
            for (const bool item : value) text += item ? "1," : "0,";
          } else {
            text += fmt::format("{}", value);
          }
        },
        edit.value);
    text += ";";
  }
  return text + fmt::format("-{} -{}", fixture.removed_keys, fixture.removed_tensors);
}

std::uint32_t fingerprint(const std::string& text) {  // FNV-1a
  std::uint32_t hash = 2166136261U;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
  return hash;
}

void silence_libllama() {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
}

}  // namespace

std::filesystem::path FixtureStore::path(const Fixture& fixture) const {
  const std::string depends =
      fmt::format("{} seed {} generator {}", describe(fixture), seed, kGeneratorVersion);
  return folder / fmt::format("{}-{:08x}.gguf", fixture.name, fingerprint(depends));
}

Result<std::size_t> FixtureStore::make(const std::vector<Fixture>& fixtures) const {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) return fail(ErrorCode::kUnavailable, "cannot make the folder " + folder.string());
  std::vector<const Fixture*> missing;
  for (const Fixture& fixture : fixtures) {
    if (!std::filesystem::exists(path(fixture))) missing.push_back(&fixture);
  }
  std::string failed;
  run_in_children(
      {.job_count = missing.size(), .parallel = jobs, .seconds_max = 120},
      [&](std::size_t index) -> std::string {
        silence_libllama();
        const auto written = write_fixture(*missing[index], seed, path(*missing[index]));
        return written ? std::string() : written.error().message();
      },
      [&](std::size_t index, const ChildResult& result) {
        if (result.finished && result.output.empty()) return;
        const std::string& why = result.finished ? result.output : result.ending;
        failed += fmt::format("{}{} ({})", failed.empty() ? "" : ", ", missing[index]->name, why);
      });
  if (!failed.empty()) return fail(ErrorCode::kInternal, "could not make fixtures: " + failed);
  return missing.size();
}

void FixtureStore::prune(const std::vector<Fixture>& fixtures) const {
  std::set<std::filesystem::path> wanted;
  for (const Fixture& fixture : fixtures) wanted.insert(path(fixture).filename());
  const std::regex ours("[A-Za-z0-9_-]+-[0-9a-f]{8}\\.gguf(\\.partial)?");
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    const std::filesystem::path name = entry.path().filename();
    if (wanted.count(name) != 0 || !std::regex_match(name.string(), ours)) continue;
    std::error_code ignored;  // A file that stays costs only space.
    std::filesystem::remove(entry.path(), ignored);
  }
}

}  // namespace salvage::conformance
