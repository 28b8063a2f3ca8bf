#include <fmt/format.h>
#include <algorithm>
#include <cctype>

#include "manual.hpp"

namespace ff::daemon {
namespace {

// {0}: the commands; {1}: the options with a value; {2}: a branch for each command.
constexpr std::string_view kBashScript =
    R"(# Completion of ff-reconcilerd in bash, made by `ff-reconcilerd manual bash-completion`.
_ff_reconcilerd() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command='' position=0 words='' options='--help --version' valued=' {1} ' i
  # bash makes three words of --config=FILE.
  [[ $current != '=' ]] || current=''
  [[ $previous != '=' ]] || previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${{COMP_WORDS[i]}} != [-=]* && ${{COMP_WORDS[i - 1]}} != '=' && $valued != *" ${{COMP_WORDS[i - 1]}} "* ]] || continue
    if [[ -z $command ]]; then
      command=${{COMP_WORDS[i]}}
    else
      ((++position))
    fi
  done
  COMPREPLY=()
  case $command in
    '') words='{0}' ;;
{2}  esac
  if [[ $previous == --config || ($words == FILE && $current != -*) ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  elif [[ $valued != *" $previous "* ]]; then
    [[ $current != -* ]] || words=$options
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  fi
}}
complete -F _ff_reconcilerd ff-reconcilerd
)";

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

/// What may stand in one place, from a usage such as `NAME...|all`: words in lower case stand for themselves.
std::string choices_of(const std::string& place, const std::vector<std::string>& names) {
  std::vector<std::string> choices;
  std::string word;
  for (const char c : place + '|') {
    if (c == '[' || c == ']') continue;
    if (c != '|') {
      word += c;
      continue;
    }
    if (word == "NAME...")
      choices.insert(choices.end(), names.begin(), names.end());
    else if (word == "FILE" || std::islower(static_cast<unsigned char>(word.front())) != 0)
      choices.push_back(word);
    word.clear();
  }
  return joined(choices);
}

/// The first word after a command is of the first place in its usage, all further ones of the last.
std::string words_branch(const Command& command, const std::vector<std::string>& names) {
  const std::string usage{command.words.usage};
  if (usage.empty()) return {};
  const auto blank = usage.find(' ');
  const std::string first = choices_of(usage.substr(0, blank), names);
  const std::string further = command.words.most == 1      ? ""
                              : blank == std::string::npos ? first
                                                           : choices_of(usage.substr(blank + 1), names);
  if (first.empty()) return {};
  if (first == further) return fmt::format("      words='{}'\n", first);
  std::string text = fmt::format("      ((position > 0)) || words='{}'\n", first);
  if (!further.empty()) text += fmt::format("      ((position == 0)) || words='{}'\n", further);
  return text;
}

}  // namespace

std::string bash_completion(const std::vector<Command>& commands,
                            const std::vector<config::ReconcilerDecl>& decls) {
  std::vector<std::string> reconcilers;
  reconcilers.reserve(decls.size());
  for (const config::ReconcilerDecl& decl : decls) reconcilers.emplace_back(decl.name);
  std::vector<std::string> names;
  std::vector<std::string> valued;
  std::string branches;
  for (const Command& command : commands) {
    names.emplace_back(command.name);
    std::vector<std::string> options{"--help"};
    for (const std::string_view name : command.options) {
      options.push_back("--" + std::string(name));
      if (!option(name).value.empty() &&
          std::find(valued.begin(), valued.end(), options.back()) == valued.end())
        valued.push_back(options.back());
    }
    branches += fmt::format("    {})\n      options='{}'\n{}      ;;\n", command.name, joined(options),
                            words_branch(command, reconcilers));
  }
  return fmt::format(kBashScript, joined(names), joined(valued), branches);
}

}  // namespace ff::daemon
