#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

#include <ggml-backend.h>

#include "base/file.h"
#include "base/process.h"
#include "engine/llama/cpu_backend.h"

namespace salvage::engine {
namespace {

// As ggml's build names them: libggml-cpu-haswell.so.
constexpr std::string_view kFilePrefix = "libggml-cpu-";
constexpr std::string_view kFileSuffix = ".so";
// How well a module suits this CPU, 0 if it can't run there; every module of ggml's has it.
constexpr const char* kScoreFunction = "ggml_backend_score";
using Score = int (*)();

// What was chosen: one a process, since ggml's own registry is.
struct Chosen {
  std::string variant;
  ThreadpoolFunctions functions;
};
Chosen& chosen() {
  static Chosen instance;
  return instance;
}

struct CloseModule {
  void operator()(void* module) const { ::dlclose(module); }
};
using Module = std::unique_ptr<void, CloseModule>;

tl::unexpected<Error> damaged(const std::filesystem::path& file, std::string_view reason) {
  return fail(ErrorCode::kCorrupt,
              fmt::format("{} can't be loaded ({}); unpack the portable directory again, whole",
                          file.string(), reason));
}

// The loader maps what a file's header speaks of without looking at its size: a file that was cut
// would be a bus error. Its section headers are what it ends with.
Result<void> check_whole(const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(const ReadOnlyFile source, ReadOnlyFile::open(file));
  Elf64_Ehdr header{};
  if (source.size() < sizeof header) return damaged(file, "it is cut short");
  RETURN_IF_ERROR(source.read_at(0, std::as_writable_bytes(std::span(&header, 1))));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return damaged(file, "it is no library");
  const std::uint64_t sections = std::uint64_t{header.e_shnum} * header.e_shentsize;
  if (header.e_shoff > source.size() || sections > source.size() - header.e_shoff) {
    return damaged(file, "it is cut short");
  }
  return {};
}

Result<Module> open_module(const std::filesystem::path& file) {
  RETURN_IF_ERROR(check_whole(file));
  Module module(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (module) return module;
  const char* const reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe): it is the thread's own
  return damaged(file, reason == nullptr ? "no reason given" : reason);
}

template <typename Function>
bool find_function(const Module& module, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(module.get(), name));
  return function != nullptr;
}

std::string variant_of(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  if (name.size() <= kFilePrefix.size() + kFileSuffix.size()) return {};
  if (!name.starts_with(kFilePrefix) || !name.ends_with(kFileSuffix)) return {};
  return name.substr(kFilePrefix.size(), name.size() - kFilePrefix.size() - kFileSuffix.size());
}

// By name, so that nothing depends on the order of a folder.
Result<std::vector<std::filesystem::path>> modules_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  using Iterator = std::filesystem::directory_iterator;
  for (Iterator entry(folder, error); !error && entry != Iterator(); entry.increment(error)) {
    if (!variant_of(entry->path()).empty()) files.push_back(entry->path());
  }
  if (error) {
    return fail(ErrorCode::kNotFound,
                fmt::format("can't read {}: {}", folder.string(), error.message()));
  }
  if (files.empty()) {
    return fail(
        ErrorCode::kNotFound,
        fmt::format("no {}*{} in {}: they hold the arithmetic and belong beside the program;"
                    " copy or unpack the portable directory whole",
                    kFilePrefix, kFileSuffix, folder.string()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

Result<std::filesystem::path> best_module(const std::vector<std::filesystem::path>& files) {
  int best_score = 0;
  std::filesystem::path best;
  for (const std::filesystem::path& file : files) {
    ASSIGN_OR_RETURN(const Module module, open_module(file));
    Score score = nullptr;
    if (!find_function(module, kScoreFunction, score)) {
      return fail(ErrorCode::kCorrupt, fmt::format("{} is no CPU module of ggml", file.string()));
    }
    const int value = score();
    if (value > best_score) {
      best_score = value;
      best = file;
    }
  }
  if (best.empty()) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("none of the {} CPU variants in {} runs on this machine's CPU; build"
                            " salvage on it (make build)",
                            files.size(), files.front().parent_path().string()));
  }
  return best;
}

Result<void> use_module(const std::filesystem::path& file) {
  if (ggml_backend_load(file.c_str()) == nullptr) {
    return fail(ErrorCode::kCorrupt, fmt::format("ggml refuses {}", file.string()));
  }
  // Opened once more for its functions, and never closed: ggml doesn't unload it either.
  ASSIGN_OR_RETURN(Module module, open_module(file));
  Chosen choice{variant_of(file), {}};
  const bool complete = find_function(module, "ggml_threadpool_new", choice.functions.create) &&
                        find_function(module, "ggml_threadpool_free", choice.functions.destroy) &&
                        find_function(module, "ggml_threadpool_pause", choice.functions.pause);
  if (!complete) {
    return fail(ErrorCode::kCorrupt, fmt::format("{} has no thread pools", file.string()));
  }
  static_cast<void>(module.release());
  chosen() = std::move(choice);
  return {};
}

}  // namespace

Result<void> load_cpu_backend() {
  ASSIGN_OR_RETURN(const std::string program, own_executable());
  ASSIGN_OR_RETURN(const auto files, modules_in(std::filesystem::path(program).parent_path()));
  ASSIGN_OR_RETURN(const std::filesystem::path best, best_module(files));
  return use_module(best);
}

const std::string& cpu_variant() {
  return chosen().variant;
}

const ThreadpoolFunctions& threadpool_functions() {
  return chosen().functions;
}

}  // namespace salvage::engine
