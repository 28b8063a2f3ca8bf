#include "reconcile/named_rows.hpp"

#include <algorithm>

#include "reconcile/job.hpp"

namespace ff::reconcile {
namespace {

// However far ahead a row is due: the sum has to fit.
UnixMillis takeable_at(UnixMillis due_at, Milliseconds holdoff) {
  return due_at > UnixMillis::max() - holdoff ? UnixMillis::max() : due_at + holdoff;
}

void add_rows(pg::Transaction& transaction, const Reconciler& pair, const Scope& scope,
              const ExecutionId& execution, std::vector<NamedRow>& rows) {
  Job job(pair, scope, Clock::system());
  if (job.statements.of_execution.empty()) return;
  job.ask(transaction);
  pg::Params params = job.params({execution.partition});
  params.add(execution.uuid);
  const std::string sql = job.statements.of_execution.over({execution.partition});
  for (const pg::Row row : transaction.execute(sql, params))
    rows.push_back({takeable_at(unix_millis(row.get<std::int64_t>("due_at_ms")),
                                std::max(job.holdoff(), Milliseconds{0})),
                    row.get<bool>("is_due")});
}

}  // namespace

std::vector<NamedRow> rows_of_execution(pg::Transaction& transaction, const Reconciler& reconciler,
                                        const Scope& scope, const ExecutionId& execution) {
  std::vector<NamedRow> rows;
  add_rows(transaction, reconciler, scope, execution, rows);
  for (const Reconciler& companion : reconciler.companions)
    if (!companion.is_shortcut) add_rows(transaction, companion, scope, execution, rows);
  return rows;
}

}  // namespace ff::reconcile
