#include "reconcile/named_rows.hpp"

#include <algorithm>

#include "reconcile/pass.hpp"

namespace ff::reconcile {
namespace {

void add_rows(pg::Transaction& transaction, const Reconciler& pair, const Scope& scope,
              const ExecutionId& execution, std::vector<NamedRow>& rows) {
  const Ground ground(pair, scope, Clock::system());
  if (ground.few.of_execution.empty()) return;
  pg::Params params = ground.params({execution.partition});
  params.add(execution.uuid);
  for (const pg::Row row : transaction.execute(ground.few.of_execution, params))
    rows.push_back(
        {unix_millis(row.get<std::int64_t>("due_at_ms")) + std::max(ground.holdoff(), Milliseconds{0}),
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
