#pragma once

#include "base/partitions.hpp"
#include "explain/facts.hpp"
#include "pg/pool.hpp"
#include "reconcile/scope.hpp"

namespace ff::explain {

/// A reconciler as it is configured.
struct Member {
  const reconcile::Reconciler* reconciler;
  bool enabled;
  reconcile::Scope scope;
};

/// Everything about the execution from one snapshot: in a read-only transaction that locks no row and waits for
/// none. `all` are the database's partitions, in which an execution that is not where it was said is looked for.
/// Throws pg::Error.
Facts read(pg::Connection& connection, const ExecutionId& id, const std::vector<Member>& family,
           const Partitions& all);

/// Moves what is due of the execution and takes it back, reconciler by reconciler, and notes what came of it: only so
/// it is known whether it would fail. As a tick it skips what others hold. What the snapshot shows to be held,
/// promised or not this daemon's is not tried.
void try_due(Facts& facts, pg::Pool& pool, const std::vector<Member>& family);

}  // namespace ff::explain
