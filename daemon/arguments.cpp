#include "arguments.hpp"

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <charconv>
#include <limits>
#include <sstream>

#include "base/nearest.hpp"
#include "base/printable.hpp"
#include "config/problem.hpp"
#include "config/secrets.hpp"

namespace ff::daemon {
namespace {

namespace po = boost::program_options;

constexpr std::array kOptions{
    Option{"config", "FILE", "the configuration file"},
    Option{"database-url", "URL", "the database, as a URL or as libpq keywords; overrides the configuration"},
    Option{"partitions", "KEYS", "only these partitions, such as 0-63,128"},
    Option{"partition", "KEY", "only this partition (default: all of them)"},
    Option{"after", "HEX", "only what came after this cursor; empty: after the newest event there is"},
    Option{"follow", "", "go on with what happens from now on, until stopped"},
    Option{"namespace", "NAME", "only executions of this namespace"},
    Option{"instance-tag", "KEY=VALUE", "only executions with this tag"},
    Option{"batch-size", "N", "rows per transaction"},
    Option{"execution", "{fp:N}:UUID", "only this execution"},
    Option{"limit", "N", "rows shown of each check (default 20), the others are counted"},
    Option{"gap", "DURATION", "how long a row must stand still, where that is asked for (default: 60s)"},
    Option{"dry-run", "", "say what would be done and do nothing"},
    Option{"json", "", "one JSON object a line"},
    Option{"ready", "", "ask /readyz instead: whether reconcilers run"},
    Option{"fan-out", "N", "hash children per table of a new schema (default 256)"},
    Option{"role", "NAME", "the role to grant to, as it is named (default: one to replace)"},
    Option{"print-default", "", "print a complete commented file instead"},
    Option{"reason", "TEXT", "why, for whoever finds it paused"},
    Option{"until", "TIME", "the end, such as 2026-11-24T06:00Z (default: until resumed)"},
    Option{"for", "DURATION", "how long, such as 30m, 2h, 7d (default: until resumed)"},
    Option{"seconds", "N", "stop after this time, with a summary and a check of the books"},
    Option{"url", "URL", "a running daemon, such as http://127.0.0.1:9464 (default: from the configuration)"},
    Option{"address", "HOST:PORT", "where the daemon listens (default: from the configuration)"},
};

// "--json" is followed by nothing, "--config" by its value.
bool wants_value(const std::string& argument) {
  return std::ranges::any_of(kOptions, [&](const Option& o) {
    return !o.value.empty() && argument.starts_with("--") && argument.substr(2) == o.name;
  });
}

// What people try first, beside --help and the command.
std::vector<std::string> spelled_out(std::vector<std::string> line) {
  if (line == std::vector<std::string>{"--version"}) return {"version"};
  const auto end = std::ranges::find(line, "--");
  for (auto word = line.begin(); word != end; ++word)
    if (*word == "-h" && (word == line.begin() || !wants_value(*(word - 1)))) *word = "--help";
  return line;
}

// Compared without the dashes, in which all are alike, and without a value.
std::string what_was_meant(const std::string& name) {
  if (name == "--version") return ": write --version alone";
  std::vector<std::string> names{"help", "version"};
  for (const Option& o : kOptions) names.emplace_back(o.name);
  const auto begin = std::min(name.find_first_not_of('-'), name.size());
  const std::string meant = nearest(name.substr(begin, name.find('=') - begin), names);
  return meant.empty() ? "" : ": did you mean --" + meant + "?";
}

po::options_description described() {
  po::options_description all;
  all.add_options()("help", po::bool_switch());
  all.add_options()("words", po::value<std::vector<std::string>>());
  for (const Option& o : kOptions) {
    if (o.value.empty())
      all.add_options()(std::string(o.name).c_str(), po::bool_switch());
    else
      all.add_options()(std::string(o.name).c_str(), po::value<std::string>());
  }
  return all;
}

// Boost would take the next option for the value: `--config --json` would look for a file of that name.
void refuse_missing_values(const std::vector<std::string>& line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (!wants_value(line[i])) continue;
    if (i + 1 < line.size() && line[i + 1].starts_with("--"))
      throw UsageError(line[i] + " wants " + std::string(option(line[i].substr(2)).value) + ", not " +
                       in_quotes(line[i + 1]));
    ++i;
  }
}

po::variables_map parse(const std::vector<std::string>& line) {
  refuse_missing_values(line);
  const po::options_description all = described();
  po::positional_options_description positional;
  positional.add("words", -1);
  const int style = (po::command_line_style::unix_style & ~po::command_line_style::allow_guessing) &
                    ~po::command_line_style::allow_short;
  po::variables_map values;
  try {
    po::store(po::command_line_parser(line).options(all).positional(positional).style(style).run(), values);
  } catch (const po::unknown_option& error) {
    // Not what(): Boost replaces its own placeholders there, over and over where the option is named like one.
    const std::string name = error.get_option_name();
    throw UsageError("unrecognised option " + in_quotes(name) + what_was_meant(name));
  } catch (const po::error& error) {
    throw UsageError(config::hide_secrets(error.what()));
  }
  return values;
}

const Command& find(const std::vector<Command>& commands, const std::string& name) {
  const auto found =
      std::find_if(commands.begin(), commands.end(), [&](const Command& c) { return c.name == name; });
  if (found != commands.end()) return *found;
  std::string known;
  std::vector<std::string> names;
  for (const Command& command : commands) {
    known += (known.empty() ? "" : ", ") + std::string(command.name);
    names.emplace_back(command.name);
  }
  throw UsageError("there is no command " + in_quotes(name) + did_you_mean(name, names) +
                   " (commands: " + known + ")");
}

void check(const Command& command, const Arguments& arguments) {
  for (const Option& o : kOptions) {
    const bool accepted =
        std::find(command.options.begin(), command.options.end(), o.name) != command.options.end();
    if (!accepted && arguments.has(std::string(o.name)))
      throw UsageError(std::string(command.name) + " has no option --" + std::string(o.name) +
                       (command.words.usage.empty() ? ""
                                                    : " (write " + std::string(command.name) + ' ' +
                                                          std::string(command.words.usage) + ')'));
  }
  const auto& words = arguments.words();
  if (words.size() > command.words.most)
    throw UsageError(std::string(command.name) + ": stray word " + in_quotes(words[command.words.most]));
  if (words.size() < command.words.least)
    throw UsageError(std::string(command.name) + ": missing " + std::string(command.words.usage));
}

std::string option_line(const Option& o) {
  std::ostringstream line;
  const std::string left = "  --" + std::string(o.name) + (o.value.empty() ? "" : " " + std::string(o.value));
  line << left << std::string(left.size() < 28 ? 28 - left.size() : 1, ' ') << o.summary << '\n';
  return line.str();
}

}  // namespace

std::string in_quotes(std::string_view typed) {
  return '"' + printable(config::hide_secrets(typed), config::kLongestQuoted) + '"';
}

const Option& option(std::string_view name) {
  return *std::find_if(kOptions.begin(), kOptions.end(), [&](const Option& o) { return o.name == name; });
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& words) {
  const std::string meant = nearest(word, words);
  return meant.empty() ? "" : ": did you mean " + meant + "?";
}

bool Arguments::has(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end() || found->second.defaulted()) return false;
  const auto* on = boost::any_cast<bool>(&found->second.value());
  return on == nullptr || *on;
}

std::optional<std::string> Arguments::text(const std::string& name) const {
  return has(name) ? std::optional(values_[name].as<std::string>()) : std::nullopt;
}

std::optional<std::int64_t> Arguments::number(const std::string& name, std::int64_t least,
                                              std::int64_t most) const {
  const auto given = text(name);
  if (!given) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), value);
  if (error != std::errc{} || end != given->data() + given->size() || value < least || value > most)
    throw UsageError("--" + name + ": " + in_quotes(*given) + " is no whole number from " +
                     std::to_string(least) + " to " + std::to_string(most));
  return value;
}

std::optional<Partitions> Arguments::partitions() const {
  const auto given = text("partitions");
  if (!given) return std::nullopt;
  try {
    return parse_partitions(*given);
  } catch (const std::invalid_argument& error) {
    // It quotes a part, and the part of a connection string may be half a password.
    const bool is_discreet = config::hide_secrets(*given) == *given;
    throw UsageError("--partitions: " +
                     (is_discreet ? error.what() : in_quotes(*given) + " is no list of partitions"));
  }
}

std::optional<ScannerFilter::Tag> Arguments::instance_tag() const {
  const auto given = text("instance-tag");
  if (!given) return std::nullopt;
  const auto equals = given->find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == given->size())
    throw UsageError("--instance-tag: " + in_quotes(*given) + " is not KEY=VALUE");
  return ScannerFilter::Tag{given->substr(0, equals), given->substr(equals + 1)};
}

Invocation understand(const std::vector<std::string>& line, const std::vector<Command>& commands) {
  po::variables_map values = parse(spelled_out(line));
  std::vector<std::string> words;
  if (values.count("words") > 0) words = values["words"].as<std::vector<std::string>>();
  const bool wants_help = values["help"].as<bool>();
  if (words.empty()) {
    if (!wants_help) throw UsageError("no command given");
    return {nullptr, true, Arguments(values, {})};
  }
  if (words.front() == "help")
    return {words.size() > 1 ? &find(commands, words.at(1)) : nullptr, true,
            Arguments(std::move(values), {})};
  const Command& command = find(commands, words.front());
  Arguments arguments(std::move(values), {words.begin() + 1, words.end()});
  if (!wants_help) check(command, arguments);
  return {&command, wants_help, std::move(arguments)};
}

std::string help(const std::vector<Command>& commands, const Command* command) {
  std::string text = "usage: ff-reconcilerd ";
  if (command == nullptr) {
    text += "COMMAND [OPTION...]\n\n";
    for (const Command& c : commands) {
      std::string name = "  " + std::string(c.name);
      name.resize(16, ' ');
      text += name + std::string(c.summary) + '\n';
    }
    return text + "\n`ff-reconcilerd COMMAND --help` lists a command's options.\n";
  }
  text += std::string(command->name) +
          (command->words.usage.empty() ? "" : " " + std::string(command->words.usage)) +
          (command->options.empty() ? "" : " [OPTION...]") + "\n\n" + std::string(command->summary) + "\n";
  if (!command->options.empty()) text += '\n';
  for (const std::string_view name : command->options) text += option_line(option(name));
  return text;
}

}  // namespace ff::daemon
