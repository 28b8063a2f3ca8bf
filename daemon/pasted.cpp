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

// As long as the command, with what stands between single quotes blotted out.
std::string without_quoted(std::string command) {
  bool is_quoted = false;
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (command[i] == '\\' && !is_quoted)
      ++i;  // a quote of its own
    else if (command[i] == '\'')
      is_quoted = !is_quoted;
    else if (is_quoted)
      command[i] = '_';
  }
  return command;
}

}  // namespace

Pasted::Pasted(const Arguments& arguments) {
  if (const auto file = arguments.text("config")) config_file_ = absolute(*file);
}

std::string Pasted::operator()(std::string command) const {
  if (config_file_.empty() || !command.starts_with(kProgram)) return command;
  const std::string bare = without_quoted(command);
  if (bare.find(" --config ") != std::string::npos) return command;
  // What follows is a comment, or another program's.
  const auto end = std::min({bare.find(" #"), bare.find(" |"), bare.find(", then"), bare.size()});
  const bool takes_it_bare = command.compare(0, end, "ff-reconcilerd check-config") == 0;
  return command.insert(end, (takes_it_bare ? " " : " --config ") + shell_word(config_file_));
}

}  // namespace ff::daemon
