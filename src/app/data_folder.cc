#include "app/data_folder.h"

#include <system_error>

#include "app/words.h"
#include "base/environment.h"

namespace salvage::app {
namespace {

std::filesystem::path chosen(const std::string& given) {
  if (!given.empty()) return given;
  if (const auto home = environment("SALVAGE_HOME")) return *home;
  if (const auto data = environment("XDG_DATA_HOME")) {
    return std::filesystem::path(*data) / "salvage";
  }
  if (const auto home = environment("HOME")) {
    return std::filesystem::path(*home) / ".local/share/salvage";
  }
  return "/var/lib/salvage";
}

}  // namespace

std::filesystem::path choose_data_folder(const std::string& given) {
  const std::filesystem::path folder = chosen(given);
  std::error_code error;
  const auto absolute = std::filesystem::absolute(folder, error);
  return error ? folder : absolute.lexically_normal();
}

void add_data_option(CLI::App& command, std::string& folder) {
  command.add_option("--data", folder, words("option.data"));
}

}  // namespace salvage::app
