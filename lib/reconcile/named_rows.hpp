#pragma once

#include <memory>
#include <vector>

#include "pg/transaction.hpp"
#include "reconcile/job.hpp"

namespace ff::reconcile {

/// A row of one execution that a reconciler or one of its companions moves sooner or later.
struct NamedRow {
  UnixMillis takeable_at;  ///< from this moment on
  bool due;                ///< by now
};

/// The rows that Engine::tick_one would try, by the same statements, but in the caller's transaction and without
/// acting: nothing is locked. Made once for a reconciler, which must outlive it; not thread-safe.
class NamedRows {
 public:
  NamedRows(const Reconciler& reconciler, const Scope& scope);

  /// None for a reconciler whose rows are no executions'. Throws pg::Error.
  std::vector<NamedRow> of(pg::Transaction& transaction, const ExecutionId& execution);

 private:
  std::vector<std::unique_ptr<Job>> jobs_;  // of the reconciler and its companions
};

}  // namespace ff::reconcile
