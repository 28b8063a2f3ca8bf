#include "base/printable.hpp"
#include "migrate/contract.hpp"

namespace ff::migrate {
namespace {

// As the session has it from its role: beyond it nothing but pg_catalog is on the path.
constexpr auto kOwnPath = "SELECT pg_catalog.unnest(pg_catalog.current_schemas(false))";

// $1 the schemas on the path. Where tables of that name are that this session does not find, and the one that it finds instead.
constexpr std::string_view kElsewhere = R"sql(
SELECT quote_ident(n.nspname) AS schema, has_schema_privilege(n.oid, 'USAGE') AS usable, quote_ident(current_user) AS role,
       n.nspname = ANY($1) AS on_path, quote_ident(f.nspname) AS found_in,
       concat_ws(', ', quote_ident(n.nspname), (SELECT string_agg(quote_ident(other), ', ' ORDER BY place)
                                                  FROM unnest($1) WITH ORDINALITY AS p(other, place)
                                                 WHERE other <> n.nspname)) AS ahead
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN (pg_class found JOIN pg_namespace f ON f.oid = found.relnamespace)
    ON found.oid = to_regclass({schema_text} || 'ff_exec_core')
 WHERE c.relname = 'ff_exec_core' AND c.relkind IN ('r', 'p') AND found.oid IS DISTINCT FROM c.oid
 ORDER BY n.nspname)sql";

Missing why_not_found(const pg::Row& row) {
  const auto schema = printable(row.get<std::string>("schema"));
  const auto role = printable(row.get<std::string>("role"));
  if (!row.get<bool>("usable"))
    return {role + " may not use schema " + schema + ", where there are such tables",
            "GRANT USAGE ON SCHEMA " + schema + " TO " + role + ";"};
  const std::string there = "schema " + schema + ", where there are such tables, is ";
  const std::string path = "ALTER ROLE " + role + " SET search_path = ";
  const auto first = row.get<std::optional<std::string>>("found_in");
  if (!first || !row.get<bool>("on_path"))
    return {there + "not on the search_path of " + role, path + schema + "; -- and begin a new session"};
  const auto other = printable(*first);
  return {there + "behind schema " + other + " on the search_path of " + role +
              ", and the ff_exec_core there is found first",
          path + printable(row.get<std::string>("ahead")) +
              "; -- and begin a new session; or drop the table " + other +
              ".ff_exec_core, if it is nobody's"};
}

}  // namespace

std::vector<Missing> tables_elsewhere(pg::Connection& connection) {
  std::vector<std::string> path;
  for (const pg::Row row : connection.execute_script(kOwnPath)) path.push_back(row.get<std::string>(0));
  std::vector<Missing> elsewhere;
  for (const pg::Row row : connection.execute(kElsewhere, pg::Params::of(path)))
    elsewhere.push_back(why_not_found(row));
  return elsewhere;
}

}  // namespace ff::migrate
