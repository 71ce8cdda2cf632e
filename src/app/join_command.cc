// `salvage join`: a machine becomes a member, or takes its place again.

#include <memory>
#include <string>
#include <utility>

#include "app/command.h"
#include "app/host_address.h"
#include "app/node_options.h"
#include "app/words.h"
#include "base/clock.h"
#include "identity/fingerprint.h"

namespace salvage::app {
namespace {

struct JoinCommandOptions {
  NodeOptions node;
  std::string code;
  std::string at;
};

// Where a person says that the coordinator is.
Result<std::vector<std::string>> said_addresses(const JoinCommandOptions& options) {
  if (options.at.empty()) return std::vector<std::string>{};
  ASSIGN_OR_RETURN(const HostPort place, parse_host_port(options.at, kNodePort));
  return resolve_host(place);
}

Result<Enrolment> enrolment_of(state::StateDb& state, const JoinCommandOptions& options,
                               const StopToken& stop) {
  ASSIGN_OR_RETURN(auto member, open_membership(state));
  if (member && options.code.empty()) return std::move(*member);
  if (options.code.empty()) return fail(ErrorCode::kInvalidArgument, words("join.code_missing"));
  JoinOptions join;
  ASSIGN_OR_RETURN(join.code, identity::parse_join_code(options.code));
  if (member && member->cluster_id != join.code.cluster_id) {
    return fail(ErrorCode::kInvalidArgument,
                words("join.other_cluster", identity::short_form(member->cluster_id)));
  }
  if (member) {
    print_line(words("join.already"));
    return std::move(*member);
  }
  ASSIGN_OR_RETURN(join.addresses, said_addresses(options));
  join.name = node_name(options.node);
  join.kernel_fingerprint = own_kernels();
  join.wire_version = options.node.wire_version;
  join.say = print_line;
  const SteadyClock clock;
  ASSIGN_OR_RETURN(Enrolment enrolment, join_cluster(state, join, clock, stop));
  print_line(words("join.joined", enrolment.cluster_name,
                   identity::grouped_form(enrolment.cluster_id), enrolment.name));
  return enrolment;
}

Result<void> join(const JoinCommandOptions& options, const StopToken& stop) {
  open_log(options.node);
  ASSIGN_OR_RETURN(const NodeProcessOptions process_options, to_process_options(options.node));
  ASSIGN_OR_RETURN(const auto state, open_state(process_options, "join"));
  ASSIGN_OR_RETURN(Enrolment enrolment, enrolment_of(*state, options, stop));
  ASSIGN_OR_RETURN(const auto said, said_addresses(options));
  auto& addresses = enrolment.coordinator_addresses;
  addresses.insert(addresses.begin(), said.begin(), said.end());
  ASSIGN_OR_RETURN(const auto process,
                   NodeProcess::start(process_options, *state, std::move(enrolment)));
  print_line(machine_text(*process));
  print_line(words("join.use"));
  return process->wait(stop);
}

}  // namespace

void add_join(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("join", words("join.about"));
  auto options = std::make_shared<JoinCommandOptions>();
  command->add_option("CODE", options->code, words("join.code"));
  command->add_option("--at", options->at, words("join.at"));
  add_node_options(*command, options->node);
  command->callback([&context, options] {
    context.chosen = [&context, options] { return join(*options, context.stop); };
  });
}

}  // namespace salvage::app
