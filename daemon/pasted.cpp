#include "pasted.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/quoted.hpp"

namespace ff::daemon {
namespace {

constexpr std::string_view kProgram = "ff-reconcilerd ";

std::string absolute(const std::string& path) {
  std::error_code unknown;
  const std::filesystem::path whole = std::filesystem::absolute(path, unknown);
  return unknown ? path : whole.lexically_normal().string();
}

}  // namespace

Pasted::Pasted(const Arguments& arguments) {
  if (const auto file = arguments.text("config")) config_file_ = absolute(*file);
}

std::string Pasted::operator()(std::string command) const {
  const bool says_where = command.find(" --config ") != std::string::npos;
  if (config_file_.empty() || !command.starts_with(kProgram) || says_where) return command;
  // What follows is a comment, or another program's.
  const auto end = std::min({command.find(" #"), command.find(" |"), command.find(", then"), command.size()});
  const bool takes_it_bare = command.compare(0, end, "ff-reconcilerd check-config") == 0;
  return command.insert(end, (takes_it_bare ? " " : " --config ") + shell_word(config_file_));
}

}  // namespace ff::daemon
