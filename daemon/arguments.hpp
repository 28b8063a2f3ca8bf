#pragma once

#include <boost/program_options/variables_map.hpp>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ff::daemon {

/// The command line cannot be understood; the message says what is wrong and what is allowed.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What was given to a command: its options and the words after its name.
class Arguments {
 public:
  Arguments(boost::program_options::variables_map values, std::vector<std::string> words)
      : values_(std::move(values)), words_(std::move(words)) {}

  bool has(const std::string& option) const;
  std::optional<std::string> text(const std::string& option) const;
  /// Throws UsageError when it is no whole number within the bounds.
  std::optional<std::int64_t> number(const std::string& option, std::int64_t least, std::int64_t most) const;
  const std::vector<std::string>& words() const { return words_; }

 private:
  boost::program_options::variables_map values_;
  std::vector<std::string> words_;
};

/// One line of the table that parser, help, manual and completion share. An option means the same wherever it is accepted.
struct Option {
  std::string_view name;   ///< without the dashes
  std::string_view value;  ///< how its value is written; empty: a switch
  std::string_view summary;
};

/// The option of this name, which is one that there is: they come from Command::options.
const Option& option(std::string_view name);

/// One of the program's commands.
struct Command {
  struct Words {
    std::string_view usage = {};  ///< how they are written in the usage line
    std::size_t least = 0;
    std::size_t most = 0;
  };
  std::string_view name;
  Words words;
  std::string_view summary;
  std::vector<std::string_view> options;  ///< names from the table of all options
  int (*run)(const Arguments&);
};

/// The command line, understood: which command, and with what. Options may stand anywhere; unknown,
/// abbreviated and repeated ones, options of other commands and stray words are refused with UsageError.
struct Invocation {
  const Command* command = nullptr;  ///< null: only help was asked for
  bool help = false;
  Arguments arguments;
};
Invocation understand(const std::vector<std::string>& line, const std::vector<Command>& commands);

/// ": did you mean NAME?", of one of these words; empty where none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& words);

/// What is said about this line, as it can be shown: what was typed into the wrong place may be a connection string.
std::string without_secrets(std::string message, const std::vector<std::string>& line);

/// The text of --help, of the program (`command` null) or of one command.
std::string help(const std::vector<Command>& commands, const Command* command);

}  // namespace ff::daemon
