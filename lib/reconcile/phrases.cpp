#include "reconcile/phrases.hpp"

#include <fmt/format.h>

#include "lease/outbox.hpp"
#include "reconcile/family/ending.hpp"
#include "reconcile/family/fan_in.hpp"
#include "reconcile/family/let_finish.hpp"
#include "reconcile/family/replay.hpp"

namespace ff::reconcile {
namespace {

// Names the lanes of each partition, one by one along ff_exec_core_lane_phase_idx, and gives them as one row a partition.
constexpr std::string_view kLanes = R"sql(lane AS (
      SELECT p.partition_key, (SELECT l.lane_id
                                 FROM {schema}.ff_exec_core l
                                WHERE {in_partitions:l} AND l.partition_key = p.partition_key
                                ORDER BY l.lane_id
                                LIMIT 1) AS lane_id
        FROM unnest({partitions}) AS p(partition_key)
       UNION ALL
      SELECT p.partition_key, (SELECT l.lane_id
                                 FROM {schema}.ff_exec_core l
                                WHERE {in_partitions:l} AND l.partition_key = p.partition_key
                                  AND l.lane_id > p.lane_id
                                ORDER BY l.lane_id
                                LIMIT 1)
        FROM lane p
       WHERE p.lane_id IS NOT NULL
    ),
    lanes AS MATERIALIZED (SELECT partition_key, array_agg(lane_id) AS lane_ids FROM lane GROUP BY partition_key))sql";

// The executions that gave up or lost a lease in the last seconds, by those of the newest ten thousand events that are
// of these partitions. They make one row a partition: it is looked for once for each. Compared as rows, because
// otherwise the planner reads the newest events of all partitions for each of them.
constexpr std::string_view kLatelyReleased = R"sql((
    WITH announced AS MATERIALIZED (
      SELECT mine.partition_key, e.execution_ids
        FROM unnest({partitions}) AS mine(partition_key)
       CROSS JOIN LATERAL (
         SELECT array_agg(DISTINCT newest.execution_id) AS execution_ids
           FROM (SELECT l.execution_id, l.event_type, l.occurred_at_ms
                   FROM {schema}.ff_lease_event l
                  WHERE (l.partition_key, l.event_id)
                          > (mine.partition_key, (SELECT max(m.event_id) FROM {schema}.ff_lease_event m) - 10000)
                    AND (l.partition_key, l.event_id) <= (mine.partition_key, 9223372036854775807)
                  ORDER BY l.partition_key DESC, l.event_id DESC
                  LIMIT 10000) newest
          WHERE newest.event_type IN ('revoked', 'expired')
            AND newest.occurred_at_ms > (SELECT now_ms FROM clock) - 10000
       ) e
    )
    SELECT announced.partition_key, {uuid:e.execution_id} AS execution_id
      FROM announced
     CROSS JOIN LATERAL unnest(announced.execution_ids) AS e(execution_id)
  ))sql";

// "The delay of this delayed execution is no worker's": that of a retry with backoff, or of an operator's resume, which
// leave deadline_at_ms alone. They are told by blocking_reason, but it is never cleared, and claim_from_resume_grant leaves
// public_state as well: it counts unless the attempt has been interrupted by its worker's delay since, which would have
// written a deadline_at_ms.
constexpr std::string_view kIsRetryOrResume = R"sql(({core}.public_state = 'delayed'
      AND coalesce({core}.blocking_reason, '') IN ('waiting_for_retry_backoff', 'waiting_for_resume_delay')
      AND ({core}.attempt_state = 'pending_retry_attempt' OR {core}.deadline_at_ms IS NULL
           OR (SELECT i.outcome
                 FROM {schema}.ff_attempt i
                WHERE {in_partitions:i} AND {same_execution:i, {core}}
                ORDER BY i.attempt_index DESC
                LIMIT 1) IS DISTINCT FROM 'interrupted')))sql";

// "No hash child of these tables is out of sight, as one is that was detached: what is not there is nowhere." Asked beside
// each conclusion from rows that are missing, unless nothing follows from it but that nothing is done. A table without hash
// children is always in sight.
//
// The catalogue is read as the statement sees it from its beginning, behind its locks on the tables: under these no child is
// detached, and who detaches one concurrently first says so (inhdetachpending) and then waits for them. What is attached between
// the making of a plan and that beginning, a matter of microseconds, is taken for seen.
//
// All rows of a partition are in one child, and all of a plan reads the same children of a table: what a row of the same
// table and partition stands beside is in sight anyway, and needs no such question.
//
// Nothing in it is of a row: it is asked once a statement, and by AND or OR behind what a row says, or in a CASE, only when
// it is needed. Where the first and the last child have as modulus how many there are, as FlowFabric's have, that is enough, and
// takes less than a tenth of a millisecond for 256. Each look-up goes by an index whatever the planner believes. pg_get_expr with 0,
// or it locks the child.
constexpr std::string_view kInSight = R"sql((
    SELECT pg_catalog.bool_and(coalesce(
             CASE WHEN (SELECT p.partstrat FROM pg_catalog.pg_partitioned_table p WHERE p.partrelid = its.id)
                       IS DISTINCT FROM 'h'
                  THEN its.id IS NOT NULL
                  ELSE (SELECT CASE WHEN children.count = {modulus_of:children.first}::bigint
                                     AND children.count = {modulus_of:children.last}::bigint
                                    THEN true
                                    ELSE (SELECT pg_catalog.sum(1 / {modulus_of:h.inhrelid}::pg_catalog.float8) > 0.999999
                                            FROM pg_catalog.pg_inherits h
                                           WHERE h.inhparent = its.id AND NOT h.inhdetachpending) END
                          FROM (SELECT pg_catalog.count(*), pg_catalog.min(h.inhrelid) AS first, pg_catalog.max(h.inhrelid) AS last
                                  FROM pg_catalog.pg_inherits h
                                 WHERE h.inhparent = its.id AND NOT h.inhdetachpending) children) END, false))
      FROM (SELECT pg_catalog.to_regclass({schema_text} || name) AS id
              FROM pg_catalog.unnest(pg_catalog.string_to_array('{tables}', ', ')) AS each(name)
            OFFSET 0) its))sql";

constexpr std::string_view kModulusOf = R"sql(pg_catalog.split_part(pg_catalog.split_part(
                            (SELECT pg_catalog.pg_get_expr(k.relpartbound, 0)
                               FROM pg_catalog.pg_class k
                              WHERE k.oid = {child}), 'modulus ', 2), ',', 1))sql";

// "The execution of this row is no more." Row by row, and the children are asked for only where it is not found.
constexpr std::string_view kHasNoCore = R"sql(CASE WHEN (SELECT true
                    FROM {schema}.ff_exec_core e
                   WHERE {in_partitions:e} AND {same_execution:e, {row}}
                   LIMIT 1) IS NULL
          THEN {in_sight:ff_exec_core} ELSE false END)sql";

const std::vector<Fragment>& of_executions() {
  static const std::vector<Fragment> all{
      // "The row found is of the execution that this column of another row names", and "of the same one".
      {"found_by(found, row, column)",
       "{found}.partition_key = {row}.partition_key AND {found}.execution_id = {row}.{column}"},
      {"same_execution(found, row)", "{found_by:{found}, {row}, execution_id}"},

      // The core row of the execution of a row, as something to join with ON true. It is looked up by its key, row by
      // row: without the barrier in it, a planner whose statistics are stale may read the whole table instead.
      {"core_of(row)", "{core_by:{row}, execution_id}"},
      // The same where another column of the row names the execution.
      {"core_by(row, column)",
       R"sql(LATERAL (SELECT *
                     FROM {schema}.ff_exec_core e
                    WHERE {in_partitions:e} AND {found_by:e, {row}, {column}}
                   OFFSET 0))sql"},

      // One that is only staged is in no fan-in's counts.
      {"is_applied(edge)", "{edge}.policy->>'edge_state' IS DISTINCT FROM 'pending'"},

      {"has_ended(core)", "{core}.lifecycle_phase IN ('terminal', 'cancelled')"},
      {"has_not_ended(core)", "{core}.lifecycle_phase NOT IN ('terminal', 'cancelled')"},

      // "The execution is one that the scanner filter asks for." False for a core row that is missing (all null) as
      // soon as the filter asks for anything. A tag is compared as JSON text: the number 5 is not the text "5", as for
      // FlowFabric's own filter.
      {"filter(core)",
       R"sql(({namespace} IS NULL OR {core}.raw_fields->>'namespace' = {namespace})
     AND ({tag_key} IS NULL OR {core}.raw_fields->'tags'->{tag_key} = to_jsonb({tag_value})))sql"},
      // The same for a core row that is missing.
      {"no_filter", "{namespace} IS NULL AND {tag_key} IS NULL"},

      {"lanes", std::string(kLanes)},
      // The core rows of executions in these phases ("'suspended', 'runnable'"), found by ff_exec_core_lane_phase_idx,
      // as something to select from: the lanes of each partition one after the other, and of each those phases. So what
      // has ended costs nothing, however much of it there is. The lanes make one row a partition: it is looked for once
      // for each.
      {"by_lane(phases)",
       R"sql((
    WITH RECURSIVE {lanes}
    SELECT lanes.partition_key, r.execution_id, r.flow_id, r.lifecycle_phase, r.ownership_state, r.eligibility_state,
           r.public_state, r.attempt_state, r.attempt_index, r.blocking_reason, r.created_at_ms, r.terminal_at_ms,
           r.deadline_at_ms, r.cancelled_by, r.raw_fields
      FROM lanes
     CROSS JOIN LATERAL (SELECT *
                           FROM {schema}.ff_exec_core r
                          WHERE {in_partitions:r} AND r.partition_key = lanes.partition_key
                            AND r.lane_id = ANY (lanes.lane_ids) AND r.lifecycle_phase IN ({phases})
                         OFFSET 0) r
  ))sql"},
      {"runnable_by_lane", "{by_lane:'runnable'}"},
      {"waiting_by_lane", "{by_lane:'submitted', 'runnable', 'blocked'}"},
      {"lately_released", std::string(kLatelyReleased)},
  };
  return all;
}

/// Which attempt of an execution it is about.
const std::vector<Fragment>& of_attempts() {
  static const std::vector<Fragment> all{
      // The attempt_index of the current attempt of an execution: of an active one the greatest that holds a lease;
      // where none does, or it is not active, the greatest. Null: it has no attempt. The core's own attempt_index does
      // not tell: FlowFabric's typed claims set it one higher than the attempt they lease.
      //
      // Attempts are seen as the statement has seen them from its beginning. A core row that is locked must be
      // `as_seen`, too; then none was claimed since.
      {"current_attempt(core)",
       R"sql((SELECT i.attempt_index
            FROM {schema}.ff_attempt i
           WHERE {in_partitions:i} AND {same_execution:i, {core}}
           ORDER BY ({core}.lifecycle_phase = 'active' AND i.lease_expires_at_ms IS NOT NULL) DESC,
                    i.attempt_index DESC
           LIMIT 1))sql"},

      // Both bounds, because the planner would not use the index for one.
      {"has_not_lapsed(attempt)",
       R"sql({attempt}.lease_expires_at_ms > (SELECT now_ms FROM clock)
     AND {attempt}.lease_expires_at_ms <= 9223372036854775807)sql"},

      // A JOIN that keeps a locked core row only where it still is the very version that this statement has seen from
      // its beginning. Every claim, suspension and end writes the core row, so that the execution's attempts,
      // suspension and waitpoints are then those that the statement sees. A row that goes missing by it is met again
      // at a later scan.
      {"as_seen(core)",
       R"sql(JOIN {schema}.ff_exec_core seen ON {in_partitions:seen} AND {same_execution:seen, {core}}
                                     AND seen.xmin = {core}.xmin)sql"},
  };
  return all;
}

/// What an execution that is given back is claimed by, and who has been promised it.
const std::vector<Fragment>& of_claims() {
  static const std::vector<Fragment> all{
      // The attempt_index at which an execution that is given back is claimed next, by its core row `as_seen`: one that
      // was interrupted continues its current attempt, any other starts what the core says.
      {"next_attempt(core)",
       R"sql(CASE WHEN {core}.attempt_state = 'attempt_interrupted'
              THEN coalesce({current_attempt:{core}}, {core}.attempt_index)
              ELSE {core}.attempt_index END)sql"},

      // A JSON object to merge into a core's raw_fields when the execution is given back: FlowFabric's SDK claims at
      // the index that stands there, as text.
      {"attempt_count(index)", "jsonb_build_object('total_attempt_count', ({index})::text)"},

      {"is_retry_or_resume(core)", std::string(kIsRetryOrResume)},

      // How often lease_expiry has given this attempt back in the present run of its execution: an operator's replay begins
      // another in the same row, and so does a retry after fail_execution.
      {"reclaims_of_run(attempt, core)",
       R"sql(CASE WHEN {attempt}.raw_fields->>'reclaimed_in_replay' IS NOT DISTINCT FROM {core}.raw_fields->>'replay_count'
               AND {attempt}.raw_fields->>'reclaimed_in_retry' IS NOT DISTINCT FROM {core}.raw_fields->>'retry_count'
              THEN {whole_number:{attempt}.raw_fields->'lease_reclaims'} ELSE 0 END)sql"},

      // "Somebody has been promised the execution of this row": an unexpired grant to reclaim it is out. FlowFabric's
      // reclaim asks only that the execution has not ended, so two workers would hold what is given to another. A grant
      // is written under a lock on the core row, but leaves that row as it was: so `act` asks, and `forbidden` once
      // more. A scan does not: like a lock, a promise holds a row that is due, and whoever leaves it comes again soon.
      //
      // Neither a join nor a search by time, whatever the planner believes about the grants: they are looked up by the
      // execution, row by row. While some of them are out of sight, everybody may be promised.
      {"promised(row)",
       R"sql(((SELECT true
                FROM {schema}.ff_claim_grant g
               WHERE {in_partitions:g} AND {same_execution:g, {row}} AND g.kind = 'reclaim'
                 AND g.expires_at_ms + 0 > (SELECT now_ms FROM clock)
               LIMIT 1) IS NOT NULL
          OR NOT {in_sight:ff_claim_grant}))sql"},
  };
  return all;
}

/// What never raises an error, whatever somebody has written into a row.
const std::vector<Fragment>& of_values() {
  static const std::vector<Fragment> all{
      // The value of a JSON expression where it is a whole number from 0 to 4294967295, else 0 or `otherwise`. Ten
      // digits always fit a bigint, so the cast cannot fail; 3.0 and 1e400 are JSON numbers but no digits only.
      {"whole_number(json)", "{whole_number_or:0, {json}}"},
      {"whole_number_or(otherwise, json)",
       R"sql(CASE WHEN jsonb_typeof({json}) = 'number' AND ({json})::text ~ '^[0-9]{1,10}$'
               AND ({json})::text::bigint <= 4294967295
              THEN ({json})::text::bigint ELSE {otherwise} END)sql"},
      // The moment, or the span in ms, that a text expression spells, null where it spells none. What does not fit a bigint
      // is the greatest there is.
      {"moment(text)",
       "CASE WHEN {text} ~ '^[0-9]{1,19}$' THEN least(({text})::numeric, 9223372036854775807)::bigint END"},
      // The uuid that a text expression spells, null where it spells none.
      {"uuid(text)",
       "CASE WHEN {text} ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN ({text})::uuid END"},
      // The value of a JSON expression where it is an object, else an empty object.
      {"object(json)", "CASE WHEN jsonb_typeof({json}) = 'object' THEN ({json}) ELSE '{}'::jsonb END"},
  };
  return all;
}

/// Moments.
const std::vector<Fragment>& of_time() {
  static const std::vector<Fragment> all{
      // A moment that only says since when a row is due. Where a fast clock has dated it in the future, it is due all
      // the same: since the last full hour, and not since now, because for each page of a tick it has to be the same
      // moment, or one row that is left where it is would be met again and again.
      {"not_later(moment)",
       R"sql(CASE WHEN {moment} <= (SELECT now_ms FROM clock) THEN {moment}
              ELSE (SELECT now_ms - now_ms % 3600000 FROM clock) END)sql"},
      // Where nothing tells since when a row is due: since it has been seen, to half a minute, for the same reason.
      {"lately", "(SELECT now_ms - now_ms % 30000 FROM clock)"},
  };
  return all;
}

/// INSERTs that append one event to an outbox for each row of a source.
const std::vector<Fragment>& of_events() {
  static const std::vector<Fragment> all{
      // Two columns, name_space and instance_tag, as every event carries them.
      {"event_origin(core)",
       R"sql({core}.raw_fields->>'namespace' AS name_space,
         {core}.raw_fields->'tags'->>'cairn.instance_id' AS instance_tag)sql"},
      // The end of an execution. The source has partition_key, execution_id, flow_id, now_ms, name_space and
      // instance_tag; the outcome is an expression.
      {"completion_events(outcome, source)", "{completion_events_of:flow_id, {outcome}, {source}}"},
      // The same with another expression for the flow.
      {"completion_events_of(flow, outcome, source)",
       R"sql(INSERT INTO {schema}.ff_completion_event
    (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms)
  SELECT partition_key, execution_id, {flow}, {outcome}, name_space, instance_tag, now_ms
    FROM {source})sql"},
      {"lease_events(type, source)", std::string(lease::kAppendEvents)},
  };
  return all;
}

}  // namespace

const Fragments& phrases() {
  static const Fragments all = [] {
    Fragments made;
    made.add(of_executions())
        .add(of_attempts())
        .add(of_claims())
        .add(of_values())
        .add(of_time())
        .add(of_events())
        .add(ending::phrases())
        .add(fan_in::phrases())
        .add(replay::phrases())
        .add(let_finish::phrases());
    made.add(Fragment{"in_sight(tables)", std::string(kInSight)})
        .add(Fragment{"modulus_of(child)", std::string(kModulusOf)})
        .add(Fragment{"has_no_core(row)", std::string(kHasNoCore)});
    // Filled in by the connection, which knows where it is connected.
    made.add(Fragment{"schema", "{schema}"}).add(Fragment{"schema_text", "{schema_text}"});
    return made;
  }();
  return all;
}

std::string in_partitions(std::string_view row, const Partitions& partitions) {
  std::string keys;
  for (const PartitionKey each : partitions) keys += (keys.empty() ? "" : ",") + std::to_string(each.value);
  if (partitions.size() == 1) return fmt::format("{}.partition_key = {}::smallint", row, keys);
  return fmt::format("({0}.partition_key = ANY('{{{1}}}'::smallint[]) OR {0}.partition_key = {2}::smallint)",
                     row, keys, partitions.front().value);
}

}  // namespace ff::reconcile
