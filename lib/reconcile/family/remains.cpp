#include "reconcile/family/remains.hpp"

namespace ff::reconcile::remains {
namespace {

// One that is kept has the greatest age there is; so has one of which the policy says more than fits (FlowFabric's is a u64).
constexpr std::string_view kOwnAge =
    R"sql((CASE WHEN jsonb_typeof({policy}->'stream_policy'->'retention_ttl_ms') = 'number'
                AND {policy}->'stream_policy'->>'retention_ttl_ms' ~ '^[1-9][0-9]*$'
               THEN least(({policy}->'stream_policy'->>'retention_ttl_ms')::numeric, 9223372036854775807)::bigint
               ELSE coalesce(({their_ages}::bigint[])[array_position({named}::text[], {row}.raw_fields->>'namespace')],
                             {age}::bigint) END))sql";

// Looked up row by row. Of the newest completion event the database's own clock tells.
constexpr std::string_view kSigns = R"sql(LATERAL (
      SELECT greatest(a.started_at_ms, e.told_at_ms) AS last_ms, a.is_leased OR e.is_waited_for AS is_needed
        FROM (SELECT max(t.started_at_ms) AS started_at_ms,
                     coalesce(bool_or(t.lease_expires_at_ms IS NOT NULL), false) AS is_leased
                FROM {schema}.ff_attempt t
               WHERE {in_partitions:t} AND {same_execution:t, {core}}) a
       CROSS JOIN (SELECT max(v.committed_at_ms) AS told_at_ms,
                          coalesce(bool_or(v.dispatched_at_ms IS NULL), false) AS is_waited_for
                     FROM {schema}.ff_completion_event v
                    WHERE {in_partitions:v} AND {same_execution:v, {core}}) e
      OFFSET 0))sql";

constexpr std::string_view kMembersOf = R"sql(LATERAL (
      SELECT count(*) AS members, max({due:c, s}) AS due_at_ms,
             -- What is neither true nor false, such as a filter where there is no namespace, would count for nothing.
             coalesce(bool_and(({has_ended:c} AND {filter:c} AND NOT s.is_needed) IS TRUE), true) AS are_over
        FROM {schema}.ff_exec_core c
        JOIN {signs:c} s ON true
       WHERE {in_partitions:c} AND c.partition_key = {flow}.partition_key AND c.flow_id = {flow}.flow_id
      OFFSET 0))sql";

// A flow without members has its own namespace, and no tag.
constexpr std::string_view kIsOver = R"sql(({members}.are_over
     AND ({members}.members > 0
          OR ({tag_key} IS NULL AND ({namespace} IS NULL OR {flow}.raw_fields->>'namespace' = {namespace})))
     AND NOT EXISTS (SELECT FROM {schema}.ff_cancel_backlog b
                      WHERE {in_partitions:b} AND b.partition_key = {flow}.partition_key
                        AND b.flow_id = {flow}.flow_id)
     AND NOT EXISTS (SELECT FROM {schema}.ff_pending_cancel_groups p
                       JOIN {schema}.ff_edge_group g ON g.partition_key = p.partition_key AND g.flow_id = p.flow_id
                                                    AND g.downstream_eid = p.downstream_eid
                      WHERE {in_partitions:p} AND {in_partitions:g} AND p.partition_key = {flow}.partition_key
                        AND p.flow_id = {flow}.flow_id AND g.cancel_siblings_pending_flag)))sql";

// So many members of `flow`, those first that go next: the same ones in `lock` and in `act`, because nobody adds one
// meanwhile. The barrier keeps the planner from reading the partition in the order of its key.
constexpr std::string_view kNextMembers = R"sql(
  SELECT f.*, m.execution_id
    FROM flow f
   CROSS JOIN LATERAL (SELECT n.execution_id
                         FROM (SELECT i.execution_id
                                 FROM {schema}.ff_exec_core i
                                WHERE {in_partitions:i} AND i.partition_key = f.partition_key AND i.flow_id = f.flow_id
                               OFFSET 0) n
                        ORDER BY n.execution_id
                        LIMIT {most}) m)sql";

// Rows of a table that belong to those in `owners`, each known by its `owner`, and those of which a row is in other hands.
constexpr std::string_view kHold = R"sql(
{table}_held AS MATERIALIZED (
  SELECT x.partition_key, x.{owner}, x.{id}
    FROM {owners} o
    JOIN {schema}.{table} x ON x.partition_key = o.partition_key AND x.{owner} = o.{owner}
   WHERE {in_partitions:x}
     FOR UPDATE OF x SKIP LOCKED
),
{table}_missed AS MATERIALIZED (
  SELECT partition_key, {owner}
    FROM (SELECT x.partition_key, x.{owner}, x.{id}
            FROM {owners} o
            JOIN {schema}.{table} x ON x.partition_key = o.partition_key AND x.{owner} = o.{owner}
           WHERE {in_partitions:x}
          EXCEPT
          SELECT * FROM {table}_held) missed
))sql";

constexpr std::string_view kHoldRemains = R"sql(
{hold:core, execution_id, ff_attempt, attempt_index},
{hold:core, execution_id, ff_suspension_current, suspension_id},
{hold:core, execution_id, ff_waitpoint_pending, waitpoint_id},
{hold:core, execution_id, ff_claim_grant, grant_id},
{hold:core, execution_id, ff_completion_event, event_id},
withheld AS MATERIALIZED (
  SELECT * FROM ff_attempt_missed
   UNION ALL SELECT * FROM ff_suspension_current_missed
   UNION ALL SELECT * FROM ff_waitpoint_pending_missed
   UNION ALL SELECT * FROM ff_claim_grant_missed
   UNION ALL SELECT * FROM ff_completion_event_missed
))sql";

// Frames may be many: no more than so many a transaction, read in the order in which they go, one more than that: the
// execution at which they are too many stays, and those behind it. One that has more by itself loses its first ones.
constexpr std::string_view kRemoveDoomed = R"sql(
frame AS MATERIALIZED (
  SELECT s.partition_key, s.execution_id, s.attempt_index, s.ts_ms, s.seq
    FROM (SELECT partition_key, execution_id FROM doomed ORDER BY partition_key, execution_id) d
   CROSS JOIN LATERAL (SELECT *
                         FROM {schema}.ff_stream_frame t
                        WHERE {in_partitions:t} AND {same_execution:t, d}
                        ORDER BY t.attempt_index, t.ts_ms, t.seq
                        LIMIT {most_frames} + 1) s
   ORDER BY d.partition_key, d.execution_id
   LIMIT {most_frames} + 1
),
too_many AS MATERIALIZED (
  SELECT partition_key, execution_id
    FROM frame
   WHERE (SELECT count(*) FROM frame) > {most_frames}
   ORDER BY partition_key DESC, execution_id DESC
   LIMIT 1
),
kept AS MATERIALIZED (
  SELECT d.* FROM doomed d, too_many t WHERE (d.partition_key, d.execution_id) >= (t.partition_key, t.execution_id)
),
gone AS MATERIALIZED (
  SELECT d.*
    FROM doomed d
    LEFT JOIN too_many t ON true
   WHERE ((d.partition_key, d.execution_id) >= (t.partition_key, t.execution_id)) IS NOT TRUE
),
shortened AS (
  DELETE FROM {schema}.ff_stream_frame x
   USING (SELECT *
            FROM frame
           WHERE (SELECT bool_and((f.partition_key, f.execution_id) = (t.partition_key, t.execution_id))
                    FROM frame f, too_many t)
           ORDER BY attempt_index, ts_ms, seq
           LIMIT {most_frames}) s
   WHERE {in_partitions:x} AND {same_execution:x, s}
     AND x.attempt_index = s.attempt_index AND x.ts_ms = s.ts_ms AND x.seq = s.seq
  RETURNING 1
),
{remove:ff_stream_frame},
{remove:ff_stream_meta},
{remove:ff_stream_summary},
{remove:ff_attempt},
{remove:ff_suspension_current},
{remove:ff_waitpoint_pending},
{remove:ff_claim_grant},
{remove:ff_completion_event},
{remove:ff_exec_core})sql";

constexpr std::string_view kRemoveOfFlow = R"sql({table}_removed AS (
  DELETE FROM {schema}.{table} x
   USING whole w
   WHERE {in_partitions:x} AND x.partition_key = w.partition_key AND x.flow_id = w.flow_id
  RETURNING 1
))sql";

// Whatever of it were out of sight would stay behind, and nobody would ever find it again.
constexpr std::string_view kRemainsInSight =
    "{in_sight:ff_attempt, ff_suspension_current, ff_waitpoint_pending, ff_claim_grant, ff_completion_event, "
    "ff_stream_frame, ff_stream_meta, ff_stream_summary}";
constexpr std::string_view kFlowInSight =
    "{in_sight:ff_exec_core, ff_edge, ff_edge_group, ff_pending_cancel_groups, ff_cancel_backlog, "
    "ff_cancel_backlog_member, ff_flow_summary}";

/// "So many rows are in these relations together."
std::string count_of(const std::vector<std::string>& relations) {
  std::string sum;
  for (const std::string& each : relations)
    sum += (sum.empty() ? "" : " + ") + ("(SELECT count(*) FROM " + each + ")");
  return sum;
}

}  // namespace

std::vector<Fragment> fragments() {
  return {{"own_age(row, policy)", std::string(kOwnAge)},
          {"signs(core)", std::string(kSigns)},
          {"members_of(flow)", std::string(kMembersOf)},
          {"is_over(flow, members)", std::string(kIsOver)},
          // True at the first member that has not ended, else null.
          {"lives(flow)",
           R"sql((SELECT true
            FROM {schema}.ff_exec_core o
           WHERE {in_partitions:o} AND o.partition_key = {flow}.partition_key AND o.flow_id = {flow}.flow_id
             AND {has_not_ended:o}
           LIMIT 1))sql"},
          {"next_members(most)", std::string(kNextMembers)},
          {"hold(owners, owner, table, id)", std::string(kHold)},
          {"hold_remains", std::string(kHoldRemains)},
          {"remove_doomed", std::string(kRemoveDoomed)},
          {"remains_in_sight", std::string(kRemainsInSight)},
          {"flow_in_sight", std::string(kFlowInSight)},
          {"slice", "1000"},
          {"most_frames", "10000"},
          {"is_alone(core)", "{core}.flow_id IS NULL AND {has_ended:{core}}"},
          // A sum that does not fit is never.
          {"due_by_core(core)",
           R"sql(least(greatest({core}.terminal_at_ms, {core}.created_at_ms, {core}.started_at_ms)::numeric
            + {own_age:{core}, {core}.policy}, 9223372036854775807)::bigint)sql"},
          {"due(core, signs)",
           R"sql(least(greatest({core}.terminal_at_ms, {core}.created_at_ms, {core}.started_at_ms,
                     {signs}.last_ms)::numeric
            + {own_age:{core}, {core}.policy}, 9223372036854775807)::bigint)sql"},
          {"due_by_flow(flow)",
           R"sql(least(greatest({flow}.created_at_ms,
                            CASE WHEN {flow}.raw_fields->>'last_mutation_at_ms' ~ '^[0-9]{1,15}$'
                                 THEN ({flow}.raw_fields->>'last_mutation_at_ms')::bigint END)::numeric
                       + {own_age:{flow}, NULL::jsonb}, 9223372036854775807)::bigint)sql"},
          {"remove(table)",
           R"sql({table}_removed AS (
  DELETE FROM {schema}.{table} x
   USING gone g
   WHERE {in_partitions:x} AND {same_execution:x, g}
  RETURNING 1
))sql"},
          {"removed",
           count_of({"shortened", "ff_stream_frame_removed", "ff_stream_meta_removed",
                     "ff_stream_summary_removed", "ff_attempt_removed", "ff_suspension_current_removed",
                     "ff_waitpoint_pending_removed", "ff_claim_grant_removed", "ff_completion_event_removed",
                     "ff_exec_core_removed"})},
          {"removed_of_flow",
           count_of({"ff_edge_removed", "ff_edge_group_removed", "ff_pending_cancel_groups_removed",
                     "ff_cancel_backlog_member_removed", "ff_flow_summary_removed", "ff_flow_core_removed"})},
          {"remove_of_flow(table)", std::string(kRemoveOfFlow)}};
}

std::vector<Privileges> privileges() {
  std::vector<Privileges> all{{"ff_cancel_backlog", "SELECT"}, {"ff_partition_config", "SELECT"}};
  all.reserve(19);
  for (const std::string_view table :
       {"ff_exec_core", "ff_flow_core", "ff_attempt", "ff_suspension_current", "ff_waitpoint_pending",
        "ff_claim_grant", "ff_completion_event", "ff_edge", "ff_edge_group", "ff_pending_cancel_groups",
        "ff_budget_usage_dedup", "ff_suspend_dedup"})
    all.push_back({table, "SELECT, UPDATE, DELETE"});
  for (const std::string_view table : {"ff_stream_frame", "ff_stream_meta", "ff_stream_summary",
                                       "ff_cancel_backlog_member", "ff_flow_summary"})
    all.push_back({table, "SELECT, DELETE"});
  return all;
}

}  // namespace ff::reconcile::remains
