#include "check/tables.hpp"

#include <fmt/format.h>

#include "base/printable.hpp"
#include "check/ways.hpp"
#include "migrate/contract.hpp"
#include "pg/transaction.hpp"

namespace ff::check {
namespace {

// Where tables of that name are that this session does not find.
constexpr std::string_view kElsewhere = R"sql(
SELECT quote_ident(n.nspname) AS schema, has_schema_privilege(n.oid, 'USAGE') AS usable, quote_ident(current_user) AS role
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relname = 'ff_exec_core' AND c.relkind IN ('r', 'p')
   AND to_regclass({schema_text} || 'ff_exec_core') IS DISTINCT FROM c.oid
 ORDER BY n.nspname)sql";

// As the session has it from its role: beyond it nothing but pg_catalog is on the path.
constexpr auto kPath = "SELECT pg_catalog.unnest(pg_catalog.current_schemas(false))";

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

}  // namespace

Lines schema(pg::Connection& connection, const migrate::State& state) {
  if (state.origin == migrate::Origin::none) {
    Lines lines = schema_not_found(connection);
    if (!lines.empty()) return lines;
  }
  Lines lines;
  for (const std::string& problem : state.problems)
    if (problem != state.server_too_old)  // which server_version says
      lines.push_back({"schema", Verdict::problem, printable(problem), way_to_schema(state)});
  if (lines.empty())
    lines.push_back({"schema", Verdict::fine,
                     fmt::format("{}, {}: tables, columns and keys are as needed", maker(state),
                                 migrate::version_text(state))});
  return lines;
}

Lines schema_not_found(pg::Connection& connection) {
  Lines lines;
  for (const pg::Row row : connection.execute(kElsewhere)) {
    const auto schema = printable(row.get<std::string>("schema"));
    const auto role = printable(row.get<std::string>("role"));
    if (!row.get<bool>("usable"))
      lines.push_back({"schema", Verdict::problem,
                       fmt::format("{} may not use schema {}, where there are such tables", role, schema),
                       fmt::format("GRANT USAGE ON SCHEMA {} TO {};", schema, role)});
    else
      lines.push_back(
          {"schema", Verdict::problem,
           fmt::format("schema {}, where there are such tables, is not on the search_path of {}", schema,
                       role),
           fmt::format("ALTER ROLE {} SET search_path = {}; -- and begin a new session", role, schema)});
  }
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

Lines strangers(pg::Connection& connection) {
  std::vector<std::string> path;
  for (const pg::Row row : connection.execute_script(kPath)) path.push_back(row.get<std::string>(0));
  Lines lines;
  for (const pg::Row row : connection.execute(kStrangers, pg::Params::of(path))) {
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
