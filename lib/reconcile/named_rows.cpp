#include "reconcile/named_rows.hpp"

#include <algorithm>

namespace ff::reconcile {
namespace {

// However far ahead a row is due: the sum has to fit.
UnixMillis takeable_at(UnixMillis due_at, Milliseconds holdoff) {
  return due_at > UnixMillis::max() - holdoff ? UnixMillis::max() : due_at + holdoff;
}

}  // namespace

NamedRows::NamedRows(const Reconciler& reconciler, const Scope& scope) {
  const auto add = [&](const Reconciler& pair) {
    auto job = std::make_unique<Job>(pair, scope, Clock::system());
    if (!job->statements.of_execution.empty()) jobs_.push_back(std::move(job));
  };
  add(reconciler);
  for (const Reconciler& companion : reconciler.companions)
    if (!companion.is_shortcut) add(companion);
}

std::vector<NamedRow> NamedRows::of(pg::Transaction& transaction, const ExecutionId& execution) {
  std::vector<NamedRow> rows;
  for (const std::unique_ptr<Job>& job : jobs_) {
    job->ask(transaction);
    pg::Params params = job->params({execution.partition});
    params.add(execution.uuid);
    const std::string sql = job->statements.of_execution.over({execution.partition});
    for (const pg::Row row : transaction.execute(sql, params))
      rows.push_back({takeable_at(unix_millis(row.get<std::int64_t>("due_at_ms")),
                                  std::max(job->holdoff(), Milliseconds{0})),
                      row.get<bool>("is_due")});
  }
  return rows;
}

}  // namespace ff::reconcile
