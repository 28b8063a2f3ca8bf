#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ff::audit {

/// Something that must not be: no writer of FlowFabric or of ours leaves it so, or what is due has lain there for so long
/// that nobody can be looking after it.
struct Check {
  std::string_view name;     ///< such as active_without_lease
  std::string_view meaning;  ///< in plain words, of the execution or whatever the key names
  /// The command or the statements that mend it. `{$column}` stands for a column of the row that was found: a number, or
  /// whatever it is between single quotes; other placeholders: see words() in phrases.hpp.
  std::string remedy;
};

/// In which partitions the rows lie.
enum class Space {
  flows,
  budgets,
  quotas,
  workers,
  none  ///< the table has no partitions: it is read once
};

/// One reading of a table, for all the checks that it serves.
struct Sweep {
  Space space = Space::flows;
  /// The key names an execution; otherwise it is shown as it is.
  bool of_executions = true;
  /// A SELECT of the rows at fault, without an order or a limit: problem (the name of one of `checks`), partition_key,
  /// key text, seen text (what changes whenever somebody writes one of the rows that were judged), what text (the values
  /// that are wrong), and what the remedies mention. Placeholders: see phrases.hpp and reconcile::phrases().
  std::string sql;
  std::vector<Check> checks;
};

/// All of them, in the order in which they are asked.
const std::vector<Sweep>& sweeps();
/// The tables that they read, each once.
const std::vector<std::string>& tables();

/// Their makers, by subject.
std::vector<Sweep> sweeps_of_executions();
std::vector<Sweep> sweeps_of_attempts();
std::vector<Sweep> sweeps_of_suspensions();
std::vector<Sweep> sweeps_of_edges();
std::vector<Sweep> sweeps_of_fan_ins();
std::vector<Sweep> sweeps_of_events();
std::vector<Sweep> sweeps_of_flows();
std::vector<Sweep> sweeps_of_counters();

}  // namespace ff::audit
