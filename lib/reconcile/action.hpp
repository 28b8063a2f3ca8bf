#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "pg/result.hpp"
#include "reconcile/reconciler.hpp"
#include "reconcile/report.hpp"

namespace ff::reconcile {

/// An execution that a tick has ended, or a row that it has deleted. Times are the database's.
struct Action {
  const Reconciler* pair = nullptr;
  Effect effect = Effect::ended;  ///< or deleted
  std::optional<ExecutionId> execution =
      {};                    ///< that was ended, or whose row it is; nothing where rows are no executions'
  RowKey key = {};           ///< without columns for an execution that was ended beside the row
  std::string outcome = {};  ///< beside a row: what the execution has ended as
  std::string_view reason = {};
  std::optional<UnixMillis> due_at = {};  ///< nothing beside a row
  UnixMillis at{};
  bool committed =
      true;  ///< false: the connection broke while COMMIT was under way, it may or may not have happened
};

/// Of what Statements::act has returned, the rows that were moved, without the executions that were ended beside them.
/// The results must outlive it.
std::vector<pg::Row> rows_of_batch(std::span<const pg::Result> results, const Reconciler& pair);

/// Of a pair that weighs (Reconciler::weighs): how many rows those that were moved stood for.
std::int64_t weight_of(std::span<const pg::Result> results);

/// What Statements::act has returned of those that were ended or deleted, in its order. Only of a pair that ends or deletes.
std::vector<Action> actions_of(std::span<const pg::Result> results, const Reconciler& pair, bool committed);

}  // namespace ff::reconcile
