#include "migrate/contract.hpp"

#include "base/printable.hpp"
#include "migrate/migrations.hpp"

namespace ff::migrate {
namespace {

/// A table that the reconcilers touch, its primary key, and its columns as "<name> <type>", with "!" where null
/// is not allowed. What only workers use (payloads, tokens, counters) is left out: a later FlowFabric may change
/// it.
struct Table {
  const char* name;
  const char* key;
  const char* columns;
};

constexpr Table kTables[] = {
    {"ff_exec_core", "partition_key, execution_id",
     "partition_key smallint!, execution_id uuid!, flow_id uuid, lane_id text!, attempt_index integer!, "
     "lifecycle_phase text!, ownership_state text!, eligibility_state text!, public_state text!, "
     "attempt_state text!, blocking_reason text, cancellation_reason text, cancelled_by text, created_at_ms "
     "bigint!, "
     "terminal_at_ms bigint, deadline_at_ms bigint, policy jsonb, raw_fields jsonb!"},
    {"ff_flow_core", "partition_key, flow_id",
     "partition_key smallint!, flow_id uuid!, graph_revision bigint!, public_flow_state text!, "
     "created_at_ms bigint!, terminal_at_ms bigint, raw_fields jsonb!"},
    {"ff_attempt", "partition_key, execution_id, attempt_index",
     "partition_key smallint!, execution_id uuid!, attempt_index integer!, worker_id text, "
     "worker_instance_id text, lease_epoch bigint!, lease_expires_at_ms bigint, started_at_ms bigint, "
     "terminal_at_ms bigint, outcome text, policy jsonb, raw_fields jsonb!"},
    {"ff_edge", "partition_key, flow_id, edge_id",
     "partition_key smallint!, flow_id uuid!, edge_id uuid!, upstream_eid uuid!, downstream_eid uuid!, "
     "policy jsonb!"},
    {"ff_edge_group", "partition_key, flow_id, downstream_eid",
     "partition_key smallint!, flow_id uuid!, downstream_eid uuid!, policy jsonb!, success_count integer!, "
     "fail_count integer!, skip_count integer!, running_count integer!, cancel_siblings_pending_flag "
     "boolean!, "
     "cancel_siblings_pending_members text[]!"},
    {"ff_pending_cancel_groups", "partition_key, flow_id, downstream_eid",
     "partition_key smallint!, flow_id uuid!, downstream_eid uuid!, enqueued_at_ms bigint!"},
    {"ff_suspension_current", "partition_key, execution_id",
     "partition_key smallint!, execution_id uuid!, suspension_id uuid!, suspended_at_ms bigint!, "
     "timeout_at_ms bigint, member_map jsonb!, timeout_behavior text"},
    {"ff_waitpoint_pending", "partition_key, waitpoint_id",
     "partition_key smallint!, waitpoint_id uuid!, execution_id uuid!, expires_at_ms bigint, "
     "waitpoint_key text!, state text!"},
    {"ff_claim_grant", "partition_key, grant_id",
     "partition_key smallint!, execution_id uuid!, kind text!, expires_at_ms bigint!"},
    {"ff_completion_event", "partition_key, event_id",
     "partition_key smallint!, event_id bigint!, execution_id uuid!, flow_id uuid, outcome text!, "
     "namespace text, instance_tag text, occurred_at_ms bigint!, committed_at_ms bigint!, "
     "dispatched_at_ms bigint"},
    {"ff_lease_event", "event_id",
     "event_id bigint!, execution_id text!, lease_id text, event_type text!, occurred_at_ms bigint!, "
     "partition_key integer!, namespace text, instance_tag text"},
    {"ff_signal_event", "event_id", "event_id bigint!, delivered_at_ms bigint!, partition_key integer!"},
    {"ff_operator_event", "event_id",
     "event_id bigint!, execution_id text!, event_type text!, occurred_at_ms bigint!, partition_key "
     "integer!"},
    {"ff_budget_policy", "partition_key, budget_id",
     "partition_key smallint!, budget_id text!, policy_json jsonb!, updated_at_ms bigint!, "
     "last_breach_at_ms bigint, last_breach_dim text, next_reset_at_ms bigint"},
    {"ff_budget_usage", "partition_key, budget_id, dimensions_key",
     "partition_key smallint!, budget_id text!, dimensions_key text!, current_value bigint!, "
     "last_reset_at_ms bigint, updated_at_ms bigint!"},
    {"ff_budget_usage_by_exec", "partition_key, budget_id, execution_id, dimensions_key",
     "partition_key smallint!, budget_id text!"},
    {"ff_quota_policy", "partition_key, quota_policy_id",
     "partition_key smallint!, quota_policy_id text!, requests_per_window_seconds bigint!, "
     "active_concurrency bigint!, updated_at_ms bigint!"},
    {"ff_quota_window", "partition_key, quota_policy_id, dimension, admitted_at_ms, execution_id",
     "partition_key smallint!, quota_policy_id text!, dimension text!, admitted_at_ms bigint!, "
     "execution_id text!"},
    {"ff_quota_admitted", "partition_key, quota_policy_id, execution_id",
     "partition_key smallint!, quota_policy_id text!, execution_id text!, admitted_at_ms bigint!, "
     "expires_at_ms bigint!"},
    {"ff_worker_registry", "partition_key, namespace, worker_instance_id",
     "partition_key smallint!, namespace text!, worker_instance_id text!, last_heartbeat_ms bigint!, "
     "liveness_ttl_ms bigint!"},
    {"ff_worker_registry_event", "partition_key, namespace, worker_instance_id, event_at_ms, event_kind",
     "partition_key smallint!, namespace text!, worker_instance_id text!, event_at_ms bigint!, "
     "event_kind text!, reason text"},
    {"ff_partition_config", "singleton_lock",
     "num_flow_partitions integer!, num_budget_partitions integer!, num_quota_partitions integer!"},
};

/// Indexes as "<table> <index>".
const std::vector<std::string> kIndexes{
    "ff_exec_core ff_exec_core_lane_phase_idx",
    "ff_exec_core ff_exec_core_caps_gin_idx",
    "ff_exec_core ff_exec_core_flow_idx",
    "ff_exec_core ff_exec_core_deadline_idx",
    "ff_attempt ff_attempt_lease_expiry_idx",
    "ff_attempt ff_attempt_worker_idx",
    "ff_edge ff_edge_downstream_idx",
    "ff_edge ff_edge_upstream_idx",
    "ff_pending_cancel_groups ff_pending_cancel_groups_enqueued_idx",
    "ff_suspension_current ff_suspension_current_suspended_at_idx",
    "ff_suspension_current ff_suspension_current_timeout_idx",
    "ff_waitpoint_pending ff_waitpoint_pending_expires_idx",
    "ff_waitpoint_pending ff_waitpoint_pending_exec_idx",
    "ff_claim_grant ff_claim_grant_execution_idx",
    "ff_completion_event ff_completion_event_event_id_idx",
    "ff_completion_event ff_completion_event_pending_dispatch_idx",
    "ff_completion_event ff_completion_event_lookup_idx",
    "ff_lease_event ff_lease_event_partition_key_idx",
    "ff_lease_event ff_lease_event_namespace_idx",
    "ff_lease_event ff_lease_event_instance_tag_idx",
    "ff_signal_event ff_signal_event_partition_key_idx",
    "ff_operator_event ff_operator_event_partition_key_idx",
    "ff_budget_policy ff_budget_policy_reset_due_idx",
    "ff_quota_admitted ff_quota_admitted_expires_idx",
    "ff_worker_registry ff_worker_registry_ns_inst_idx",
};

/// Notify triggers as "<table> <channel>".
const std::vector<std::string> kChannels{"ff_completion_event ff_completion",
                                         "ff_lease_event ff_lease_event"};

// $1 tables, $2 their columns. One sentence per table that is missing, else per column.
constexpr std::string_view kColumns = R"(
  SELECT CASE WHEN c.oid IS NULL THEN 'table ' || w.relation || ' is missing'
              WHEN a.attname IS NULL THEN 'column ' || w.relation || '.' || w.name || ' is missing'
              WHEN format_type(a.atttypid, a.atttypmod) <> rtrim(w.type, '!')
                THEN 'column ' || w.relation || '.' || w.name || ' is '
                     || format_type(a.atttypid, a.atttypmod) || ', ' || rtrim(w.type, '!') || ' is needed'
              ELSE 'column ' || w.relation || '.' || w.name || ' may be null, which must not be'
               END AS sentence
    FROM (SELECT relation, split_part(item, ' ', 1) AS name, split_part(item, ' ', 2) AS type,
                 row_number() OVER () AS place
            FROM unnest($1, $2) AS t(relation, columns), regexp_split_to_table(columns, ', ') AS item) AS w
    LEFT JOIN pg_class c ON c.oid = to_regclass({schema_text} || w.relation) AND c.relkind IN ('r', 'p')
    LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = w.name AND NOT a.attisdropped
   WHERE a.attname IS NULL OR format_type(a.atttypid, a.atttypmod) <> rtrim(w.type, '!')
      OR (w.type LIKE '%!' AND NOT a.attnotnull)
   GROUP BY sentence ORDER BY min(w.place))";

// $1 tables, $2 their primary keys. What is inserted ON CONFLICT, and each look-up of an act, goes by them.
constexpr std::string_view kKeys = R"(
  SELECT 'table ' || w.relation || ' has ' || coalesce('the primary key (' || found.columns || ')', 'no primary key')
         || ', (' || w.key || ') is needed' AS sentence
    FROM unnest($1, $2) WITH ORDINALITY AS w(relation, key, place)
    JOIN pg_class c ON c.oid = to_regclass({schema_text} || w.relation) AND c.relkind IN ('r', 'p')
   CROSS JOIN LATERAL (
         SELECT string_agg(a.attname, ', ' ORDER BY k.place) AS columns
           FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(attnum, place)
           JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
          WHERE i.indrelid = c.oid AND i.indisprimary AND k.place <= i.indnkeyatts) AS found
   WHERE found.columns IS DISTINCT FROM w.key
   ORDER BY w.place)";

// $1 tables. The children of a hash-partitioned table are complete when the fractions of the hash space that
// they take add up to one: their moduli need not be equal.
constexpr std::string_view kChildren = R"(
  SELECT 'table ' || c.relname || ' lacks some of its hash children' AS sentence
    FROM unnest($1) WITH ORDINALITY AS w(relation, place)
    JOIN pg_class c ON c.oid = to_regclass({schema_text} || w.relation) AND c.relkind = 'p'
    JOIN pg_partitioned_table p ON p.partrelid = c.oid AND p.partstrat = 'h'
    LEFT JOIN pg_inherits i ON i.inhparent = c.oid
    LEFT JOIN pg_class child ON child.oid = i.inhrelid
   GROUP BY c.relname, w.place
  HAVING coalesce(sum(1 / substring(pg_get_expr(child.relpartbound, child.oid)
                                    FROM 'modulus (\d+)')::float8), 0) < 0.999999
   ORDER BY w.place)";

// $1 "<table> <index>", $2 and $3 as their migration has it: "<method> (<columns>" without the bracket that closes, and
// what follows WHERE, or nothing. An index of a partitioned table is valid once every child has its part. One with more
// columns behind, or of all rows, serves as well, as does one whose order is another.
constexpr std::string_view kIndexesMissing = R"(
  SELECT split_part(w.item, ' ', 2) AS name,
         (SELECT quote_ident(n.nspname) FROM pg_namespace n WHERE n.oid = t.relnamespace) AS schema,
         to_regclass({schema_text} || split_part(w.item, ' ', 2)) IS NOT NULL AS is_there, f.valid IS TRUE AS valid,
         t.relkind = 'p' AS partitioned, regexp_replace(f.definition, '^btree ', '') AS found,
         'index ' || split_part(w.item, ' ', 2) || ' on ' || split_part(w.item, ' ', 1) AS subject
    FROM unnest($1, $2, $3) WITH ORDINALITY AS w(item, columns, predicate, place)
    LEFT JOIN pg_class t ON t.oid = to_regclass({schema_text} || split_part(w.item, ' ', 1))
    LEFT JOIN LATERAL (SELECT i.indisvalid AS valid, pg_get_expr(i.indpred, i.indrelid) AS predicate,
                              substring(pg_get_indexdef(i.indexrelid) FROM ' USING (.*)$') AS definition,
                              regexp_replace(substring(pg_get_indexdef(i.indexrelid) FROM ' USING (.*)$'),
                                             ' DESC| NULLS (FIRST|LAST)', '', 'g') AS unordered
                         FROM pg_index i
                        WHERE i.indexrelid = to_regclass({schema_text} || split_part(w.item, ' ', 2))
                          AND i.indrelid = t.oid) f ON true
   WHERE f.valid IS NOT TRUE
      OR NOT (f.unordered ^@ (w.columns || ')') OR f.unordered ^@ (w.columns || ','))
      OR f.predicate <> '(' || w.predicate || ')'
   ORDER BY w.place)";

// $1 "<table> <channel>". Per row (FlowFabric) or per statement (ours), under any name: bit 4 of tgtype is
// INSERT.
constexpr std::string_view kTriggersMissing = R"(
  WITH announcing AS (
    SELECT w.item, w.place, t.tgname, t.tgrelid,
           t.tgenabled IN ('O', 'A') AND t.tgtype & 4 <> 0 AS announces, t.tgtype & 4 <> 0 AS would
      FROM unnest($1) WITH ORDINALITY AS w(item, place)
      LEFT JOIN (pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid)
        ON t.tgrelid = to_regclass({schema_text} || split_part(item, ' ', 1)) AND NOT t.tgisinternal
       AND strpos(f.prosrc, quote_literal(split_part(item, ' ', 2))) > 0
  )
  SELECT 'no enabled insert trigger on ' || split_part(item, ' ', 1) || ' notifies '
         || split_part(item, ' ', 2) || ': subscribers learn of events by polling only' AS sentence,
         coalesce(min(format('ALTER TABLE %s ENABLE TRIGGER %I;', tgrelid::regclass, tgname)) FILTER (WHERE would),
                  'make it as FlowFabric does: ff-reconcilerd migrate sql prints its CREATE TRIGGER') AS next
    FROM announcing
   GROUP BY item, place
  HAVING bool_or(announces) IS NOT TRUE
   ORDER BY place)";

// Whoever may create in the schema of the tables, beside its owner and superusers, who may do all that anyway.
constexpr std::string_view kCreators = R"(
  SELECT format('%s may create in schema %I: what FlowFabric and triggers call there without its schema may be theirs',
                string_agg(coalesce(quote_ident(r.rolname), 'everybody'), ', ' ORDER BY r.rolname), n.nspname)
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
   CROSS JOIN LATERAL aclexplode(n.nspacl) AS granted
    LEFT JOIN pg_roles r ON r.oid = granted.grantee
   WHERE c.oid = to_regclass({schema_text} || 'ff_exec_core') AND granted.privilege_type = 'CREATE'
     AND granted.grantee <> n.nspowner AND r.rolsuper IS NOT TRUE
   GROUP BY n.nspname)";

void append_sentences(std::vector<std::string>& to, const pg::Result& result) {
  for (const pg::Row row : result) to.push_back(printable(row.get<std::string>(0)));
}

// "ON … (…)" on one line, from the migration that makes it.
std::string definition_of(std::string_view index) {
  const std::string begin = "CREATE INDEX IF NOT EXISTS " + std::string(index) + " ";
  for (const Migration& migration : migrations()) {
    auto at = migration.sql.find(begin);
    if (at == std::string_view::npos) continue;
    at += begin.size();
    return printable(migration.sql.substr(at, migration.sql.find(';', at) - at));
  }
  return {};
}

/// What of an index decides whether a scan can use it.
struct Shape {
  std::string columns;  ///< "btree (partition_key, flow_id": with its method, without the bracket that closes
  std::string predicate;  ///< what follows WHERE; empty: all rows
};

Shape shape_of(const std::string& definition) {
  constexpr std::string_view kUsing = " USING ";
  constexpr std::string_view kWhere = " WHERE ";
  const auto method = definition.find(kUsing);
  const auto open = definition.find('(');
  const auto where = definition.find(kWhere);
  Shape shape;
  shape.columns = method == std::string::npos
                      ? "btree "
                      : definition.substr(method + kUsing.size(), open - method - kUsing.size());
  shape.columns += definition.substr(open, definition.find(')') - open);
  if (where != std::string::npos) shape.predicate = definition.substr(where + kWhere.size());
  return shape;
}

// As the server shows one: without the method that goes without saying.
std::string text_of(const Shape& shape) {
  constexpr std::string_view kUsual = "btree ";
  return shape.columns.substr(shape.columns.starts_with(kUsual) ? kUsual.size() : 0) + ")" +
         (shape.predicate.empty() ? "" : " WHERE (" + shape.predicate + ")");
}

/// How an index is made without keeping anybody from writing, which the server refuses for a partitioned table.
struct Way {
  explicit Way(bool partitioned)
      : concurrently(partitioned ? "" : "CONCURRENTLY "),
        remark(partitioned ? " -- nobody writes into the table meanwhile" : " -- outside of a transaction") {}

  std::string concurrently;
  std::string remark;
};

std::string made_anew(const std::string& name, const std::string& definition, bool is_there, const Way& way) {
  return (is_there ? "DROP INDEX " + way.concurrently + name + "; " : "") + "CREATE INDEX " +
         way.concurrently + "IF NOT EXISTS " + name + " " + definition + ";" + way.remark;
}

// The new one is there before the old one goes.
std::string replacement(const std::string& name, const std::string& definition, const Way& way) {
  const std::string made = name + "_new";
  return "DROP INDEX IF EXISTS " + made + "; CREATE INDEX " + way.concurrently + made + " " + definition +
         "; DROP INDEX " + way.concurrently + name + "; ALTER INDEX " + made + " RENAME TO " + name + ";" +
         way.remark;
}

Missing said_of(const pg::Row& row) {
  const auto name = row.get<std::string>("name");
  const std::string definition = definition_of(name);
  const bool misplaced = row.get<bool>("valid");
  std::string sentence = row.get<std::string>("subject");
  if (misplaced)
    sentence +=
        " is on " + row.get<std::string>("found") + ", and should be on " + text_of(shape_of(definition));
  else
    sentence += " is missing or invalid";
  std::string next;
  // Without it the table itself is missing, which another sentence says.
  if (const auto schema = row.get<std::optional<std::string>>("schema")) {
    const Way way(row.get<bool>("partitioned"));
    next = "SET search_path = " + *schema + "; " +
           (misplaced ? replacement(name, definition, way)
                      : made_anew(name, definition, row.get<bool>("is_there"), way));
  }
  return {printable(sentence), printable(next)};
}

}  // namespace

Differences compare_with_contract(pg::Connection& connection) {
  std::vector<std::string> names;
  std::vector<std::string> keys;
  std::vector<std::string> columns;
  for (const Table& table : kTables) {
    names.emplace_back(table.name);
    keys.emplace_back(table.key);
    columns.emplace_back(table.columns);
  }
  Differences found;
  append_sentences(found.problems, connection.execute(kColumns, pg::Params::of(names, columns)));
  append_sentences(found.problems, connection.execute(kKeys, pg::Params::of(names, keys)));
  append_sentences(found.problems, connection.execute(kChildren, pg::Params::of(names)));
  for (Missing& index : missing_indexes(connection)) found.warnings.push_back(std::move(index.sentence));
  for (Missing& trigger : missing_triggers(connection)) found.warnings.push_back(std::move(trigger.sentence));
  append_sentences(found.warnings, connection.execute(kCreators));
  return found;
}

std::vector<Missing> missing_indexes(pg::Connection& connection) {
  std::vector<std::string> columns;
  std::vector<std::string> predicates;
  for (const std::string& index : kIndexes) {
    Shape shape = shape_of(definition_of(index.substr(index.find(' ') + 1)));
    columns.push_back(std::move(shape.columns));
    predicates.push_back(std::move(shape.predicate));
  }
  std::vector<Missing> missing;
  for (const pg::Row row : connection.execute(kIndexesMissing, pg::Params::of(kIndexes, columns, predicates)))
    missing.push_back(said_of(row));
  return missing;
}

std::size_t wanted_indexes() {
  return kIndexes.size();
}

std::vector<Missing> missing_triggers(pg::Connection& connection) {
  std::vector<Missing> missing;
  for (const pg::Row row : connection.execute(kTriggersMissing, pg::Params::of(kChannels)))
    missing.push_back({printable(row.get<std::string>("sentence")), printable(row.get<std::string>("next"))});
  return missing;
}

}  // namespace ff::migrate
