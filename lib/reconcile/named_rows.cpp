#include "reconcile/named_rows.hpp"

namespace ff::reconcile {

NamedRows::NamedRows(const Reconciler& reconciler, const Scope& scope) {
  const auto add = [&](const Reconciler& pair) {
    auto job = std::make_unique<Job>(pair, scope, Clock::system());
    if (job->names_executions()) jobs_.push_back(std::move(job));
  };
  add(reconciler);
  for (const Reconciler& companion : reconciler.companions)
    if (!companion.is_shortcut) add(companion);
}

std::vector<NamedRow> NamedRows::of(pg::Transaction& transaction, const ExecutionId& execution) {
  std::vector<NamedRow> rows;
  for (const std::unique_ptr<Job>& job : jobs_) {
    job->ask(transaction);
    const pg::Call question = job->of_execution(execution);
    for (const pg::Row row : transaction.execute(question.sql, question.params))
      rows.push_back(
          {job->takeable_at(unix_millis(row.get<std::int64_t>("due_at_ms"))), row.get<bool>("is_due")});
  }
  return rows;
}

}  // namespace ff::reconcile
