// `salvage invite`, `rename`, `remove`, `leave`: who belongs to the cluster.

#include <charconv>
#include <iostream>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "admin/admin_request.h"
#include "app/ask.h"
#include "app/command.h"
#include "app/data_folder.h"
#include "app/download_service.h"
#include "app/enrolment.h"
#include "app/table.h"
#include "app/version.h"
#include "app/words.h"
#include "state/state_db.h"

namespace salvage::app {
namespace {

// "90s", "15m", "1h", "7d"; a plain number is seconds.
Result<std::int64_t> parse_duration(const std::string& text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number);
  const std::string unit(after, end);
  std::int64_t seconds = 0;
  if (unit.empty() || unit == "s") seconds = 1;
  if (unit == "m") seconds = 60;
  if (unit == "h") seconds = 3600;
  if (unit == "d") seconds = std::int64_t{24} * 3600;
  if (error != std::errc() || seconds == 0 || number <= 0 || number > 1'000'000) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a time is written as 90s, 15m, 1h or 7d, not '{}'", text));
  }
  return number * seconds;
}

struct InviteOptions {
  AskOptions ask;
  admin::InviteRequest request;
  std::string ttl = "1h";
  bool list = false;
  std::string revoke;
};

void show_invites(const Json& answer) {
  Table table;
  table.column(words("table.id"));
  table.column(words("table.uses"), Table::Align::kRight);
  table.column(words("table.label"));
  for (const Json& invite : answer.value("invites", Json::array())) {
    table.row({text_or(invite, "id"), std::to_string(invite.value("uses_left", 0)),
               text_or(invite, "label")});
  }
  std::cout << table.text();
}

Result<void> invite(InviteOptions options) {
  const admin::AdminClient client = client_of(options.ask);
  if (options.list) return ask_and_show(options.ask, "invites", show_invites);
  if (!options.revoke.empty()) {
    const auto done = client.post("revoke-invite", admin::encode_named("id", options.revoke));
    if (!done) return fail(done.error());
    return {};
  }
  ASSIGN_OR_RETURN(options.request.ttl_seconds, parse_duration(options.ttl));
  ASSIGN_OR_RETURN(const std::string answer, client.post("invite", admin::encode(options.request)));
  return read_json(answer, [&](const Json& json) {
    if (options.ask.json) return print_json(json);
    std::cout << words("invite.line", json.at("code").get<std::string>(), options.ttl,
                       json.value("uses_left", 1))
              << '\n'
              << download_text(text_or(json, "download_line", ""), text_or(json, "no_download", ""))
              << '\n';
  });
}

struct RenameOptions {
  AskOptions ask;
  admin::RenameRequest request;
};

Result<void> rename(const RenameOptions& options) {
  ASSIGN_OR_RETURN(const std::string answer,
                   client_of(options.ask).post("rename", admin::encode(options.request)));
  return read_json(answer, [&](const Json& json) {
    if (options.ask.json) return print_json(json);
    std::cout << words("rename.done", json.at("name").get<std::string>()) << '\n';
  });
}

struct RemoveOptions {
  AskOptions ask;
  std::string node;
};

Result<void> remove(const RemoveOptions& options) {
  const auto done =
      client_of(options.ask).post("remove", admin::encode_named("node", options.node));
  if (!done) return fail(done.error());
  std::cout << words("remove.done", options.node) << '\n';
  return {};
}

struct LeaveOptions {
  AskOptions ask;
  admin::LeaveRequest request;
};

// Nothing runs here: this machine forgets, and who is there has to take it off the list.
Result<void> leave_at_rest(const LeaveOptions& options) {
  const auto folder = choose_data_folder(options.ask.data);
  if (!std::filesystem::exists(folder / "state.db")) {
    return fail(ErrorCode::kNotFound,
                fmt::format("there is no salvage in {}; nothing to leave", folder.string()));
  }
  ASSIGN_OR_RETURN(const auto state,
                   state::StateDb::open(folder, {.command = "leave", .program_version = kVersion}));
  ASSIGN_OR_RETURN(const auto member, open_membership(*state));
  if (!member && !options.request.forget) {
    return fail(ErrorCode::kNotFound, "this machine belongs to no cluster");
  }
  RETURN_IF_ERROR(state->forget_cluster(options.request.forget));
  if (member) std::cout << words("leave.done_untold", member->name) << '\n';
  if (!member) std::cout << words("leave.forgot") << '\n';
  return {};
}

Result<void> leave(const LeaveOptions& options) {
  const admin::AdminClient client = client_of(options.ask);
  if (!client.running()) return leave_at_rest(options);
  const auto done = client.post("leave", admin::encode(options.request));
  if (!done) return fail(done.error());
  std::cout << words("leave.done") << '\n';
  return {};
}

}  // namespace

void add_invite(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("invite", words("invite.about"));
  auto options = std::make_shared<InviteOptions>();
  add_ask_options(*command, options->ask);
  command->add_option("--uses", options->request.uses, words("invite.uses"))
      ->check(CLI::Range(1U, cluster::kInviteUsesMax))
      ->capture_default_str();
  command->add_option("--ttl", options->ttl, words("invite.ttl"))->capture_default_str();
  command->add_flag("--ephemeral", options->request.ephemeral, words("invite.ephemeral"));
  command->add_option("--label", options->request.label, words("invite.label"));
  command->add_flag("--list", options->list, words("invite.list"));
  command->add_option("--revoke", options->revoke, words("invite.revoke"));
  command->callback(
      [&context, options] { context.chosen = [options] { return invite(*options); }; });
}

void add_rename(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("rename", words("rename.about"));
  auto options = std::make_shared<RenameOptions>();
  command->add_option("NODE", options->request.node, words("option.node"))->required();
  command->add_option("NAME", options->request.name, words("rename.name"))->required();
  add_ask_options(*command, options->ask);
  command->callback(
      [&context, options] { context.chosen = [options] { return rename(*options); }; });
}

void add_remove(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("remove", words("remove.about"));
  auto options = std::make_shared<RemoveOptions>();
  command->add_option("NODE", options->node, words("option.node"))->required();
  add_ask_options(*command, options->ask, false);
  command->callback(
      [&context, options] { context.chosen = [options] { return remove(*options); }; });
}

void add_leave(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("leave", words("leave.about"));
  auto options = std::make_shared<LeaveOptions>();
  command->add_flag("--forget", options->request.forget, words("leave.forget"));
  add_ask_options(*command, options->ask, false);
  command->callback(
      [&context, options] { context.chosen = [options] { return leave(*options); }; });
}

}  // namespace salvage::app
