// `salvage top`: machines and requests as they are, once a second.

#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "app/ask.h"
#include "app/command.h"
#include "app/top_view.h"
#include "app/words.h"
#include "base/terminal.h"

namespace salvage::app {
namespace {

constexpr Duration kTopLookTime = std::chrono::seconds(1);
// How soon a key, Ctrl-C or another size of the window is noticed.
constexpr Duration kTopKeyTime = std::chrono::milliseconds(100);

struct TopOptions {
  AskOptions ask;
  bool once = false;
};

// nlohmann's move checks itself, and says so by throwing.
struct Look {  // NOLINT(bugprone-exception-escape)
  Json cluster;
  Json requests;
};

Result<Look> look_at(const admin::AdminClient& client) {
  Look look;
  ASSIGN_OR_RETURN(const std::string cluster, client.get("glance"));
  ASSIGN_OR_RETURN(const std::string requests, client.get("requests"));
  RETURN_IF_ERROR(read_json(cluster, [&](const Json& json) { look.cluster = json; }));
  RETURN_IF_ERROR(read_json(requests, [&](const Json& json) { look.requests = json; }));
  return look;
}

Result<std::string> text_of(const Look& look, TopSize size) {
  std::string text;
  RETURN_IF_ERROR(read_json("{}", [&](const Json&) {
    for (const std::string& line : top_lines(look.cluster, look.requests, size)) {
      text += line + '\n';
    }
  }));
  return text;
}

Result<void> show_once(const TopOptions& options) {
  ASSIGN_OR_RETURN(const Look look, look_at(client_of(options.ask)));
  if (options.ask.json) {
    Json json = Json::object();
    json["cluster"] = look.cluster;
    json["requests"] = look.requests;
    print_json(json);
    return {};
  }
  ASSIGN_OR_RETURN(const std::string text, text_of(look, {}));
  std::cout << text;
  return {};
}

// False once somebody wants to leave, or nobody sees it.
Result<bool> draw(LiveScreen& screen, const Look& look, TerminalSize size) {
  ASSIGN_OR_RETURN(std::string text, text_of(look, {size.columns, size.rows}));
  if (!text.empty()) text.pop_back();  // the last line has no end: the screen would roll
  return screen.show(text);
}

bool wants_to_leave(const std::optional<char>& key) {
  constexpr char kControlC = 3;
  return key && (*key == 'q' || *key == 'Q' || *key == kControlC);
}

Result<void> show_live(const TopOptions& options, const StopToken& stop) {
  const admin::AdminClient client = client_of(options.ask);
  ASSIGN_OR_RETURN(Look look, look_at(client));  // before the screen is taken
  LiveScreen screen;
  const SteadyClock clock;
  TimePoint next_look = deadline_after(clock.now(), kTopLookTime);
  std::optional<TerminalSize> drawn;
  while (!stop.stop_requested()) {
    if (clock.now() >= next_look) {
      ASSIGN_OR_RETURN(look, look_at(client));
      next_look = deadline_after(clock.now(), kTopLookTime);
      drawn.reset();
    }
    const TerminalSize size = terminal_size();
    if (drawn != size) {
      ASSIGN_OR_RETURN(const bool seen, draw(screen, look, size));
      if (!seen) return {};
      drawn = size;
    }
    if (wants_to_leave(screen.key(kTopKeyTime))) return {};
  }
  return {};
}

}  // namespace

void add_top(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("top", words("top.about"));
  auto options = std::make_shared<TopOptions>();
  add_ask_options(*command, options->ask);
  command->add_flag("--once", options->once, words("top.once"));
  command->callback([&context, options] {
    context.chosen = [&context, options]() -> Result<void> {
      const bool live = !options->once && !options->ask.json && is_terminal(Stream::kOutput);
      return live ? show_live(*options, context.stop) : show_once(*options);
    };
  });
}

}  // namespace salvage::app
