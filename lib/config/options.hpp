#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.hpp"

namespace ff::config {

/// Milliseconds by name; nothing is "keep".
using Durations = std::map<std::string, std::optional<std::int64_t>>;

/// The value of one option: nothing ("unlimited" where that is allowed, else not set), a flag, a number (a
/// count, milliseconds, or the index of a choice), a text, a choice of partitions, or durations by name.
using Value = std::variant<std::monostate, bool, std::int64_t, std::string, PartitionChoice, Durations>;

/// One line of the table that parser, environment, printer and documentation share. The default is not
/// repeated here: it is what `get` answers on defaults().
struct Option {
  enum class Type { text, count, duration, durations, flag, choice, address, partitions, percent, rate };
  enum class Secret {
    none,
    whole,    ///< never shown
    conninfo  ///< shown by the printer, through hide_secrets()
  };

  std::string path;  ///< such as `database.pool_size`
  Type type = Type::text;
  std::string summary;
  std::int64_t least =
      0;  ///< of a count, a rate, a percentage, a duration (milliseconds) or a text's length in bytes
  std::int64_t most = 0;
  bool may_be_unlimited = false;
  bool zero_is_off = false;
  std::vector<std::string_view> choices = {};
  Secret secret = Secret::none;
  bool reloadable = false;      ///< SIGHUP changes it in place; otherwise it needs a restart
  std::string example = {};     ///< for an option without a default
  std::string other_form = {};  ///< the path that says the same by other means: `url` and `url_file`
  std::function<Value(const Config&)> get = {};
  std::function<void(Config&, const Value&)> set = {};  ///< the value has this option's type and range
};

/// All options: the daemon's own, then those of each declared reconciler; those of a section stand together.
std::vector<Option> options(const std::vector<ReconcilerDecl>& decls);

/// What holds when nothing is configured.
Config defaults(const std::vector<ReconcilerDecl>& decls);

/// One line on a section (`http`, `reconcilers.lease_expiry`); empty when its name says it all.
std::string section_summary(std::string_view path, const std::vector<ReconcilerDecl>& decls);

/// The variable that sets an option: FF_RECONCILER_DATABASE_POOL_SIZE.
std::string environment_name(std::string_view path);

/// The bounds or the words to choose from: "1 to 1000, or unlimited". For every type but address and
/// partitions.
std::string range(const Option& option);

/// What is allowed, for people: "a whole number, 1 to 1000".
std::string allowed(const Option& option);

/// The keys whose values differ and that only a restart can change.
std::vector<std::string> restart_needed(const Config& running, const Config& wanted);

}  // namespace ff::config
