#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "explain/facts.hpp"

/// How things are said in findings and verdicts.
namespace ff::explain {

/// "in 12 s", "3.2 s ago".
std::string when(UnixMillis at, UnixMillis now);
/// "3.2 s", since a moment that has passed.
std::string age(UnixMillis at, UnixMillis now);

/// "ends in 12 s", "ended 3.2 s ago", "never ends".
std::string end_of(const Grant& grant, UnixMillis now);

/// When the next row falls due: "in 12 s", "now"; "none for 20 s" where nothing does before `known_until`; else "unknown".
std::string next(std::optional<UnixMillis> due, std::optional<UnixMillis> known_until, UnixMillis now);

/// "pid 4711 (psql, idle in transaction) for 3 m 2 s"
std::string who(const Holder& holder, UnixMillis now);
/// "quorum of 2: 1 success, 0 failed, 0 skipped, 3 running"
std::string counts(const FanIn& fan_in);
/// "namespace a, instance tag k=v"
std::string what(const ScannerFilter& filter);

/// The command that moves what is due of an execution, and that which explains another one.
std::string tick(std::string_view reconciler, const ExecutionId& id);
std::string explain(const ExecutionId& id);
/// What `audit` says that mends this execution where the check of that name finds it; `columns` are those of the remedy
/// beyond the execution's.
using Columns = std::map<std::string_view, std::string>;
std::string remedy(std::string_view check, const ExecutionId& id, const Columns& columns = {});
/// The statement that sets columns of an execution's row by hand.
std::string update_core(const ExecutionId& id, std::string_view assignments);

}  // namespace ff::explain
