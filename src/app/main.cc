// salvage: one program, many machines. main() chooses the language, declares the commands, runs the
// chosen one, and says what went wrong.

#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/command.h"
#include "app/version.h"
#include "app/words.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "base/utf8.h"

namespace salvage::app {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

// Messages quote damaged files: nothing in them may steer a terminal or be half a character.
std::string printable(std::string_view text) {
  std::string shown;
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    shown.push_back(code < 0x20 || code == 0x7f ? '?' : byte);
  }
  Utf8Stream characters;
  std::string whole = characters.push(shown);
  return whole + characters.finish();
}

// What somebody else has cancelled says so itself.
int report(const Error& error, const StopToken& interrupt) {
  const bool by_us = interrupt.stop_requested() || !std::cout;
  if (error.code() == ErrorCode::kCancelled && by_us) {
    std::cerr << words("error.interrupted") << '\n';
    return kExitInterrupted;
  }
  const std::string name(error_code_name(error.code()));
  std::cerr << words("error.line", words("error." + name), printable(error.message())) << '\n';
  return kExitFailed;
}

// CLI11's own words, in the user's language.
class HelpText : public CLI::Formatter {
 public:
  HelpText() {
    label("Usage", words("app.usage"));
    label("OPTIONS", words("app.options_after"));
    label("Positionals", words("app.positionals"));
    label("SUBCOMMAND", words("app.subcommand_after"));
    label("REQUIRED", words("app.required"));
  }
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    const bool translated = !is_positional && group == "Options";
    return CLI::Formatter::make_group(translated ? words("app.options") : group, is_positional,
                                      std::move(options));
  }
};

std::string usage_error(const CLI::App* /*app*/, const CLI::Error& error) {
  return fmt::format("{}\n{}\n", error.what(), words("app.more_help"));
}

// In the order in which people meet them; --help shows the groups so.
void add_commands(CLI::App& app, CommandContext& context) {
  using Add = void (*)(CLI::App&, CommandContext&);
  const std::pair<const char*, std::vector<Add>> groups[] = {
      {"app.group_start", {add_up, add_join, add_invite, add_leave}},
      {"app.group_look", {add_status, add_nodes, add_ps, add_top}},
      {"app.group_run", {add_run, add_cancel, add_load, add_unload}},
      {"app.group_models", {add_models, add_verify, add_rm, add_gc, add_inspect, add_shard}},
      {"app.group_admin", {add_rename, add_remove, add_bench, add_stage}},
  };
  for (const auto& [group, commands] : groups) {
    for (const Add add : commands) {
      add(app, context);
      app.get_subcommands({}).back()->group(words(group));
    }
  }
}

int run(int argc, char** argv, StopToken stop) {
  set_language(choose_language(argc, argv));
  CLI::App app(words("app.about"), "salvage");
  app.formatter(std::make_shared<HelpText>());  // sub-commands inherit both
  app.failure_message(usage_error);
  CommandContext context{std::move(stop), {}};
  std::string language;  // read by choose_language(); declared here for --help and for checking
  app.add_option("--lang", language, words("app.lang"))->check(CLI::IsMember({"en", "zh"}));
  app.set_version_flag("--version", fmt::format("salvage {} (llama.cpp {})", kVersion, kLlamaPin),
                       words("app.version"));
  app.set_help_flag("-h,--help", words("app.help"));
  app.require_subcommand(1);
  app.fallthrough();
  add_commands(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error, std::cout, std::cerr);
    return code == 0 ? 0 : kExitUsage;
  }
  const Result<void> done = context.chosen();
  if (!done) return report(done.error(), context.stop);
  if (std::cout.flush()) return 0;
  std::cerr << words("error.output_lost") << '\n';
  return kExitFailed;
}

}  // namespace
}  // namespace salvage::app

int main(int argc, char** argv) {
  salvage::occupy_closed_streams();
  const salvage::StopSource interrupt = salvage::install_interrupt();
  try {
    return salvage::app::run(argc, argv, interrupt.get_token());
  } catch (const std::exception& error) {
    // Nothing of ours throws: this is a library, or memory that ran out.
    std::cerr << "salvage: " << error.what() << '\n';
    return 1;
  }
}
