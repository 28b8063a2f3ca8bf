#include "check/tables.hpp"

#include <fmt/format.h>

#include "base/printable.hpp"
#include "check/ways.hpp"
#include "migrate/contract.hpp"
#include "pg/transaction.hpp"

namespace ff::check {
namespace {

// As the session has it from its role: beyond it nothing but pg_catalog is on the path.
constexpr auto kPath = "SELECT pg_catalog.unnest(pg_catalog.current_schemas(false))";

// A hash child stands under the name of its table.
constexpr std::string_view kUnlogged = R"sql(
SELECT format('%I.%I', n.nspname, t.relname) AS relation, count(*) FILTER (WHERE c.relispartition) AS children,
       string_agg(format('ALTER TABLE %s SET LOGGED;', c.oid::regclass), ' ' ORDER BY c.relname) AS next
  FROM pg_class c
  LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
  JOIN pg_class t ON t.oid = coalesce(i.inhparent, c.oid)
  JOIN pg_namespace n ON n.oid = t.relnamespace
 WHERE c.relkind = 'r' AND c.relpersistence = 'u' AND t.relname ^@ 'ff_'
   AND n.oid = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass({schema_text} || 'ff_exec_core'))
 GROUP BY 1
 ORDER BY 1)sql";

// $1 schemas, beside that of the tables. A superuser may create anywhere.
constexpr std::string_view kStrangers = R"sql(
SELECT quote_ident(n.nspname) AS schema, coalesce(quote_ident(r.rolname), 'PUBLIC') AS who
  FROM pg_namespace n
 CROSS JOIN LATERAL aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) AS granted
  LEFT JOIN pg_roles r ON r.oid = granted.grantee
 WHERE (n.nspname = ANY($1)
        OR n.oid = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass({schema_text} || 'ff_exec_core')))
   AND n.nspname <> 'pg_catalog'
   AND granted.privilege_type = 'CREATE' AND granted.grantee <> n.nspowner AND r.rolsuper IS NOT TRUE
 ORDER BY 1, 2)sql";

// $1 tables. A trigger of a partitioned table has a clone on each child. FlowFabric's own, which announce events, are for
// each row or for each statement, and are named after their table.
constexpr std::string_view kRowTriggers = R"sql(
WITH written AS (
  SELECT DISTINCT its.oid, its.is_child, w.name
    FROM unnest($1) AS w(name)
    JOIN pg_class t ON t.oid = to_regclass({schema_text} || quote_ident(w.name))
   CROSS JOIN LATERAL (SELECT t.oid, false UNION ALL
                      SELECT i.inhrelid, true FROM pg_inherits i WHERE i.inhparent = t.oid) its(oid, is_child)
)
SELECT CASE WHEN g.tgtype & 2 <> 0 THEN 'BEFORE trigger' ELSE 'AFTER trigger' END AS kind, g.tgname::text AS name,
       w.oid::regclass::text AS relation,
       format('SELECT pg_get_functiondef(%L::regprocedure);', g.tgfoid::regprocedure) AS look,
       format('ALTER TABLE %s DISABLE TRIGGER %I;', w.oid::regclass, g.tgname) AS off
  FROM written w
  JOIN pg_trigger g ON g.tgrelid = w.oid
 WHERE NOT g.tgisinternal AND g.tgparentid = 0 AND g.tgtype & 1 <> 0 AND g.tgenabled IN ('O', 'A')
   AND NOT (g.tgname = w.name || '_notify_trg' AND g.tgtype & 2 = 0)
 UNION ALL
SELECT 'rule', r.rulename::text, w.oid::regclass::text, format('SELECT pg_get_ruledef(%s);', r.oid),
       format('ALTER TABLE %s DISABLE RULE %I;', w.oid::regclass, r.rulename)
  FROM written w
  JOIN pg_rewrite r ON r.ev_class = w.oid
 -- The children are written through their parent, where theirs do not count.
 WHERE NOT w.is_child AND r.rulename <> '_RETURN' AND r.ev_enabled IN ('O', 'A')
 ORDER BY relation, kind, name)sql";

// $1 tables. Who owns a table is bound by it only where it is forced. A hash child's does not count: all go through its parent.
constexpr std::string_view kRowSecurity = R"sql(
SELECT format('%I.%I', n.nspname, c.relname) AS relation, quote_ident(current_user) AS role,
       pg_has_role(c.relowner, 'USAGE') AS owned
  FROM (SELECT DISTINCT to_regclass({schema_text} || quote_ident(name)) AS oid FROM unnest($1) AS name) w
  JOIN pg_class c ON c.oid = w.oid
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE row_security_active(c.oid)
 ORDER BY 1)sql";

struct Harm {
  std::string_view does;
  std::string_view advice;
};

Harm harm_of(std::string_view kind) {
  if (kind == "BEFORE trigger")
    return {"where it does not RETURN NEW nothing is written, though it may be reported as moved",
            "look whether it always returns NEW (of a DELETE: OLD); if not"};
  if (kind == "AFTER trigger")
    return {"what it raises fails the rows that are written with it, and what it waits for holds them up",
            "look whether it can fail or take long; if so"};
  return {"with INSTEAD nothing is written, though it may be reported as moved",
          "look whether it leaves everything to be written; if not"};
}

std::string maker(const migrate::State& state) {
  switch (state.origin) {
    case migrate::Origin::none:
      return "there is none";
    case migrate::Origin::ours:
      return "made by ff-reconciler";
    case migrate::Origin::flowfabric:
      break;
  }
  return "made by FlowFabric";
}

std::string way_to_schema(const migrate::State& state) {
  if (state.origin == migrate::Origin::flowfabric)
    return "let FlowFabric's own server run its migrations: ff-reconcilerd alters nothing that it has made";
  if (!state.changed.empty())
    return "use the release that made it: ff-reconcilerd migrate status names the migrations";
  if (state.origin == migrate::Origin::none)
    return "start FlowFabric's server, which makes it; only where none is to run on this database: " +
           migrate_up();
  if (!state.pending.empty()) return migrate_up_as_owner();
  return "ff-reconcilerd migrate sql # prints how it was made; restore what is missing";
}

Lines lines_of(std::string_view check, Verdict verdict, const std::vector<migrate::Missing>& missing,
               const std::string& otherwise) {
  Lines lines;
  for (const migrate::Missing& one : missing) lines.push_back({check, verdict, one.sentence, one.next});
  if (lines.empty()) lines.push_back({check, Verdict::fine, otherwise});
  return lines;
}

std::vector<std::string> path_of(pg::Connection& connection) {
  std::vector<std::string> path;
  for (const pg::Row row : connection.execute_script(kPath)) path.push_back(row.get<std::string>(0));
  return path;
}

Lines unlogged(pg::Connection& connection) {
  Lines lines;
  for (const pg::Row row : connection.execute(kUnlogged)) {
    const auto children = row.get<std::int64_t>("children");
    lines.push_back(
        {"schema", Verdict::warning,
         fmt::format("{}{} {} unlogged: a crash of the server or a failover empties {}",
                     children > 0 ? fmt::format("{} of the hash children of ", children) : "",
                     printable(row.get<std::string>("relation")), children > 1 ? "are" : "is",
                     children > 1 ? "them" : "it"),
         printable(row.get<std::string>("next")) + " -- nobody reads or writes the table meanwhile"});
  }
  return lines;
}

}  // namespace

Lines schema(pg::Connection& connection, const migrate::State& state) {
  Lines lines;
  for (const migrate::Missing& one : state.elsewhere)
    lines.push_back({"schema", Verdict::problem, one.sentence, one.next});
  if (!lines.empty()) return lines;
  for (const std::string& problem : state.problems)
    if (problem != state.server_too_old)  // which server_version says
      lines.push_back({"schema", Verdict::problem, printable(problem), way_to_schema(state)});
  if (lines.empty()) lines = unlogged(connection);
  if (lines.empty())
    lines.push_back({"schema", Verdict::fine,
                     fmt::format("{}, {}: tables, columns and keys are as needed", maker(state),
                                 migrate::version_text(state))});
  return lines;
}

Lines indexes(pg::Connection& connection) {
  const pg::Transaction transaction(connection);  // for its settings: a role's own might have names quoted
  return lines_of("indexes", Verdict::problem, migrate::missing_indexes(connection),
                  fmt::format("all {} are there and valid", migrate::wanted_indexes()));
}

Lines triggers(pg::Connection& connection) {
  const pg::Transaction transaction(connection);  // likewise
  return lines_of("triggers", Verdict::warning, migrate::missing_triggers(connection),
                  "both outboxes announce their events");
}

Lines row_triggers(pg::Connection& connection, const std::vector<std::string>& tables) {
  constexpr std::string_view kCheck = "row_triggers";
  const pg::Transaction transaction(connection);  // likewise
  Lines lines;
  for (const pg::Row row : connection.execute(kRowTriggers, pg::Params::of(tables))) {
    const auto kind = row.get<std::string>("kind");
    const Harm harm = harm_of(kind);
    lines.push_back(
        {kCheck, Verdict::warning,
         printable(fmt::format("{} {} acts on each row that is written to {}: {}", kind,
                               row.get<std::string>("name"), row.get<std::string>("relation"), harm.does)),
         printable(fmt::format("{} -- {}: {}", row.get<std::string>("look"), harm.advice,
                               row.get<std::string>("off")))});
  }
  if (lines.empty())
    lines.push_back({kCheck, Verdict::fine, "none but FlowFabric's own acts on rows that are written"});
  return lines;
}

// We ask for all rows or an error, so that a policy that lets every row pass does not help.
Lines row_security(pg::Connection& connection, const std::vector<std::string>& tables, Verdict verdict,
                   std::string_view who) {
  Lines lines;
  for (const pg::Row row : connection.execute(kRowSecurity, pg::Params::of(tables))) {
    const auto table = printable(row.get<std::string>("relation"));
    const auto role = printable(row.get<std::string>("role"));
    lines.push_back(
        {"privileges", verdict,
         fmt::format("row-level security may hide rows of {} from {}, all of which {}", table, role, who),
         fmt::format("ALTER ROLE {} BYPASSRLS; -- as a superuser; or, as the owner: ALTER TABLE {} {} "
                     "ROW LEVEL SECURITY;",
                     role, table, row.get<bool>("owned") ? "NO FORCE" : "DISABLE")});
  }
  return lines;
}

Lines strangers(pg::Connection& connection) {
  Lines lines;
  for (const pg::Row row : connection.execute(kStrangers, pg::Params::of(path_of(connection)))) {
    const auto schema = printable(row.get<std::string>("schema"));
    const auto who = printable(row.get<std::string>("who"));
    lines.push_back(
        {"strangers", Verdict::warning,
         fmt::format("{} may create in schema {}: what FlowFabric and triggers call there without its "
                     "schema may be theirs",
                     who == "PUBLIC" ? "everybody" : who, schema),
         fmt::format("REVOKE CREATE ON SCHEMA {} FROM {};", schema, who)});
  }
  if (lines.empty())
    lines.push_back(
        {"strangers", Verdict::fine, "nobody but their owners may create in the schemas on the path"});
  return lines;
}

}  // namespace ff::check
