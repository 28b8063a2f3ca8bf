#include "reconcile/family/ending.hpp"

#include "reconcile/with.hpp"

namespace ff::reconcile::ending {
namespace {

constexpr std::string_view kDoomed = R"sql({core}.partition_key, {core}.execution_id,
         {current_attempt:{core}} AS attempt_index,
         {core}.flow_id, clock.now_ms, {event_origin:{core}})sql";

constexpr std::string_view kHoldDoomed = R"sql(
doomed_attempt AS MATERIALIZED (
  SELECT a.partition_key, a.execution_id, a.attempt_index, a.lease_expires_at_ms,
         d.now_ms, d.name_space, d.instance_tag
    FROM doomed d
    JOIN {schema}.ff_attempt a ON {same_execution:a, d}
   WHERE {in_partitions:a}
     AND (a.attempt_index = d.attempt_index OR a.lease_expires_at_ms IS NOT NULL)
     FOR NO KEY UPDATE OF a SKIP LOCKED
),
doomed_suspension AS MATERIALIZED (
  SELECT s.partition_key, s.execution_id
    FROM doomed d
    JOIN {schema}.ff_suspension_current s ON {same_execution:s, d}
   WHERE {in_partitions:s}
     FOR UPDATE OF s SKIP LOCKED
),
doomed_waitpoint AS MATERIALIZED (
  SELECT w.partition_key, w.execution_id, w.waitpoint_id
    FROM doomed d
    JOIN {schema}.ff_waitpoint_pending w ON {same_execution:w, d}
   WHERE {in_partitions:w}
     FOR UPDATE OF w SKIP LOCKED
),
withheld AS MATERIALIZED (
  SELECT partition_key, execution_id
    FROM (SELECT a.partition_key, a.execution_id, a.attempt_index
            FROM doomed d
            JOIN {schema}.ff_attempt a ON {same_execution:a, d}
           WHERE {in_partitions:a}
             AND (a.attempt_index = d.attempt_index OR a.lease_expires_at_ms IS NOT NULL)
          EXCEPT
          SELECT partition_key, execution_id, attempt_index FROM doomed_attempt) attempt
   UNION ALL
  (SELECT s.partition_key, s.execution_id
     FROM doomed d
     JOIN {schema}.ff_suspension_current s ON {same_execution:s, d}
    WHERE {in_partitions:s}
   EXCEPT
   SELECT partition_key, execution_id FROM doomed_suspension)
   UNION ALL
  SELECT partition_key, execution_id
    FROM (SELECT w.partition_key, w.execution_id, w.waitpoint_id
            FROM doomed d
            JOIN {schema}.ff_waitpoint_pending w ON {same_execution:w, d}
           WHERE {in_partitions:w}
          EXCEPT
          SELECT partition_key, execution_id, waitpoint_id FROM doomed_waitpoint) waitpoint
),
endable AS MATERIALIZED (
  SELECT d.*, (d.partition_key, d.execution_id, d.attempt_index) IN (
                SELECT partition_key, execution_id, attempt_index
                  FROM doomed_attempt
                 WHERE lease_expires_at_ms IS NOT NULL) AS leased
    FROM doomed d
   WHERE (d.partition_key, d.execution_id) NOT IN (SELECT partition_key, execution_id FROM withheld)
     -- And where its event has a child to go to.
     AND {in_sight:ff_attempt, ff_suspension_current, ff_waitpoint_pending, ff_completion_event}
))sql";

constexpr std::string_view kClearWaiting = R"sql(ended_suspension AS (
  DELETE FROM {schema}.ff_suspension_current s
   USING {ended} e
   WHERE {in_partitions:s} AND {same_execution:s, e}
),
ended_waitpoint AS (
  DELETE FROM {schema}.ff_waitpoint_pending w
   USING {ended} e
   WHERE {in_partitions:w} AND {same_execution:w, e}
))sql";

constexpr std::string_view kEndExecutions = R"sql(
ended_core AS (
  UPDATE {schema}.ff_exec_core c
     SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
         attempt_state = e.attempt_state, public_state = e.public_state,
         terminal_at_ms = coalesce(c.terminal_at_ms, e.now_ms),
         -- The end of a delay would be the deadline of a run that an operator replays.
         deadline_at_ms = CASE WHEN c.lifecycle_phase = 'runnable' AND c.eligibility_state = 'not_eligible_until_time'
                                AND NOT {is_retry_or_resume:c}
                               THEN NULL ELSE c.deadline_at_ms END,
         cancellation_reason = e.cancellation_reason, cancelled_by = e.cancelled_by,
         raw_fields = {object:c.raw_fields} || e.raw_patch
    FROM ending e
   WHERE {in_partitions:c} AND {same_execution:c, e}
),
ended_attempt AS (
  UPDATE {schema}.ff_attempt a
     SET outcome = CASE WHEN a.attempt_index <> e.attempt_index THEN coalesce(a.outcome, 'interrupted')
                        WHEN a.lease_expires_at_ms IS NULL THEN coalesce(a.outcome, e.attempt_outcome)
                        ELSE coalesce(e.attempt_outcome, 'interrupted') END,
         terminal_at_ms = CASE WHEN a.attempt_index <> e.attempt_index THEN a.terminal_at_ms
                               WHEN a.lease_expires_at_ms IS NULL THEN coalesce(a.terminal_at_ms, e.now_ms)
                               ELSE e.now_ms END,
         lease_expires_at_ms = NULL, lease_epoch = a.lease_epoch + 1
    FROM ending e
   WHERE {in_partitions:a} AND {same_execution:a, e}
     AND (a.attempt_index = e.attempt_index AND e.attempt_outcome IS NOT NULL OR a.lease_expires_at_ms IS NOT NULL)
),
{clear_waiting:ending},
ending_lease_event AS (
  {lease_events:lease_event, ending WHERE leased}
),
ending_completion_event AS (
  {completion_events:public_state, ending}
))sql";

}  // namespace

std::vector<Fragment> phrases() {
  return {{"doomed(core)", std::string(kDoomed)},
          {"hold_doomed", std::string(kHoldDoomed)},
          {"end_executions", std::string(kEndExecutions)},
          {"clear_waiting(ended)", std::string(kClearWaiting)},
          // IS TRUE: a bare IN becomes a join, which compares each row with each.
          {"taken_leases(ended)",
           R"sql(doomed_attempt
   WHERE lease_expires_at_ms IS NOT NULL
     AND ((partition_key, execution_id) IN (SELECT partition_key, execution_id FROM {ended})) IS TRUE)sql"}};
}

std::vector<Privileges> privileges(const std::vector<Privileges>& beside) {
  return with<Privileges>({{"ff_exec_core", "SELECT, UPDATE"},
                           {"ff_attempt", "SELECT, UPDATE"},
                           {"ff_suspension_current", "SELECT, UPDATE, DELETE"},
                           {"ff_waitpoint_pending", "SELECT, UPDATE, DELETE"},
                           {"ff_lease_event", "INSERT"},
                           {"ff_completion_event", "INSERT"}},
                          beside);
}

}  // namespace ff::reconcile::ending
