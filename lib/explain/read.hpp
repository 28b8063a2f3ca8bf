#pragma once

#include <optional>
#include <vector>

#include "base/partitions.hpp"
#include "explain/facts.hpp"
#include "pg/pool.hpp"
#include "reconcile/named_rows.hpp"
#include "reconcile/scope.hpp"

namespace ff::explain {

/// A reconciler as it is configured.
struct Member {
  const reconcile::Reconciler* reconciler;
  bool enabled;
  reconcile::Scope scope;
};

/// Reads what is known of executions. Not thread-safe.
class Reader {
 public:
  /// `all` are the database's partitions, in which an execution that is not where it was said is looked for.
  Reader(const std::vector<Member>& family, Partitions all);

  /// Everything about the execution from one snapshot: in a read-only transaction that locks no row and waits for
  /// none. Throws pg::Error.
  Facts read(pg::Connection& connection, const ExecutionId& id);

 private:
  /// How a reconciler sees an execution, and how it would without its filter, where it has one.
  struct View {
    Member member;
    reconcile::NamedRows its;
    std::optional<reconcile::NamedRows> unfiltered;
  };

  static Inspection inspect(pg::Transaction& transaction, View& view, const ExecutionId& id);

  std::vector<View> views_;
  std::vector<reconcile::Privileges> readable_;
  Partitions all_;
};

/// Moves what is due of the execution, and the end of an upstream that nobody has passed on to it, and takes it back,
/// reconciler by reconciler, and notes what came of it: only so it is known whether it would fail. As a tick it skips what
/// others hold. What the snapshot shows to be held, promised or not this daemon's is not tried.
void try_due(Facts& facts, pg::Pool& pool, const std::vector<Member>& family);

}  // namespace ff::explain
