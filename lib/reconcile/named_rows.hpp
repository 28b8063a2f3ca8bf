#pragma once

#include <vector>

#include "pg/transaction.hpp"
#include "reconcile/scope.hpp"

namespace ff::reconcile {

/// A row of one execution that a reconciler or one of its companions moves sooner or later.
struct NamedRow {
  UnixMillis takeable_at;  ///< from this moment on
  bool due;                ///< by now
};

/// The rows that Engine::tick_one would try, by the same statements, but in the caller's transaction and without
/// acting: nothing is locked. None for a reconciler whose rows are no executions'. Throws pg::Error.
std::vector<NamedRow> rows_of_execution(pg::Transaction& transaction, const Reconciler& reconciler,
                                        const Scope& scope, const ExecutionId& execution);

}  // namespace ff::reconcile
