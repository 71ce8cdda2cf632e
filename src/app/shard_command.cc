#include <charconv>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/command.h"
#include "app/format.h"
#include "app/progress.h"
#include "app/words.h"
#include "model/shard.h"

namespace salvage::app {
namespace {

struct ShardCommand {
  std::string model;
  std::string layers;
  std::string output;
  bool embeddings = false;
  bool vocabulary = false;
  bool json = false;
};

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "A:B", half-open, as Python writes it.
Result<LayerRange> parse_layers(const std::string& text) {
  const std::size_t colon = text.find(':');
  const auto begin = number(text.substr(0, colon));
  const auto end = colon == std::string::npos ? std::nullopt : number(text.substr(colon + 1));
  if (!begin || !end) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("--layers '{}' is not A:B, for example 0:10 for the first ten layers", text));
  }
  return LayerRange{*begin, *end};
}

Result<void> write(const model::Gguf& file, const ShardCommand& command,
                   const model::ShardOptions& options) {
  if (command.embeddings) return model::write_embedding_table(file, command.output, options);
  if (command.vocabulary) return model::write_vocabulary(file, command.output);
  ASSIGN_OR_RETURN(const LayerRange layers, parse_layers(command.layers));
  return model::write_shard(file, layers, command.output, options);
}

Result<void> shard(const ShardCommand& command, const StopToken& stop) {
  if (command.layers.empty() && !command.embeddings && !command.vocabulary) {
    return fail(ErrorCode::kInvalidArgument,
                "nothing to write: give --layers A:B, --embeddings or --vocabulary");
  }
  ASSIGN_OR_RETURN(const model::Gguf file, model::Gguf::open(command.model));
  const SteadyClock clock;
  Progress progress(clock, command.json);
  model::ShardOptions options;
  options.progress = [&](double fraction) {
    progress.update(words("shard.writing", command.output), fraction);
    return !stop.stop_requested();
  };
  RETURN_IF_ERROR(write(file, command, options));
  progress.clear();
  ASSIGN_OR_RETURN(const model::Gguf written, model::Gguf::open(command.output));
  if (command.json) {
    std::cout << nlohmann::ordered_json{{"path", command.output},
                                        {"bytes", written.file_bytes()},
                                        {"tensors", written.tensors().size()}}
                     .dump(2)
              << '\n';
  } else {
    std::cout << words("shard.written", command.output, format_bytes(written.file_bytes()),
                       written.tensors().size())
              << '\n';
  }
  return {};
}

}  // namespace

void add_shard(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("shard", words("shard.about"));
  auto options = std::make_shared<ShardCommand>();
  command->add_option("MODEL", options->model, words("option.model"))->required();
  auto* layers = command->add_option("--layers", options->layers, words("shard.layers"));
  auto* embeddings =
      command->add_flag("--embeddings", options->embeddings, words("shard.embeddings"));
  auto* vocabulary =
      command->add_flag("--vocabulary", options->vocabulary, words("shard.vocabulary"));
  layers->excludes(embeddings)->excludes(vocabulary);
  embeddings->excludes(vocabulary);
  command->add_option("-o,--output", options->output, words("shard.output"))->required();
  command->add_flag("--json", options->json, words("option.json"));
  command->callback([&context, options] {
    context.chosen = [&context, options] { return shard(*options, context.stop); };
  });
}

}  // namespace salvage::app
