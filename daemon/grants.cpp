#include "grants.hpp"

#include <fmt/format.h>

#include "audit/check.hpp"
#include "reconcile/family/registry.hpp"
#include "reconcile/statements.hpp"

namespace ff::daemon {
namespace {

// $1 tables and sequences, $2 what is needed of each, such as 'SELECT, UPDATE', $3 whether only what this role has not
// got. A sequence that belongs to a column is drawn from by its default; one behind an identity needs no grant, and
// depends on its column in another way.
constexpr std::string_view kGrants = R"sql(
WITH needed AS (
  SELECT c.oid, c.relname, c.relkind, n.oid AS schema, n.nspname, privilege
    FROM unnest($1, $2) AS t(relation, privileges)
    JOIN pg_class c ON c.oid = to_regclass({schema_text} || t.relation)
    JOIN pg_namespace n ON n.oid = c.relnamespace,
         regexp_split_to_table(t.privileges, ', ') AS privilege
)
SELECT string_agg(DISTINCT privilege, ', ') AS privileges, object
  FROM (SELECT 1 AS place, 'CONNECT' AS privilege, format('DATABASE %I', current_database()) AS object,
               has_database_privilege(current_database(), 'CONNECT') AS held
         WHERE NOT has_database_privilege('public', current_database(), 'CONNECT')
         UNION
        SELECT 2, 'USAGE', format('SCHEMA %I', nspname), has_schema_privilege(schema, 'USAGE')
          FROM needed
         WHERE NOT has_schema_privilege('public', schema, 'USAGE')
         UNION
        SELECT CASE relkind WHEN 'S' THEN 4 ELSE 3 END, privilege,
               format('%s %I.%I', CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, nspname, relname),
               CASE relkind WHEN 'S' THEN has_sequence_privilege(oid, privilege)
                            ELSE has_table_privilege(oid, privilege) END
          FROM needed
         UNION
        SELECT 4, 'USAGE', format('SEQUENCE %I.%I', n.nspname, s.relname),
               CASE s.relkind WHEN 'S' THEN has_sequence_privilege(s.oid, 'USAGE') END
          FROM needed
          JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = needed.oid
                          AND d.classid = 'pg_class'::regclass AND d.deptype = 'a'
          JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
          JOIN pg_namespace n ON n.oid = s.relnamespace
         WHERE privilege = 'INSERT') AS all_of_it
 WHERE NOT ($3 AND held)
 GROUP BY place, object
 ORDER BY place, object)sql";

std::vector<Grant> read(pg::Connection& connection, const Needs& needs, bool only_missing) {
  std::vector<std::string> tables;
  std::vector<std::string> privileges;
  for (const reconcile::Privileges& need : needs) {
    tables.emplace_back(need.table);
    privileges.emplace_back(need.names);
  }
  std::vector<Grant> all;
  for (const pg::Row row : connection.execute(kGrants, pg::Params::of(tables, privileges, only_missing)))
    all.push_back({row.get<std::string>("privileges"), row.get<std::string>("object")});
  return all;
}

}  // namespace

Needs needs_of(const std::vector<const reconcile::Reconciler*>& reconcilers) {
  Needs needs{{"ff_partition_config", "SELECT"}, {"ff_reconciler_migration", "SELECT"}};
  for (const reconcile::Reconciler* reconciler : reconcilers)
    needs.insert(needs.end(), reconciler->privileges.begin(), reconciler->privileges.end());
  return needs;
}

Needs needs_of_reading() {
  Needs needs{{"ff_lease_event", "SELECT"},
              {"ff_lease_event_event_id_seq", "USAGE"},
              {"ff_claim_grant", "SELECT"},
              {"ff_edge", "SELECT"}};
  for (const reconcile::Reconciler& pair : reconcile::all_pairs()) {
    const std::string page = reconcile::Statements(pair).page.over({{0}});
    for (const reconcile::Privileges& its : pair.privileges)
      if (page.find(fmt::format(".{} ", its.table)) != std::string::npos)
        needs.push_back({its.table, "SELECT"});
  }
  for (const std::string& table : audit::tables()) needs.push_back({table, "SELECT"});
  return needs;
}

Needs needs_of_seeing_pauses() {
  return {{"ff_reconciler_pause", "SELECT"}, {"ff_reconciler_release", "SELECT"}};
}

Needs needs_of_pausing() {
  return {{"ff_reconciler_pause", "SELECT, INSERT, UPDATE, DELETE"},
          {"ff_reconciler_release", "SELECT, INSERT, UPDATE"}};
}

std::vector<Grant> grants(pg::Connection& connection, const Needs& needs) {
  return read(connection, needs, false);
}

std::vector<Grant> missing(pg::Connection& connection, const Needs& needs) {
  return read(connection, needs, true);
}

std::string statements(pg::Connection& connection, const std::vector<Grant>& grants,
                       const std::string& role) {
  const auto grantee =
      connection.execute("SELECT quote_ident($1)", pg::Params::of(role)).one().get<std::string>(0);
  std::string text;
  for (const Grant& grant : grants)
    text += fmt::format("GRANT {} ON {} TO {};\n", grant.privileges, grant.object, grantee);
  return text;
}

}  // namespace ff::daemon
