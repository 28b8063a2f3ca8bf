#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "pg/transaction.hpp"
#include "reconcile/reconciler.hpp"

namespace ff::reconcile {

/// Who holds a row: a session that has locked or written it and has not committed, or a prepared transaction.
struct Holder {
  std::string table;
  int pid = 0;                           ///< 0: a prepared transaction, which no session has any more
  std::string application;               ///< as pg_stat_activity has it; of a prepared transaction its name
  std::string state = {};                ///< "idle in transaction", …; empty without pg_read_all_stats
  std::optional<UnixMillis> since = {};  ///< the start of its transaction; nothing without pg_read_all_stats
  bool as_seen = false;                  ///< `since` is when a daemon first saw the row held, by whomever
};

/// Who holds rows of an execution, the oldest transaction first: in its core, attempts, suspension, waitpoints and the
/// events of its end that nobody has dispatched, as far as `readable` (which names SELECT) has these tables. Locks
/// nothing and waits for nobody. A row that several have locked FOR SHARE has no single holder, and none is shown. Throws
/// pg::Error.
std::vector<Holder> holders_of(pg::Transaction& transaction, const ExecutionId& execution,
                               const std::vector<Privileges>& readable);

/// "pid 4711 (psql, idle in transaction)", "the prepared transaction NAME".
std::string text_of(const Holder& holder);

}  // namespace ff::reconcile
