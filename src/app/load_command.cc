// `salvage load`, `unload`, `verify`, `rm`, `gc`: what lies and runs where.

#include "app/load_command.h"

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/ask.h"
#include "app/cluster_tables.h"
#include "app/command.h"
#include "app/format.h"
#include "app/words.h"
#include "base/clock.h"

namespace salvage::app {
namespace {

struct LoadOptions {
  AskOptions ask;
  std::string model;
  admin::LoadRequest request;
  bool no_wait = false;
  bool quiet = false;
};

LoadProgress::Form form_of(bool json, bool quiet) {
  if (json) return LoadProgress::Form::kJson;
  return quiet ? LoadProgress::Form::kQuiet : LoadProgress::Form::kAuto;
}

// Progress of any work; gives what "done" holds.
Result<std::string> follow(const admin::AdminClient& client, const std::string& name,
                           const std::string& body, LoadProgress& progress, const StopToken& stop) {
  const auto line = [&](const std::string& text) {
    (void)read_json(text, [&](const Json& json) {
      const auto view = parse_load_view(json.at("progress").dump());
      if (view) progress.update(*view);
    });
    return static_cast<bool>(std::cout);
  };
  auto done = client.follow(name, body, line, stop);
  progress.finish();
  return done;
}

// With --json the last line is the summary or the error, on one line like the others.
Result<void> print_summary(const Result<std::string>& done) {
  return read_json(done ? *done : "{}", [&](const Json& json) {
    Json summary{{"message_type", done ? "summary" : "error"}};
    if (done) {
      summary.update(json);
    } else {
      summary["code"] = error_code_name(done.error().code());
      summary["message"] = done.error().message();
    }
    std::cout << summary.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  });
}

void show_loaded(const Json& json) {
  if (json.contains("command")) {
    std::cout << words("load.offered", text_or(json, "name"), text_or(json, "load_at"),
                       text_or(json, "command"))
              << '\n';
  } else if (json.contains("deployment")) {
    std::cout << deployment_text(json.at("deployment"));
  } else {
    std::cout << words("load.begun", text_or(json, "name")) << '\n';
  }
}

Result<void> load(LoadOptions options, const StopToken& stop) {
  set_model(options.request, options.model);
  options.request.wait = !options.no_wait;
  const SteadyClock clock;
  LoadProgress progress(clock, form_of(options.ask.json, options.quiet));
  const auto done =
      follow(client_of(options.ask), "load", admin::encode(options.request), progress, stop);
  if (options.ask.json) RETURN_IF_ERROR(print_summary(done));
  const bool cancelled = !done && done.error().code() == ErrorCode::kCancelled;
  if (cancelled && progress.deploying() && !options.ask.json) {
    std::cerr << words("load.goes_on", options.model) << '\n';
  }
  if (!done) return fail(done.error());
  if (options.ask.json) return {};
  return read_json(*done, show_loaded);
}

// The absolute path of what was typed, if it is a file's. That may be gone meanwhile, so what has a
// slash in it is a path as well as what exists.
std::optional<std::string> path_typed(const std::string& typed) {
  std::error_code error;
  if (typed.find('/') == std::string::npos && !std::filesystem::exists(typed, error)) return {};
  return std::filesystem::absolute(typed, error).lexically_normal().string();
}

// A model by its name or id, or by the file that it was loaded from.
std::string encode_model(const std::string& typed) {
  return admin::encode_named("model", path_typed(typed).value_or(typed));
}

struct ModelOptions {
  AskOptions ask;
  std::string model;
};

Result<void> unload(const ModelOptions& options) {
  const auto done = client_of(options.ask).post("unload", encode_model(options.model));
  if (!done) return fail(done.error());
  std::cout << words("unload.done", options.model) << '\n';
  return {};
}

Result<void> remove_model(const ModelOptions& options) {
  const auto done = client_of(options.ask).post("remove-model", encode_model(options.model));
  if (!done) return fail(done.error());
  std::cout << words("rm.done", options.model) << '\n';
  return {};
}

Result<void> show_verified(const AskOptions& options, const std::string& answer) {
  std::size_t damaged = 0;
  RETURN_IF_ERROR(read_json(answer, [&](const Json& json) {
    damaged = json.at("damaged").size();
    if (options.json) return print_json(json);
    for (const Json& damage : json.at("damaged")) {
      std::cout << words("verify.damaged", text_or(damage, "piece"), text_or(damage, "file"))
                << '\n';
    }
    std::cout << words("verify.done", text_or(json, "name"), bytes_cell(json, "bytes"), damaged)
              << '\n';
  }));
  if (damaged == 0) return {};
  return fail(ErrorCode::kCorrupt,
              fmt::format("{} damaged parts were set aside; they are fetched again when the model "
                          "is loaded next",
                          damaged));
}

Result<void> verify(const ModelOptions& options, const StopToken& stop) {
  const SteadyClock clock;
  LoadProgress progress(clock,
                        options.ask.json ? LoadProgress::Form::kQuiet : LoadProgress::Form::kAuto);
  ASSIGN_OR_RETURN(const std::string answer, follow(client_of(options.ask), "verify",
                                                    encode_model(options.model), progress, stop));
  return show_verified(options.ask, answer);
}

struct GcOptions {
  AskOptions ask;
  admin::GcRequest request;
  std::uint64_t keep_gb = 0;
  bool keep_given = false;
};

Result<void> gc(GcOptions options) {
  if (options.keep_given) options.request.bytes_max = options.keep_gb * 1'000'000'000;
  ASSIGN_OR_RETURN(const std::string answer,
                   client_of(options.ask).post("gc", admin::encode(options.request)));
  return read_json(answer, [&](const Json& json) {
    if (options.ask.json) return print_json(json);
    for (const Json& item : json.value("removed", Json::array())) {
      std::cout << item.get<std::string>() << '\n';
    }
    std::cout << words(options.request.dry_run ? "gc.would" : "gc.done",
                       bytes_cell(json, "bytes_freed"))
              << '\n';
  });
}

}  // namespace

void set_model(admin::LoadRequest& request, const std::string& typed) {
  if (auto path = path_typed(typed)) {
    request.path = std::move(*path);
  } else {
    request.model = typed;
  }
}

void add_placement_options(CLI::App& command, admin::LoadRequest& request) {
  command.add_option("--split", request.split, words("load.split"))
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--pin", request.pins, words("load.pin"))->allow_extra_args(false);
  command.add_option("--ctx", request.context, words("option.ctx"))
      ->check(CLI::Range(1U, 1U << 24));
  command.add_option("--parallel,--sequences", request.sequences, words("load.parallel"))
      ->check(CLI::Range(1U, 256U));
  command.add_option("--threads", request.threads, words("load.threads"))
      ->check(CLI::Range(1U, 512U));
  command.add_option("--chunk", request.chunk, words("option.chunk"))->check(CLI::Range(1U, 4096U));
  command.add_option("--cache-type-k", request.cache_type_k, words("option.cache_k"))
      ->check(CLI::IsMember({"q8_0", "f16"}));
  command.add_option("--cache-type-v", request.cache_type_v, words("option.cache_v"))
      ->check(CLI::IsMember({"q8_0", "f16"}));
  command.add_option("--hidden", request.hidden, words("option.hidden"))
      ->check(CLI::IsMember({"f32", "f16", "q8"}));
  command.add_flag("--exact", request.exact, words("option.exact"));
}

Result<std::string> follow_load(const admin::AdminClient& client, const admin::LoadRequest& request,
                                LoadProgress::Form form, const StopToken& stop) {
  const SteadyClock clock;
  LoadProgress progress(clock, form);
  return follow(client, "load", admin::encode(request), progress, stop);
}

void add_load(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("load", words("load.about"));
  auto options = std::make_shared<LoadOptions>();
  command->add_option("MODEL", options->model, words("load.model"))->required();
  add_placement_options(*command, options->request);
  command->add_flag("--no-wait", options->no_wait, words("load.no_wait"));
  command->add_flag("-q,--quiet", options->quiet, words("load.quiet"));
  add_ask_options(*command, options->ask);
  command->callback([&context, options] {
    context.chosen = [&context, options] { return load(*options, context.stop); };
  });
}

void add_unload(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("unload", words("unload.about"));
  auto options = std::make_shared<ModelOptions>();
  command->add_option("MODEL", options->model, words("option.model_or_file"))->required();
  add_ask_options(*command, options->ask, false);
  command->callback(
      [&context, options] { context.chosen = [options] { return unload(*options); }; });
}

void add_rm(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("rm", words("rm.about"));
  auto options = std::make_shared<ModelOptions>();
  command->add_option("MODEL", options->model, words("option.model_or_file"))->required();
  add_ask_options(*command, options->ask, false);
  command->callback(
      [&context, options] { context.chosen = [options] { return remove_model(*options); }; });
}

void add_verify(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("verify", words("verify.about"));
  auto options = std::make_shared<ModelOptions>();
  command->add_option("MODEL", options->model, words("option.model_or_file"))->required();
  add_ask_options(*command, options->ask);
  command->callback([&context, options] {
    context.chosen = [&context, options] { return verify(*options, context.stop); };
  });
}

void add_gc(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("gc", words("gc.about"));
  auto options = std::make_shared<GcOptions>();
  command->add_flag("--dry-run", options->request.dry_run, words("gc.dry_run"));
  CLI::Option* keep = command->add_option("--keep", options->keep_gb, words("gc.keep"))
                          ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 30));
  add_ask_options(*command, options->ask);
  command->callback([&context, options, keep] {
    options->keep_given = keep->count() > 0;
    context.chosen = [options] { return gc(*options); };
  });
}

}  // namespace salvage::app
