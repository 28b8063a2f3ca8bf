#include "reconcile/action.hpp"

#include "reconcile/candidate.hpp"

namespace ff::reconcile {
namespace {

// The columns of Statements::act behind partition_key and key.
struct ActionColumns {
  explicit ActionColumns(const Reconciler& pair) : due_at(static_cast<int>(pair.key.size()) + 1) {}
  int due_at;
  int outcome = due_at + 1;
  int at = due_at + 2;
  int execution = due_at + 3;
  int is_beside = due_at + 4;
};

std::optional<ExecutionId> execution_in(const pg::Row& row, int column) {
  const auto uuid = row.get<std::optional<Uuid>>(column);
  return uuid ? std::optional(ExecutionId{row.get<PartitionKey>(0), *uuid}) : std::nullopt;
}

// The row stands for an execution that was ended beside those of the batch.
bool is_beside(const pg::Row& row, const Reconciler& pair) {
  return !pair.ends_others.empty() && row.get<bool>(ActionColumns(pair).is_beside);
}

}  // namespace

std::vector<pg::Row> rows_of_batch(std::span<const pg::Result> results, const Reconciler& pair) {
  std::vector<pg::Row> its;
  for (const pg::Result& rows : results)
    for (const pg::Row row : rows)
      if (!is_beside(row, pair)) its.push_back(row);
  return its;
}

// Each row says the same of all of its statement.
std::int64_t weight_of(std::span<const pg::Result> results) {
  std::int64_t weight = 0;
  for (const pg::Result& rows : results)
    if (!rows.empty()) weight += (*rows.begin()).get<std::int64_t>(rows.columns() - 1);
  return weight;
}

std::vector<Action> actions_of(std::span<const pg::Result> results, const Reconciler& pair, bool committed) {
  const ActionColumns column(pair);
  std::vector<Action> actions;
  for (const pg::Result& rows : results)
    for (const pg::Row row : rows) {
      Action action{.pair = &pair,
                    .execution = execution_in(row, column.execution),
                    .outcome = row.get<std::string>(column.outcome),
                    .at = unix_millis(row.get<std::int64_t>(column.at)),
                    .committed = committed};
      if (is_beside(row, pair)) {
        action.key = {row.get<PartitionKey>(0), {}};
        action.reason = pair.ends_others;
      } else {
        const Outcome* const outcome = outcome_of(pair, action.outcome);
        if (outcome == nullptr || !ends_or_deletes(outcome->effect)) continue;
        action.effect = outcome->effect;
        action.reason = outcome->reason;
        action.key = read_key(row, pair.key.size());
        action.due_at = unix_millis(row.get<std::int64_t>(column.due_at));
      }
      actions.push_back(std::move(action));
    }
  return actions;
}

}  // namespace ff::reconcile
