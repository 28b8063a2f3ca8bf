#include "check/server.hpp"

#include <fmt/format.h>

#include "base/printable.hpp"
#include "migrate/migrate.hpp"

namespace ff::check {
namespace {

constexpr std::string_view kServer = R"sql(
SELECT pg_is_in_recovery() AS standby, current_setting('transaction_read_only') = 'on' AS read_only,
       current_setting('server_version_num')::integer AS version, current_setting('server_version') AS version_text,
       quote_ident(current_user) AS role, quote_ident(current_database()) AS database,
       (SELECT s.source FROM pg_settings s WHERE s.name = 'default_transaction_read_only') AS source)sql";

constexpr std::string_view kEncryption = R"sql(
SELECT inet_server_addr() IS NULL AS by_socket,
       inet_server_addr() IS NULL OR host(inet_server_addr()) = host(inet_client_addr()) AS local,
       coalesce((SELECT s.version FROM pg_stat_ssl s WHERE s.pid = pg_backend_pid() AND s.ssl), '') AS tls)sql";

// The tables that hold FlowFabric's rows: hash children under the name of their table.
constexpr std::string_view kAutovacuum = R"sql(
SELECT current_setting('autovacuum') = 'on' AS is_on, current_setting('track_counts') = 'on' AS counts,
       (SELECT min(format('%I.%I', n.nspname, c.relname))
          FROM pg_class c
          JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind = 'r' AND c.relname ^@ 'ff_'
           AND n.oid = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass({schema_text} || 'ff_exec_core'))
           AND EXISTS (SELECT FROM pg_options_to_table(c.reloptions) o
                        WHERE o.option_name = 'autovacuum_enabled' AND NOT o.option_value::boolean)) AS switched_off)sql";

// $1 that many new rows do not matter. `outgrown`: the children that have grown tenfold since they were analysed. What was
// never analysed is estimated by its size.
constexpr std::string_view kTables = R"sql(
SELECT format('%I.%I', n.nspname, t.relname) AS relation, sum(child.live)::bigint AS live, sum(child.dead)::bigint AS dead,
       count(*) FILTER (WHERE child.is_outgrown) AS outgrown,
       sum(child.changes) FILTER (WHERE child.is_outgrown)::bigint AS changes
  FROM pg_class c
  LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
  JOIN pg_class t ON t.oid = coalesce(i.inhparent, c.oid)
  JOIN pg_namespace n ON n.oid = t.relnamespace
 CROSS JOIN LATERAL (SELECT pg_stat_get_live_tuples(c.oid) AS live, pg_stat_get_dead_tuples(c.oid) AS dead,
                            pg_stat_get_mod_since_analyze(c.oid) AS changes,
                            least(pg_stat_get_live_tuples(c.oid), pg_stat_get_mod_since_analyze(c.oid))
                                > greatest($1, 10 * c.reltuples)
                              AND coalesce(pg_stat_get_last_analyze_time(c.oid),
                                           pg_stat_get_last_autoanalyze_time(c.oid)) IS NOT NULL AS is_outgrown) child
 WHERE c.relkind = 'r' AND t.relname ^@ 'ff_'
   AND n.oid = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass({schema_text} || 'ff_exec_core'))
 GROUP BY 1
 ORDER BY dead DESC)sql";

constexpr std::string_view kLockTable = R"sql(
SELECT current_setting('max_locks_per_transaction')::bigint AS per_transaction,
       current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint AS transactions,
       (SELECT count(*) FROM pg_locks WHERE NOT fastpath) AS held)sql";

// `source`: where the server says that default_transaction_read_only was set. What a role has set holds before what its database
// has, and that before the server's own.
std::string way_to_writes(const std::string& source, const std::string& role, const std::string& database) {
  constexpr std::string_view kReset = " RESET default_transaction_read_only;";
  if (source == "database") return fmt::format("ALTER DATABASE {}{}", database, kReset);
  if (source == "user") return fmt::format("ALTER ROLE {}{}", role, kReset);
  if (source == "database user") return fmt::format("ALTER ROLE {} IN DATABASE {}{}", role, database, kReset);
  if (source == "global") return fmt::format("ALTER ROLE ALL{}", kReset);
  if (source == "client")
    return "take default_transaction_read_only out of the options in database.url or PGOPTIONS";
  if (source == "command line")
    return "start the server without default_transaction_read_only among its arguments";
  return fmt::format("ALTER SYSTEM{} SELECT pg_reload_conf(); -- or take it out of postgresql.conf", kReset);
}

}  // namespace

Lines server(pg::Connection& connection) {
  const pg::Result result = connection.execute(kServer);
  const pg::Row row = result.one();
  Lines lines;
  if (row.get<bool>("standby"))
    lines.push_back({"writable", Verdict::problem, "the server is a standby: it takes no writes",
                     "name all hosts in database.url, with target_session_attrs=read-write"});
  else if (row.get<bool>("read_only"))
    lines.push_back({"writable", Verdict::problem,
                     "the server takes no writes: default_transaction_read_only is on",
                     printable(way_to_writes(row.get<std::string>("source"), row.get<std::string>("role"),
                                             row.get<std::string>("database")))});
  else
    lines.push_back({"writable", Verdict::fine, "it takes writes"});
  lines.push_back(server_version(row.get<std::int32_t>("version"), row.get<std::string>("version_text")));
  return lines;
}

Line server_version(int number, const std::string& version) {
  if (const auto why = migrate::too_old(number, printable(version)))
    return {"server_version", Verdict::problem, *why, "upgrade the server to PostgreSQL 15 or newer"};
  return {"server_version", Verdict::fine, "PostgreSQL " + printable(version)};
}

Lines encryption(pg::Connection& connection, std::string_view sslmode) {
  const pg::Result result = connection.execute(kEncryption);
  const pg::Row row = result.one();
  const auto tls = printable(row.get<std::string>("tls"));
  constexpr auto kRemedy = "database.url: add sslmode=verify-full&sslrootcert=FILE&channel_binding=require";
  if (row.get<bool>("by_socket")) return {{"tls", Verdict::fine, "not needed: a Unix socket"}};
  if (tls.empty() && row.get<bool>("local"))
    return {{"tls", Verdict::fine, "not needed: the server is on this machine"}};
  if (tls.empty())
    return {{"tls", Verdict::warning, "the server is reached over a network without TLS", kRemedy}};
  if (!row.get<bool>("local") && sslmode != "verify-full")
    return {{"tls", Verdict::warning,
             fmt::format("{}, but sslmode={} does not make sure who answers", tls,
                         sslmode.empty() ? "prefer" : sslmode),
             kRemedy}};
  return {{"tls", Verdict::fine, tls}};
}

// We speak UTF-8, and a single text that has no form in it fails the whole statement.
Lines encoding(pg::Connection& connection) {
  const pg::Result result = connection.execute("SELECT current_setting('server_encoding')");
  const auto its = printable(result.one().get<std::string>(0));
  if (its == "UTF8") return {{"encoding", Verdict::fine, its}};
  return {{"encoding", Verdict::warning,
           its + ": where a text has no form in UTF-8, what reads its row fails: lease_expiry for all rows "
                 "(storm: on), lease-events at that event",
           "move it with pg_dump into a database created with TEMPLATE template0 ENCODING 'UTF8'"}};
}

Lines autovacuum(pg::Connection& connection) {
  const pg::Result result = connection.execute(kAutovacuum);
  const pg::Row row = result.one();
  const auto off = [](std::string_view setting) {
    return Line{
        "autovacuum", Verdict::warning,
        fmt::format("{} is off for the whole server: dead rows stay, and scans read them all", setting),
        fmt::format("ALTER SYSTEM SET {} = on; SELECT pg_reload_conf();", setting)};
  };
  Lines lines;
  if (!row.get<bool>("is_on")) lines.push_back(off("autovacuum"));
  if (!row.get<bool>("counts")) lines.push_back(off("track_counts"));
  if (const auto table = row.get<std::optional<std::string>>("switched_off"))
    lines.push_back(
        {"autovacuum", Verdict::warning,
         printable(*table) + " has autovacuum_enabled off: its dead rows stay, and scans read them all",
         "ALTER TABLE " + printable(*table) + " RESET (autovacuum_enabled);"});
  if (lines.empty()) lines.push_back({"autovacuum", Verdict::fine, "on"});
  return lines;
}

Lines dead_rows(pg::Connection& connection, std::int64_t more_than) {
  Lines lines;
  for (const pg::Row row : connection.execute(kTables, pg::Params::of(more_than))) {
    const auto table = printable(row.get<std::string>("relation"));
    const auto live = row.get<std::int64_t>("live");
    const auto dead = row.get<std::int64_t>("dead");
    if (dead <= std::max(more_than, live)) continue;
    lines.push_back({"dead_rows", Verdict::warning,
                     fmt::format("{} has {} dead rows beside {} live ones", table, dead, live),
                     "VACUUM (ANALYZE) " + table + "; -- what a long transaction still sees stays"});
  }
  if (lines.empty())
    lines.push_back({"dead_rows", Verdict::fine, "no table has more dead rows than live ones"});
  return lines;
}

Lines statistics(pg::Connection& connection, std::int64_t fewer_than) {
  Lines lines;
  for (const pg::Row row : connection.execute(kTables, pg::Params::of(fewer_than))) {
    const auto table = printable(row.get<std::string>("relation"));
    const auto children = row.get<std::int64_t>("outgrown");
    if (children == 0) continue;
    lines.push_back({"statistics", Verdict::warning,
                     fmt::format("the planner knows {} of the hash children of {} as they were before {} "
                                 "changes, with less than a tenth of their rows",
                                 children, table, row.get<std::int64_t>("changes")),
                     "ANALYZE " + table + ";"});
  }
  if (lines.empty())
    lines.push_back({"statistics", Verdict::fine, "no table has grown tenfold since it was analysed"});
  return lines;
}

Lines lock_table(pg::Connection& connection, int connections, int each) {
  const pg::Result result = connection.execute(kLockTable);
  const pg::Row row = result.one();
  const auto transactions = row.get<std::int64_t>("transactions");
  const auto room = row.get<std::int64_t>("per_transaction") * transactions;
  const auto held = row.get<std::int64_t>("held");
  const auto wanted = std::int64_t{connections} * each;
  const std::string text = fmt::format(
      "{} connections of up to {} locks each, room for {} (max_locks_per_transaction {} for {} "
      "transactions), "
      "{} held now",
      connections, each, room, row.get<std::int64_t>("per_transaction"), transactions, held);
  if (wanted + held < room) return {{"locks", Verdict::fine, text}};
  return {{"locks", wanted > room ? Verdict::problem : Verdict::warning, text,
           fmt::format("ALTER SYSTEM SET max_locks_per_transaction = {}; -- and restart the server",
                       2 * (wanted + held) / transactions + 1)}};
}

}  // namespace ff::check
