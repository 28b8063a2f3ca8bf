#include "audit/phrases.hpp"

#include "reconcile/family/resume_condition.hpp"
#include "reconcile/phrases.hpp"

namespace ff::audit {
namespace {

// The core rows of all that have not ended, as c: by ff_exec_core_lane_phase_idx, lane by lane, so that what has ended
// costs nothing.
constexpr std::string_view kLiving = R"sql((
    WITH RECURSIVE {lanes}
    SELECT r.*
      FROM lanes
     CROSS JOIN LATERAL (SELECT i.*, i.xmin
                           FROM {schema}.ff_exec_core i
                          WHERE {in_partitions:i} AND i.partition_key = lanes.partition_key
                            AND i.lane_id = ANY (lanes.lane_ids)
                            AND i.lifecycle_phase IN ('submitted', 'runnable', 'active', 'suspended', 'blocked')
                         OFFSET 0) r
  ) c)sql";

// A part of its condition, each of which has to be satisfied, names no waitpoint that is open, and none of its signals has
// come; or nothing at all is open. What waits for an operator or a time-out waits for that, and a waitpoint that has
// lost its key gets it back.
constexpr std::string_view kIsOutOfReach = R"sql((
  (EXISTS (SELECT
             FROM jsonb_path_query(s.condition, '$.** ? (exists (@.waitpoint_key) || exists (@.waitpoints))') AS part
            WHERE NOT EXISTS (SELECT
                                FROM {schema}.ff_waitpoint_pending w
                               WHERE {in_partitions:w} AND {same_execution:w, s}
                                 AND (part->>'waitpoint_key' = w.waitpoint_key OR part->'waitpoints' ? w.waitpoint_key))
              AND NOT EXISTS (SELECT
                                FROM jsonb_each({object:s.member_map}) AS m(key, value)
                               CROSS JOIN LATERAL jsonb_array_elements(
                                 CASE WHEN jsonb_typeof(m.value) = 'array' THEN m.value ELSE '[]' END) AS signal
                               WHERE (part->>'waitpoint_key' = m.key OR part->'waitpoints' ? m.key)
                                 AND coalesce(part->'matcher'->>'ByName', signal->>'signal_name') = signal->>'signal_name'))
   OR NOT EXISTS (SELECT
                    FROM {schema}.ff_waitpoint_pending w
                   WHERE {in_partitions:w} AND {same_execution:w, s})
      AND NOT s.condition @? '$.** ? (@ == "OperatorOnly" || @ == "TimeoutOnly")')
  AND NOT EXISTS (SELECT
                    FROM {schema}.ff_waitpoint_pending w
                   WHERE {in_partitions:w} AND {same_execution:w, s} AND {is_without_its_key})))sql";

// The whole, and each member of an AllOf, as serde reads it: a word, a Single or a Composite.
constexpr std::string_view kIsUnreadable = R"sql(EXISTS (
  SELECT
    FROM (SELECT {condition} AS it
           UNION ALL
          SELECT jsonb_path_query({condition}, '$.**.members[*]')) part
   CROSS JOIN LATERAL (SELECT part.it->'Composite' AS body,
                              coalesce(part.it->'Single'->'matcher', part.it->'Composite'->'matcher', 'null') AS matcher) p
   WHERE (part.it IN ('"OperatorOnly"', '"TimeoutOnly"')
          OR (SELECT count(*) FROM jsonb_object_keys({object:part.it})) = 1
             AND (p.matcher = '"Wildcard"' OR jsonb_typeof(p.matcher->'ByName') = 'string'
                  OR p.matcher = 'null' AND part.it ? 'Composite')
             AND CASE WHEN part.it ? 'Single' THEN jsonb_typeof(part.it->'Single'->'waitpoint_key') = 'string'
                      WHEN p.body->>'kind' = 'AllOf' THEN jsonb_typeof(p.body->'members') = 'array'
                      WHEN p.body->>'kind' = 'Count'
                      THEN p.body->>'count_kind' IN ('DistinctWaitpoints', 'DistinctSignals', 'DistinctSources')
                           AND {whole_number_or:-1, p.body->'n'} >= 0 AND jsonb_typeof(p.body->'waitpoints') = 'array'
                           AND NOT p.body @? '$.waitpoints[*] ? (@.type() != "string")' END) IS NOT TRUE))sql";

const std::vector<Fragment>& of_executions() {
  static const std::vector<Fragment> all{
      {"now", "(SELECT now_ms FROM clock)"},
      {"long_ago", "(SELECT now_ms - 60000 FROM clock)"},

      {"living", std::string(kLiving)},

      // The core row that a column of a row names, to be joined ON true, and its version as `seen`.
      {"core(row, column)",
       R"sql(LATERAL (SELECT e.*, e.xmin AS seen
                   FROM {schema}.ff_exec_core e
                  WHERE {in_partitions:e} AND e.partition_key = {row}.partition_key AND e.execution_id = {row}.{column}
                 OFFSET 0))sql"},
      {"not_replayed(core)", "NOT coalesce({object:{core}.raw_fields} ? 'replay_count', false)"},

      // When the delay of a delayed execution ends: a back-off has its end elsewhere.
      {"delay_ends_at(core)",
       R"sql(CASE WHEN {core}.public_state = 'delayed' AND {core}.blocking_reason = 'waiting_for_retry_backoff'
                      AND {core}.attempt_state = 'pending_retry_attempt'
                 THEN {moment:{core}.raw_fields->>'delay_until'} ELSE {core}.deadline_at_ms END)sql"},

      // "An attempt after this one has a lease that ends at that moment or later."
      {"later_lease(row, from)",
       R"sql(EXISTS (SELECT
                 FROM {schema}.ff_attempt i
                WHERE {in_partitions:i} AND i.partition_key = {row}.partition_key
                  AND i.execution_id = {row}.execution_id AND i.attempt_index > {row}.attempt_index
                  AND i.lease_expires_at_ms >= {from}))sql"},
  };
  return all;
}

const std::vector<Fragment>& of_suspensions() {
  static const std::vector<Fragment> all{
      // "An active waitpoint w of this suspension has lost its key": see stray_waitpoint.
      {"is_without_its_key",
       R"sql(w.state = 'active' AND w.waitpoint_key = '' AND w.activated_at_ms = s.suspended_at_ms
          AND {lost_key:w, s} IS NOT NULL)sql"},
      // "FlowFabric cannot read this condition": a part of it is none of its ResumeCondition's.
      {"is_unreadable(condition)", std::string(kIsUnreadable)},
      // "No signal can satisfy what this suspension s waits for."
      {"is_out_of_reach", std::string(kIsOutOfReach)}};
  return all;
}

const std::vector<Fragment>& of_flows() {
  static const std::vector<Fragment> all{
      // FlowFabric stages an edge, and applies it later: until then it is in no counts.
      {"staged(edge)", "NOT ({is_applied:{edge}})"},
      {"has_staged(group)",
       R"sql(EXISTS (SELECT
                 FROM {schema}.ff_edge o
                WHERE {in_partitions:o} AND o.partition_key = {group}.partition_key AND o.flow_id = {group}.flow_id
                  AND o.downstream_eid = {group}.downstream_eid AND {staged:o}))sql"},
      {"told(core)",
       R"sql(EXISTS (SELECT
                 FROM {schema}.ff_completion_event t
                WHERE {in_partitions:t} AND t.partition_key = {core}.partition_key
                  AND t.execution_id = {core}.execution_id AND t.outcome <> 'resumable'))sql"},

      // The upstream of an edge, as a fan-in counts it, and whether that is so new, or so unclear, that a count may differ:
      // FlowFabric marks an event in one transaction and applies it in another.
      {"upstream(edge)",
       R"sql(LATERAL (SELECT concat_ws('.', e.xmin, v.xmin) AS seen, NOT {not_replayed:e} AS replayed,
                        CASE WHEN {has_not_ended:e} THEN 'running' WHEN v.outcome = 'success' THEN 'success'
                             WHEN v.outcome = 'skipped' THEN 'skip' ELSE 'fail' END AS word,
                        {has_ended:e} AND v.event_id IS NULL OR v.dispatched_at_ms >= {long_ago}
                          OR EXISTS (SELECT
                                       FROM {schema}.ff_completion_event n
                                      WHERE {in_partitions:n} AND n.partition_key = e.partition_key
                                        AND n.execution_id = e.execution_id AND n.dispatched_at_ms IS NULL
                                        AND n.outcome <> 'resumable') AS is_new
                   FROM {schema}.ff_exec_core e
                   LEFT JOIN LATERAL (SELECT i.xmin, i.event_id, i.outcome, i.dispatched_at_ms
                                        FROM {schema}.ff_completion_event i
                                       WHERE {in_partitions:i} AND i.partition_key = e.partition_key
                                         AND i.execution_id = e.execution_id AND i.outcome <> 'resumable'
                                       ORDER BY i.event_id DESC
                                       LIMIT 1) v ON true
                  WHERE {in_partitions:e} AND e.partition_key = {edge}.partition_key
                    AND e.execution_id = {edge}.upstream_eid
                 OFFSET 0))sql"},

      // Its last attempt began long ago: one that has only just begun to wait is woken within seconds.
      {"waits_long(core)",
       R"sql(NOT EXISTS (SELECT
                     FROM {schema}.ff_attempt i
                    WHERE {in_partitions:i} AND i.partition_key = {core}.partition_key
                      AND i.execution_id = {core}.execution_id AND i.started_at_ms >= {long_ago}))sql"},
  };
  return all;
}

}  // namespace

Fragments phrases(const Partitions& partitions) {
  std::string keys;
  for (const PartitionKey each : partitions) keys += (keys.empty() ? "" : ",") + std::to_string(each.value);
  const std::string in = partitions.empty() ? "false" : reconcile::in_partitions("{row}", partitions);
  Fragments all = reconcile::phrases();
  all.add(reconcile::resume_condition::phrases()).add(of_executions()).add(of_suspensions()).add(of_flows());
  all.add({"in_partitions(row)", in}).add({"partitions", "'{" + keys + "}'::smallint[]"});
  return all;
}

Fragments words() {
  Fragments all;
  all.add({
      {"of_it", "WHERE partition_key = {$partition_key} AND execution_id = '{$key}'"},
      {"of_attempt", "{of_it} AND attempt_index = {$attempt_index}"},
      // "It is active, and by this attempt, after which there is none, and no other has a lease." A typed claim leaves
      // the core's index one higher than the attempt's.
      {"is_at_work_on_it_alone",
       "lifecycle_phase = 'active' AND attempt_index IN ({$attempt_index}, {$attempt_index} + 1) AND NOT "
       "EXISTS "
       "(SELECT FROM ff_attempt a WHERE a.partition_key = {$partition_key} AND a.execution_id = '{$key}' AND "
       "(a.attempt_index > {$attempt_index} OR a.lease_expires_at_ms IS NOT NULL))"},
      {"of_waitpoint", "WHERE partition_key = {$partition_key} AND waitpoint_id = '{$waitpoint_id}'"},
      {"of_edge",
       "WHERE partition_key = {$partition_key} AND flow_id = '{$flow_id}' AND edge_id = '{$edge_id}'"},
      {"of_group",
       "WHERE partition_key = {$partition_key} AND flow_id = '{$flow_id}' AND downstream_eid = '{$key}'"},
      {"core_set(assignments)", "UPDATE ff_exec_core SET {assignments} {of_it}"},
      {"core(assignments)", "{core_set:{assignments}};"},
      // How a downstream that waits goes on, how an execution is put back into the queue, and how it is ended, by hand.
      {"eligible",
       "lifecycle_phase = 'runnable', eligibility_state = 'eligible_now', public_state = 'waiting'"},
      {"waits",
       "lifecycle_phase = 'runnable', ownership_state = 'unowned', eligibility_state = 'eligible_now', "
       "public_state = "
       "'waiting', attempt_state = 'pending_retry_attempt', terminal_at_ms = NULL"},
      {"ended",
       "ownership_state = 'unowned', eligibility_state = 'not_applicable', attempt_state = "
       "'attempt_terminal', "
       "terminal_at_ms = coalesce(terminal_at_ms, floor(extract(epoch FROM clock_timestamp()) * "
       "1000)::bigint)"},
      {"tick(reconciler)", "ff-reconcilerd tick {reconciler} --execution '{$id}'"},
  });
  return all;
}

}  // namespace ff::audit
