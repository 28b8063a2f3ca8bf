#include "reconcile/holders.hpp"

#include <algorithm>
#include <array>

#include "base/fragments.hpp"

namespace ff::reconcile {
namespace {

// Who has locked or written a row, but not committed, stands in its xmax, and holds the lock on that transaction id.
// $1 the partition, $2 the execution.
constexpr std::string_view kHolders = R"sql(
SELECT held.relation, coalesce(l.pid, 0) AS pid,
       CASE WHEN l.pid IS NULL THEN coalesce(p.gid, '') ELSE coalesce(a.application_name, '') END AS application,
       CASE WHEN l.pid IS NULL THEN 'prepared' ELSE coalesce(a.state, '') END AS state,
       floor(extract(epoch FROM coalesce(a.xact_start, p.prepared)) * 1000)::bigint AS since_ms
  FROM ({rows}) held
  JOIN pg_locks l ON l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
                 AND l.transactionid = held.xmax
  LEFT JOIN pg_stat_activity a ON a.pid = l.pid
  LEFT JOIN pg_prepared_xacts p ON p.transaction = l.transactionid
 GROUP BY 1, 2, 3, 4, 5
 ORDER BY 5, 2, 1)sql";

constexpr std::string_view kRows = R"sql(
        SELECT '{table}' AS relation, xmax
          FROM {schema}.{table} WHERE partition_key = $1 AND execution_id = $2{open})sql";

/// {table, and which of its rows}
constexpr std::array<std::array<std::string_view, 2>, 5> kTables{
    {{"ff_exec_core", ""},
     {"ff_attempt", ""},
     {"ff_suspension_current", ""},
     {"ff_waitpoint_pending", ""},
     {"ff_completion_event", " AND dispatched_at_ms IS NULL"}}};

bool may_read(const std::vector<Privileges>& readable, std::string_view table) {
  return std::ranges::any_of(readable, [&](const Privileges& its) {
    return its.table == table && its.names.find("SELECT") != std::string_view::npos;
  });
}

std::string over_tables(const std::vector<Privileges>& readable) {
  Fragments words;
  words.add(Fragment{"schema", "{schema}"});  // the connection's to fill in
  std::string rows;
  for (const auto& [table, open] : kTables) {
    if (!may_read(readable, table)) continue;
    Fragments its = words;
    its.add({{"table", std::string(table)}, {"open", std::string(open)}});
    rows += (rows.empty() ? "" : "\n         UNION ALL") + its.expand(kRows);
  }
  return rows.empty() ? "" : words.add(Fragment{"rows", rows}).expand(kHolders);
}

}  // namespace

std::vector<Holder> holders_of(pg::Transaction& transaction, const ExecutionId& execution,
                               const std::vector<Privileges>& readable) {
  const std::string sql = over_tables(readable);
  if (sql.empty()) return {};
  std::vector<Holder> holders;
  for (const pg::Row row : transaction.execute(sql, pg::Params::of(execution.partition, execution.uuid))) {
    const auto since = row.get<std::optional<std::int64_t>>("since_ms");
    holders.push_back({row.get<std::string>("relation"), row.get<std::int32_t>("pid"),
                       row.get<std::string>("application"), row.get<std::string>("state"),
                       since ? std::optional(unix_millis(*since)) : std::nullopt});
  }
  return holders;
}

std::string text_of(const Holder& holder) {
  if (holder.pid == 0) return "the prepared transaction " + holder.application;
  std::string details = holder.application;
  if (!holder.state.empty()) details += (details.empty() ? "" : ", ") + holder.state;
  return "pid " + std::to_string(holder.pid) + (details.empty() ? "" : " (" + details + ")");
}

}  // namespace ff::reconcile
