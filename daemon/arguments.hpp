#pragma once

#include <boost/program_options/variables_map.hpp>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/partitions.hpp"
#include "base/scanner_filter.hpp"

namespace ff::daemon {

/// The command line cannot be understood; the message says what is wrong and what is allowed, and repeats what was typed
/// by in_quotes() only.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What was typed, in quotes, as it can be shown, and of a long word the beginning: in the wrong place it may be a connection
/// string.
std::string in_quotes(std::string_view typed);

/// What was given to a command: its options and the words after its name.
class Arguments {
 public:
  Arguments(boost::program_options::variables_map values, std::vector<std::string> words)
      : values_(std::move(values)), words_(std::move(words)) {}

  bool has(const std::string& option) const;
  std::optional<std::string> text(const std::string& option) const;
  /// Throws UsageError when it is no whole number within the bounds.
  std::optional<std::int64_t> number(const std::string& option, std::int64_t least, std::int64_t most) const;
  /// Of the option `partitions`; throws UsageError when its value names none.
  std::optional<Partitions> partitions() const;
  /// Of the option `instance-tag`; throws UsageError when its value is not KEY=VALUE.
  std::optional<ScannerFilter::Tag> instance_tag() const;
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

/// The text of --help, of the program (`command` null) or of one command.
std::string help(const std::vector<Command>& commands, const Command* command);

}  // namespace ff::daemon
