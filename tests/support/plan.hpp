#pragma once

#include <map>
#include <string>
#include <vector>

#include "pg/connection.hpp"
#include "reconcile/candidate.hpp"
#include "reconcile/statements.hpp"
#include "support/rows.hpp"

/// How the server runs the statements of a reconciler, as EXPLAIN tells it.
namespace ff::test {

/// The plan of a statement as the engine would run it, without running it: EXPLAIN's document.
Json plan_of(pg::Connection& connection, const std::string& sql, const pg::Params& params, pg::Plan plan);
/// The same with what became of each node when it was run. What it has written is rolled back.
Json run_plan_of(pg::Connection& connection, const std::string& sql, const pg::Params& params, pg::Plan plan);

/// The tables with more than 1000 rows that a plan reads from one end to the other, by sequential scan or by
/// an index without any bound; for fewer rows that may be the right choice.
std::vector<std::string> whole_tables(pg::Connection& connection, const Json& plan);

/// The nodes of one kind in a named part of a plan that was run, those over hash children added up, and how
/// many rows they have looked at in vain or again and again.
struct Effort {
  std::string node;  ///< "CTE endable: Nested Loop (Left)", "CTE event: Index Scan on ff_completion_event"
  double comparisons;
};
/// Each node's rows that its join condition or its filter removed, summed up over its loops; and of a common
/// table expression that is read more than once, all its rows each time: so a pair may count for the join and
/// for the expression. Most first, without the idle ones.
std::vector<Effort> efforts(const Json& run_plan);
/// The worst of these as text, where all of them together are more than `most`; otherwise nothing.
std::vector<std::string> efforts_above(double most, const Json& run_plan);

/// How many rows of each table a plan that was run has looked at, also in vain, those of hash children added up. A look into
/// an index that finds nothing is none.
std::map<std::string, double> rows_read(const Json& run_plan);

/// What the server has spent on a statement, in milliseconds: the least of several tries of each.
struct Times {
  double planning = 0;
  double execution = 0;
};
/// On a connection that has run the statement before. Each try is rolled back.
Times best_times(pg::Connection& connection, const std::string& sql, const pg::Params& params, pg::Plan plan);

/// The parameters of a page with this limit; `from`: the least due_at_ms.
pg::Params page_params(const reconcile::Reconciler& reconciler, const Partitions& partitions,
                       Milliseconds ahead, int limit, const std::optional<pg::Params>& told = {},
                       std::int64_t from = 0);

/// Due rows of some partitions of one group, as the engine's page finds them, and what the engine would send for them. Of
/// settings that decide which rows are taken, those under which it takes the most.
struct DueBatch {
  DueBatch(pg::Connection& connection, const reconcile::Reconciler& pair, const Partitions& partitions,
           int per_partition);

  /// How often the act returns each outcome; rolled back.
  std::map<std::string, int> outcomes(pg::Connection& connection) const;

  const reconcile::Reconciler& reconciler;
  const std::vector<reconcile::Candidate> rows;
  const pg::Params params;  ///< of each statement
  const std::string lock;   ///< empty where there is none
  const std::string act;
  const std::string still_due;
};

/// How many of these outcomes say that a row was moved.
int moved(const reconcile::Reconciler& reconciler, const std::map<std::string, int>& outcomes);

}  // namespace ff::test
