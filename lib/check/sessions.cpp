#include "check/sessions.hpp"

#include <fmt/format.h>

#include "base/duration.hpp"
#include "base/printable.hpp"

namespace ff::check {
namespace {

// Locks in the modes that no write gets by, on FlowFabric's tables and their children; autovacuum's truncation takes one for
// moments.
const std::string kWriteLocks = R"sql(
  FROM pg_locks l
  JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
  JOIN pg_class c ON c.oid = l.relation AND c.relkind IN ('r', 'p') AND c.relname LIKE 'ff\_%'
  LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
  LEFT JOIN pg_class p ON p.oid = i.inhparent
  LEFT JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'relation' AND l.pid IS DISTINCT FROM pg_backend_pid()
   AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))sql";

const std::string kLockedTables = R"sql(
SELECT DISTINCT coalesce(p.relname, c.relname)::text AS name, l.pid,
       coalesce(nullif(a.application_name, ''), 'no application_name') AS who, coalesce(a.state, 'state unknown') AS what,
       floor(extract(epoch FROM statement_timestamp() - a.xact_start) * 1000)::bigint AS age_ms)sql" +
                                  kWriteLocks + R"sql(
   AND l.granted AND l.pid IS NOT NULL
 ORDER BY name, l.pid
 LIMIT 20)sql";

// What has no parent is locked as a whole: whoever wants a child asks for the parent's lock first.
const std::string kLockedToWorkers = R"sql(
SELECT coalesce(p.relname, c.relname)::text AS name, bool_or(p.relname IS NULL) AS all_of_it)sql" +
                                     kWriteLocks +
                                     R"sql(
   AND coalesce(p.relname, c.relname) IN ('ff_attempt', 'ff_exec_core', 'ff_lease_event', 'ff_worker_registry')
 GROUP BY 1
 ORDER BY all_of_it DESC, name
 LIMIT 1)sql";

// $1 older than so many milliseconds. Of sessions of other roles a role without pg_read_all_stats sees no times.
constexpr std::string_view kLongTransactions = R"sql(
SELECT pid, who, what, age_ms
  FROM (SELECT pid::text AS pid, coalesce(nullif(application_name, ''), 'no application_name') AS who, state AS what,
               floor(extract(epoch FROM clock_timestamp() - xact_start) * 1000)::bigint AS age_ms
          FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
         UNION ALL
        SELECT NULL, quote_literal(gid), 'prepared',
               floor(extract(epoch FROM clock_timestamp() - prepared) * 1000)::bigint
          FROM pg_prepared_xacts
         WHERE database = current_database()) open_now
 WHERE age_ms > $1
 ORDER BY age_ms DESC
 LIMIT 20)sql";

constexpr std::string_view kSeesAll = R"sql(
SELECT pg_has_role('pg_read_all_stats', 'USAGE')
       OR NOT EXISTS (SELECT FROM pg_stat_activity
                       WHERE datname = current_database() AND NOT pg_has_role(usesysid, 'USAGE')) AS sees_all,
       quote_ident(current_user) AS role)sql";

constexpr std::string_view kOldestSnapshot = R"sql(
SELECT who, age(horizon)::bigint AS age, next
  FROM (SELECT format('pid %s (%s)', pid, application_name) AS who, backend_xmin AS horizon,
               CASE backend_type WHEN 'walsender' THEN 'end the long query on that standby, or set hot_standby_feedback = off there'
                    ELSE format('SELECT pg_terminate_backend(%s); -- ends that session', pid) END AS next
          FROM pg_stat_activity WHERE pid <> pg_backend_pid()
                                  AND (datname = current_database() OR backend_type = 'walsender')
         UNION ALL
        SELECT format('the prepared transaction %L', gid), transaction, format('ROLLBACK PREPARED %L; -- or COMMIT PREPARED', gid)
          FROM pg_prepared_xacts WHERE database = current_database()
         UNION ALL
        SELECT format('the replication slot %L', slot_name::text), xmin,
               format('SELECT pg_drop_replication_slot(%L); -- once no standby needs it any more', slot_name::text)
          FROM pg_replication_slots) holding
 WHERE horizon IS NOT NULL
 ORDER BY 2 DESC
 LIMIT 1)sql";

}  // namespace

Lines locked_tables(pg::Connection& connection) {
  constexpr std::string_view kCheck = "locked_tables";
  Lines lines;
  for (const pg::Row row : connection.execute(kLockedTables)) {
    const auto pid = row.get<std::optional<std::int32_t>>("pid");
    const auto age = row.get<std::optional<std::int64_t>>("age_ms");
    lines.push_back(
        {kCheck, Verdict::problem,
         fmt::format("{} is locked against all others by {} ({}), {}{}",
                     printable(row.get<std::string>("name")),
                     pid ? fmt::format("pid {}", *pid) : "a prepared transaction",
                     printable(row.get<std::string>("who")), row.get<std::string>("what"),
                     age ? ", whose transaction is open for " + spoken_duration(Milliseconds{*age}) : ""),
         pid ? fmt::format("wait for its end, or SELECT pg_terminate_backend({});", *pid)
             : "SELECT * FROM pg_prepared_xacts; -- then COMMIT PREPARED or ROLLBACK PREPARED"});
  }
  if (lines.empty()) lines.push_back({kCheck, Verdict::fine, "nobody has locked a whole table"});
  return lines;
}

std::optional<LockedTable> locked_to_workers(pg::Connection& connection) {
  const pg::Result found = connection.execute(kLockedToWorkers);
  for (const pg::Row row : found)
    return LockedTable{row.get<std::string>("name"), row.get<bool>("all_of_it")};
  return std::nullopt;
}

Lines long_transactions(pg::Connection& connection, Milliseconds older_than) {
  constexpr std::string_view kCheck = "long_transactions";
  Lines lines;
  for (const pg::Row row : connection.execute(kLongTransactions, pg::Params::of(older_than.count()))) {
    const auto pid = row.get<std::optional<std::string>>("pid");
    const auto who = printable(row.get<std::string>("who"));
    const auto age = spoken_duration(Milliseconds{row.get<std::int64_t>("age_ms")});
    if (pid)
      lines.push_back({kCheck, Verdict::warning,
                       fmt::format("pid {} ({}), {}, has a transaction open for {}", *pid, who,
                                   row.get<std::string>("what"), age),
                       fmt::format("SELECT pg_terminate_backend({}); -- ends that session", *pid)});
    else
      lines.push_back({kCheck, Verdict::warning,
                       fmt::format("the prepared transaction {} is open for {}", who, age),
                       fmt::format("ROLLBACK PREPARED {}; -- or COMMIT PREPARED", who)});
  }
  const pg::Result result = connection.execute(kSeesAll);
  const pg::Row row = result.one();
  if (!row.get<bool>("sees_all"))
    lines.push_back({kCheck, Verdict::skipped,
                     "this role may not see how old the transactions of other roles are",
                     "GRANT pg_read_all_stats TO " + row.get<std::string>("role") + ";"});
  else if (lines.empty())
    lines.push_back({kCheck, Verdict::fine, "none is older than " + spoken_duration(older_than)});
  return lines;
}

Lines oldest_snapshot(pg::Connection& connection, std::int64_t more_than) {
  constexpr std::string_view kCheck = "oldest_snapshot";
  for (const pg::Row row : connection.execute(kOldestSnapshot)) {
    const auto age = row.get<std::int64_t>("age");
    const std::string text =
        fmt::format("{} holds back VACUUM by {} transactions", printable(row.get<std::string>("who")), age);
    if (age <= more_than) return {{kCheck, Verdict::fine, text}};
    return {{kCheck, Verdict::warning, text + ": what was deleted or updated since stays, and scans read it",
             printable(row.get<std::string>("next"))}};
  }
  return {{kCheck, Verdict::fine, "nobody holds back VACUUM"}};
}

Lines notifications(pg::Listener& listener, pg::Connection& other, Milliseconds at_most, int sessions) {
  constexpr std::string_view kCheck = "listen";
  pg::Wake never;
  if (!listener.hears(other, Clock::system().now() + at_most, never))
    return {
        {kCheck, Verdict::warning,
         "no notification arrives: a pooler in transaction mode stands in between; the daemon scans at each "
         "interval instead",
         "database.url: name the server itself, or a pool with pool_mode = session"}};
  // Behind a pooler nothing is prepared (see Connector).
  constexpr std::string_view kPrepared = "SELECT 1";
  other.execute_prepared(kPrepared, {});
  if (other.has_prepared(kPrepared)) return {{kCheck, Verdict::fine, "a notification of our own came back"}};
  return {
      {kCheck, Verdict::fine,
       fmt::format(
           "a notification of our own came back, through a pooler in session mode: its default_pool_size, "
           "which cannot be looked at, has to be {} or more for each daemon of a role, or the daemon loses "
           "the database every few seconds",
           sessions)}};
}

}  // namespace ff::check
