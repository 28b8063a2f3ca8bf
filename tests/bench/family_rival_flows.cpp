#include "bench/family_rival.hpp"

// The reconcilers that follow the edges of a flow.

namespace ff::bench {
namespace {

// $4 flow, $5 downstream.
constexpr std::string_view kListGroups = R"sql(
SELECT flow_id, downstream_eid FROM ff_pending_cancel_groups
 WHERE partition_key = $1 AND enqueued_at_ms <= $2
 ORDER BY enqueued_at_ms LIMIT $3)sql";

constexpr std::string_view kClearGroup = R"sql(
UPDATE ff_edge_group
   SET cancel_siblings_pending_flag = false, cancel_siblings_pending_members = '{}'
 WHERE partition_key = $1 AND flow_id = $4::uuid AND downstream_eid = $5::uuid)sql";

constexpr std::string_view kDeletePending = R"sql(
DELETE FROM ff_pending_cancel_groups
 WHERE partition_key = $1 AND flow_id = $4::uuid AND downstream_eid = $5::uuid)sql";

// $6 members; then for each of them $7 execution, $8 attempt, and what it has of a lease.
RowByRow edge_cancel_dispatcher() {
  const std::vector<Step> cancel_sibling{
      {R"sql(
UPDATE ff_exec_core
   SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
       public_state = 'cancelled', attempt_state = 'cancelled', terminal_at_ms = coalesce(terminal_at_ms, $2),
       cancellation_reason = coalesce(cancellation_reason, 'sibling_quorum_satisfied'),
       cancelled_by = coalesce(cancelled_by, 'engine'),
       raw_fields = raw_fields || jsonb_build_object('last_mutation_at', $2::text)
 WHERE partition_key = $1 AND execution_id = $7::uuid)sql"},
      {R"sql(
UPDATE ff_attempt
   SET outcome = 'cancelled', lease_expires_at_ms = NULL, lease_epoch = lease_epoch + 1, terminal_at_ms = $2
 WHERE partition_key = $1 AND execution_id = $7::uuid AND attempt_index = $8::integer)sql",
       {"leased", "released"}},
      {R"sql(
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag)
SELECT execution_id::text, 'revoked', $2, partition_key, raw_fields->>'namespace',
       raw_fields->'tags'->>'cairn.instance_id'
  FROM ff_exec_core WHERE partition_key = $1 AND execution_id = $7::uuid)sql",
       {"leased"}},
      {"DELETE FROM ff_suspension_current WHERE partition_key = $1 AND execution_id = $7::uuid"},
      {"DELETE FROM ff_waitpoint_pending WHERE partition_key = $1 AND execution_id = $7::uuid"},
      {R"sql(
INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms)
SELECT partition_key, execution_id, flow_id, 'cancelled', raw_fields->>'namespace',
       raw_fields->'tags'->>'cairn.instance_id', $2
  FROM ff_exec_core WHERE partition_key = $1 AND execution_id = $7::uuid)sql"}};
  return {.name = "edge_cancel_dispatcher",
          .list = kListGroups,
          .steps = {{R"sql(
SELECT cancel_siblings_pending_members FROM ff_edge_group
 WHERE partition_key = $1 AND flow_id = $4::uuid AND downstream_eid = $5::uuid AND cancel_siblings_pending_flag
   FOR UPDATE SKIP LOCKED)sql",
                     {},
                     {{R"sql(
SELECT c.execution_id, c.attempt_index,
       CASE WHEN a.execution_id IS NULL THEN 'unclaimed' WHEN a.lease_expires_at_ms IS NULL THEN 'released'
            ELSE 'leased' END
  FROM ff_exec_core c
  LEFT JOIN ff_attempt a ON a.partition_key = $1 AND a.execution_id = c.execution_id
                        AND a.attempt_index = c.attempt_index
 WHERE c.partition_key = $1 AND c.execution_id = ANY($6::uuid[]) AND c.lifecycle_phase NOT IN ('terminal', 'cancelled')
   FOR UPDATE OF c)sql",
                       {},
                       cancel_sibling},
                      {kClearGroup},
                      {kDeletePending}}}},
          .page = 50};
}

RowByRow edge_cancel_reconciler() {
  return {.name = "edge_cancel_reconciler",
          .list = kListGroups,
          .steps = {{R"sql(
SELECT CASE WHEN cancel_siblings_pending_flag THEN 'drained' ELSE 'stale' END
  FROM ff_edge_group
 WHERE partition_key = $1 AND flow_id = $4::uuid AND downstream_eid = $5::uuid
   AND NOT (cancel_siblings_pending_flag
            AND EXISTS (SELECT FROM ff_exec_core c
                         WHERE c.partition_key = $1 AND c.execution_id = ANY(cancel_siblings_pending_members::uuid[])
                           AND c.lifecycle_phase NOT IN ('terminal', 'cancelled')))
   FOR UPDATE SKIP LOCKED)sql",
                     {},
                     {{kClearGroup, {"drained"}}, {kDeletePending}}}},
          .page = 50};
}

// The counts of a group after an event, and what they mean. $9 success, $10 fail, $11 skip, $12 running.
constexpr std::string_view kJudgeGroup = R"sql(
SELECT success, fail, skip, running,
       CASE WHEN was_satisfied THEN 'was satisfied'
            WHEN satisfied AND kind IN ('any_of', 'quorum') AND NOT let_run THEN 'cancels the rest'
            WHEN satisfied THEN 'satisfied'
            WHEN impossible THEN 'impossible' ELSE 'undecided' END
  FROM (SELECT t.*,
               CASE kind WHEN 'any_of' THEN success >= 1 WHEN 'quorum' THEN success >= k
                         ELSE success = n AND n > 0 END AS satisfied,
               CASE kind WHEN 'any_of' THEN success_count >= 1 WHEN 'quorum' THEN success_count >= k
                         ELSE false END AS was_satisfied,
               CASE kind WHEN 'any_of' THEN fail + skip >= n AND n > 0 WHEN 'quorum' THEN success + running < k
                         ELSE fail + skip > 0 END AS impossible
          FROM (SELECT g.*, success + fail + skip + running AS n
                  FROM (SELECT coalesce(policy->>'kind', 'all_of') AS kind, coalesce((policy->>'k')::integer, 1) AS k,
                               coalesce(policy->>'on_satisfied', '') = 'let_run' AS let_run, success_count,
                               success_count + CASE $7 WHEN 'success' THEN 1 ELSE 0 END AS success,
                               skip_count + CASE $7 WHEN 'skipped' THEN 1 ELSE 0 END AS skip,
                               fail_count + CASE WHEN $7 IN ('success', 'skipped') THEN 0 ELSE 1 END AS fail,
                               greatest(running_count - 1, 0) AS running
                          FROM ff_edge_group
                         WHERE partition_key = $1 AND flow_id = $6::uuid AND downstream_eid = $8::uuid
                           FOR UPDATE) g) t) judged)sql";

// $5 execution, $6 flow, $7 outcome, $8 a downstream, $13 the verdict, $14 members to cancel.
RowByRow dependency() {
  const std::vector<Step> apply{{R"sql(
UPDATE ff_edge_group
   SET success_count = $9::integer, fail_count = $10::integer, skip_count = $11::integer,
       running_count = $12::integer
 WHERE partition_key = $1 AND flow_id = $6::uuid AND downstream_eid = $8::uuid)sql"},
                                {R"sql(
UPDATE ff_exec_core
   SET eligibility_state = 'eligible_now', public_state = 'waiting',
       lifecycle_phase = CASE WHEN lifecycle_phase = 'blocked' THEN 'runnable' ELSE lifecycle_phase END,
       raw_fields = raw_fields || jsonb_build_object('total_attempt_count', attempt_index::text)
 WHERE partition_key = $1 AND execution_id = $8::uuid
   AND lifecycle_phase IN ('submitted', 'runnable', 'blocked'))sql",
                                 {"satisfied", "cancels the rest"}},
                                {R"sql(
SELECT array_agg(DISTINCT c.execution_id::text)
  FROM ff_edge d
  JOIN ff_exec_core c ON c.partition_key = $1 AND c.execution_id = d.upstream_eid
 WHERE d.partition_key = $1 AND d.flow_id = $6::uuid AND d.downstream_eid = $8::uuid
   AND c.lifecycle_phase NOT IN ('terminal', 'cancelled') AND c.public_state <> 'skipped'
   AND c.execution_id <> $5::uuid
HAVING count(*) > 0)sql",
                                 {"cancels the rest"},
                                 {{R"sql(
INSERT INTO ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
VALUES ($1, $6::uuid, $8::uuid, $2) ON CONFLICT DO NOTHING)sql"},
                                  {R"sql(
UPDATE ff_edge_group
   SET cancel_siblings_pending_flag = true, cancel_siblings_pending_members = $14::text[]
 WHERE partition_key = $1 AND flow_id = $6::uuid AND downstream_eid = $8::uuid)sql"}}},
                                {R"sql(
UPDATE ff_exec_core
   SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
       attempt_state = 'attempt_terminal', public_state = 'skipped', terminal_at_ms = $2
 WHERE partition_key = $1 AND execution_id = $8::uuid AND lifecycle_phase NOT IN ('terminal', 'cancelled')
RETURNING raw_fields->>'namespace', raw_fields->'tags'->>'cairn.instance_id')sql",
                                 {"impossible"},
                                 {{R"sql(
INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms)
VALUES ($1, $8::uuid, $6::uuid, 'skipped', $14, $15, $2))sql"}}}};
  return {.name = "dependency",
          .list = R"sql(
SELECT event_id FROM ff_completion_event
 WHERE partition_key = $1 AND dispatched_at_ms IS NULL AND committed_at_ms <= $2
 ORDER BY committed_at_ms LIMIT $3)sql",
          .steps = {{R"sql(
SELECT execution_id, flow_id, outcome FROM ff_completion_event
 WHERE partition_key = $1 AND event_id = $4::bigint AND dispatched_at_ms IS NULL AND committed_at_ms <= $3
   FOR UPDATE SKIP LOCKED)sql",
                     {},
                     {{R"sql(
SELECT downstream_eid FROM ff_edge
 WHERE partition_key = $1 AND flow_id = $6::uuid AND upstream_eid = $5::uuid
   AND policy->>'edge_state' IS DISTINCT FROM 'pending'
 ORDER BY downstream_eid)sql",
                       {},
                       {{kJudgeGroup, {}, apply}}},
                      {R"sql(
UPDATE ff_completion_event SET dispatched_at_ms = $2
 WHERE partition_key = $1 AND event_id = $4::bigint)sql"}}}}};
}

// $4 flow, $5 downstream, $7 to $9 the counts, $10 whether all have succeeded. Of all_of and what can be satisfied only.
RowByRow group_recount() {
  return {.name = "group_recount",
          .list = R"sql(
SELECT g.flow_id, g.downstream_eid
  FROM ff_edge_group g
  JOIN ff_exec_core c ON c.partition_key = $1 AND c.execution_id = g.downstream_eid
 WHERE g.partition_key = $1 AND g.running_count > 0 AND NOT g.cancel_siblings_pending_flag
   AND c.lifecycle_phase IN ('submitted', 'runnable', 'blocked')
   AND (SELECT max(u.terminal_at_ms)
          FROM ff_edge d
          JOIN ff_exec_core u ON u.partition_key = $1 AND u.execution_id = d.upstream_eid
         WHERE d.partition_key = $1 AND d.flow_id = g.flow_id AND d.downstream_eid = g.downstream_eid
        HAVING bool_and(u.lifecycle_phase IN ('terminal', 'cancelled'))) <= $2
 LIMIT $3)sql",
          .steps = {{R"sql(
SELECT true FROM ff_edge_group
 WHERE partition_key = $1 AND flow_id = $4::uuid AND downstream_eid = $5::uuid AND running_count > 0
   FOR UPDATE SKIP LOCKED)sql",
                     {},
                     {{R"sql(
SELECT count(*) FILTER (WHERE e.outcome = 'success'), count(*) FILTER (WHERE e.outcome = 'skipped'),
       count(*) FILTER (WHERE e.outcome NOT IN ('success', 'skipped')),
       CASE WHEN bool_and(e.outcome = 'success') THEN 'satisfied' ELSE 'open' END
  FROM ff_edge d
 CROSS JOIN LATERAL (SELECT outcome
                       FROM ff_completion_event e
                      WHERE e.partition_key = $1 AND e.execution_id = d.upstream_eid AND e.outcome <> 'resumable'
                      ORDER BY e.event_id DESC
                      LIMIT 1) e
 WHERE d.partition_key = $1 AND d.flow_id = $4::uuid AND d.downstream_eid = $5::uuid)sql",
                       {},
                       {{R"sql(
UPDATE ff_edge_group
   SET success_count = $7::integer, skip_count = $8::integer, fail_count = $9::integer, running_count = 0
 WHERE partition_key = $1 AND flow_id = $4::uuid AND downstream_eid = $5::uuid)sql"},
                        {R"sql(
UPDATE ff_exec_core
   SET eligibility_state = 'eligible_now', public_state = 'waiting', lifecycle_phase = 'runnable',
       raw_fields = raw_fields || jsonb_build_object('total_attempt_count', attempt_index::text)
 WHERE partition_key = $1 AND execution_id = $5::uuid)sql",
                         {"satisfied"}}}}}}}};
}

}  // namespace

std::vector<RowByRow> flow_rivals() {
  return {dependency(), group_recount(), edge_cancel_dispatcher(), edge_cancel_reconciler()};
}

}  // namespace ff::bench
