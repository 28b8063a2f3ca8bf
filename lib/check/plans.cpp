#include "check/plans.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "check/plan.hpp"
#include "pg/transaction.hpp"
#include "reconcile/candidate.hpp"
#include "reconcile/job.hpp"

namespace ff::check {
namespace {

constexpr std::int64_t kRowsOfAPage = 1000;

// $1 type OIDs
constexpr std::string_view kTypes = R"sql(
SELECT string_agg(format_type(t.type::oid, NULL), ', ' ORDER BY t.place)
  FROM unnest($1) WITH ORDINALITY AS t(type, place))sql";

constexpr std::string_view kLocks =
    "SELECT count(*)::integer FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation'";

// $1 relations. A sequential scan of a few pages may be the right choice. What was never analysed goes by its size.
constexpr std::string_view kLarge = R"sql(
SELECT DISTINCT t.relname::text
  FROM unnest($1) AS w(name)
  JOIN pg_class c ON c.oid = to_regclass({schema_text} || quote_ident(w.name))
  LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
  JOIN pg_class t ON t.oid = coalesce(i.inhparent, c.oid)
 WHERE c.reltuples > 1000 OR (c.reltuples < 0 AND pg_relation_size(c.oid) > 1048576))sql";

// $1 a table. Any of its children, or the table itself, is large.
constexpr std::string_view kIsLarge = R"sql(
SELECT EXISTS (SELECT FROM pg_class t
                 LEFT JOIN pg_inherits i ON i.inhparent = t.oid
                 JOIN pg_class c ON c.oid = coalesce(i.inhrelid, t.oid)
                WHERE t.oid = to_regclass({schema_text} || $1)
                  AND (c.reltuples > 1000 OR (c.reltuples < 0 AND pg_relation_size(c.oid) > 1048576))))sql";

// $1 indexes
constexpr std::string_view kIndexes = R"sql(
SELECT DISTINCT t.relname::text
  FROM unnest($1) AS w(name)
  JOIN pg_class c ON c.oid = to_regclass({schema_text} || quote_ident(w.name))
  LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
  JOIN pg_class t ON t.oid = coalesce(i.inhparent, c.oid))sql";

std::string literal(const std::optional<std::string>& value) {
  if (!value) return "NULL";
  std::string text = "'";
  for (const char c : *value) text += c == '\'' ? std::string("''") : std::string(1, c);
  return text + "'";
}

struct Explained {
  nlohmann::json plan;
  int locks = 0;
};

// As the daemon has it planned. EXPLAIN takes no parameters, an EXECUTE does; what is prepared lives in this transaction
// only, because a pooler may give the next one another session.
Explained explain(pg::Connection& connection, const std::string& sql, const pg::Params& params) {
  std::vector<std::int64_t> types(params.types().begin(), params.types().end());
  std::string values;
  for (const auto& value : params.values()) values += (values.empty() ? "" : ", ") + literal(value);
  pg::Transaction transaction(connection, {.plan = pg::Plan::generic});
  const auto names = connection.execute(kTypes, pg::Params::of(types)).one().get<std::string>(0);
  connection.execute("PREPARE ff_check (" + names + ") AS " + sql);
  connection.execute("SAVEPOINT prepared");
  try {
    const pg::Result told = connection.execute("EXPLAIN (FORMAT JSON) EXECUTE ff_check(" + values + ")");
    Explained explained{nlohmann::json::parse(told.one().get<std::string>(0)).at(0),
                        connection.execute(kLocks).one().get<std::int32_t>(0)};
    connection.execute("DEALLOCATE ff_check");
    transaction.rollback();
    return explained;
  } catch (const pg::Error& error) {
    // No rollback takes back what is prepared, and the next reconciler wants the name.
    if (!error.connection_lost()) {
      connection.execute("ROLLBACK TO prepared");
      connection.execute("DEALLOCATE ff_check");
    }
    throw;
  }
}

std::set<std::string> named(pg::Connection& connection, std::string_view query,
                            const std::vector<std::string>& relations) {
  std::set<std::string> names;
  for (const pg::Row row : connection.execute(query, pg::Params::of(relations)))
    names.insert(row.get<std::string>(0));
  return names;
}

}  // namespace

void Plans::add(const Plans& other) {
  wholly_read.insert(other.wholly_read.begin(), other.wholly_read.end());
  indexes.insert(other.indexes.begin(), other.indexes.end());
  most_locks = std::max(most_locks, other.most_locks);
}

Plans plans_of(pg::Connection& connection, const reconcile::Reconciler& pair, const reconcile::Scope& scope) {
  reconcile::Job job(pair, scope, Clock::system());
  if (!pair.partition_count.empty()) {
    const auto count = connection.execute(pair.partition_count).one().get<std::int32_t>(0);
    job.groups = reconcile::Groups(all_partitions(count));
  }
  const auto locks = [&](const Explained& explained, const reconcile::Statement& statement) {
    return explained.locks * static_cast<int>(std::min(statement.groups_together(), job.groups.size()));
  };
  std::set<std::string> whole;
  std::set<std::string> indexes;
  Plans plans;
  for (const Partitions& group : job.groups.all()) {
    pg::Params params = job.params(group);
    params.add(kRowsOfAPage).add(std::int64_t{0}).add(std::int64_t{0});
    const Explained page = explain(connection, job.statements.page.over(group), params);
    whole.merge(wholly_read(page.plan));
    indexes.merge(indexes_used(page.plan));
    plans.most_locks = std::max(plans.most_locks, locks(page, job.statements.page));
  }
  // An act looks rows up by their keys, in every group alike.
  if (job.groups.size() > 0) {
    const Partitions& group = job.groups.all().front();
    pg::Params params = job.params(group);
    reconcile::add_keys(params, pair, {});
    for (const reconcile::Statement* statement : {&job.statements.lock, &job.statements.act}) {
      if (statement->empty()) continue;
      const Explained its = explain(connection, statement->over(group), params);
      plans.most_locks = std::max(plans.most_locks, locks(its, *statement));
    }
  }
  plans.wholly_read = named(connection, kLarge, {whole.begin(), whole.end()});
  plans.indexes = named(connection, kIndexes, {indexes.begin(), indexes.end()});
  return plans;
}

std::vector<reconcile::Lead> unused(pg::Connection& connection, const reconcile::Reconciler& reconciler,
                                    const std::set<std::string>& used) {
  std::vector<reconcile::Lead> found;
  for (const reconcile::Lead& lead : reconciler.leads) {
    if (used.contains(std::string(lead.index))) continue;
    if (connection.execute(kIsLarge, pg::Params::of(lead.table)).one().get<bool>(0)) found.push_back(lead);
  }
  return found;
}

}  // namespace ff::check
