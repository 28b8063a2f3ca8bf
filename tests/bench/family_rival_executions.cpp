#include "bench/family_rival.hpp"

// The reconcilers that move executions by a time of their own, and the one of their waitpoints. $4 is the execution or
// the waitpoint.

namespace ff::bench {
namespace {

constexpr std::string_view kLeaseExpired = R"sql(
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag)
SELECT execution_id::text, 'expired', $2, partition_key, raw_fields->>'namespace',
       raw_fields->'tags'->>'cairn.instance_id'
  FROM ff_exec_core WHERE partition_key = $1 AND execution_id = $4::uuid)sql";

constexpr std::string_view kDeleteSuspension =
    "DELETE FROM ff_suspension_current WHERE partition_key = $1 AND execution_id = $4::uuid";

constexpr std::string_view kDeleteWaitpoints =
    "DELETE FROM ff_waitpoint_pending WHERE partition_key = $1 AND execution_id = $4::uuid";

// The public state of an ended execution is the outcome of its event.
constexpr std::string_view kCompletion = R"sql(
INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms)
SELECT partition_key, execution_id, flow_id, public_state, raw_fields->>'namespace',
       raw_fields->'tags'->>'cairn.instance_id', $2
  FROM ff_exec_core WHERE partition_key = $1 AND execution_id = $4::uuid)sql";

RowByRow delayed_promoter() {
  return {.name = "delayed_promoter",
          .list = R"sql(
SELECT execution_id FROM ff_exec_core
 WHERE partition_key = $1 AND deadline_at_ms <= $2
   AND lifecycle_phase = 'runnable' AND eligibility_state = 'not_eligible_until_time'
 ORDER BY deadline_at_ms LIMIT $3)sql",
          .steps = {{R"sql(
SELECT FROM ff_exec_core
 WHERE partition_key = $1 AND execution_id = $4::uuid AND deadline_at_ms <= $3
   AND lifecycle_phase = 'runnable' AND eligibility_state = 'not_eligible_until_time'
   FOR UPDATE)sql",
                     {},
                     {{R"sql(
UPDATE ff_exec_core
   SET eligibility_state = 'eligible_now', deadline_at_ms = NULL, public_state = 'waiting',
       raw_fields = raw_fields || jsonb_build_object('total_attempt_count', attempt_index::text)
 WHERE partition_key = $1 AND execution_id = $4::uuid)sql"}}}}};
}

// $4 grant.
RowByRow grant_expiry() {
  return {.name = "grant_expiry",
          .list = R"sql(
SELECT grant_id::text FROM ff_claim_grant
 WHERE partition_key = $1 AND expires_at_ms > 0 AND expires_at_ms <= $2
 ORDER BY expires_at_ms LIMIT $3)sql",
          .steps = {{R"sql(
SELECT FROM ff_claim_grant
 WHERE partition_key = $1 AND grant_id = $4::bytea AND expires_at_ms > 0 AND expires_at_ms <= $3
   FOR UPDATE)sql",
                     {},
                     {{R"sql(
UPDATE ff_exec_core
   SET eligibility_state = 'eligible_now', raw_fields = raw_fields - 'claim_grant'
 WHERE partition_key = $1 AND lifecycle_phase = 'runnable' AND eligibility_state = 'pending_claim'
   AND execution_id = (SELECT execution_id FROM ff_claim_grant WHERE partition_key = $1 AND grant_id = $4::bytea))sql"},
                      {"DELETE FROM ff_claim_grant WHERE partition_key = $1 AND grant_id = $4::bytea"}}}}};
}

// $4 execution, which is suspended.
RowByRow index_repair() {
  return {.name = "index_repair",
          .list = R"sql(
SELECT c.execution_id FROM ff_exec_core c
 WHERE c.partition_key = $1 AND c.lifecycle_phase = 'suspended' AND c.attempt_state = 'attempt_interrupted'
   AND c.created_at_ms <= $2
   AND NOT EXISTS (SELECT FROM ff_attempt a
                    WHERE a.partition_key = $1 AND a.execution_id = c.execution_id
                      AND a.attempt_index = c.attempt_index)
 LIMIT $3)sql",
          .steps = {{R"sql(
SELECT FROM ff_exec_core
 WHERE partition_key = $1 AND execution_id = $4::uuid AND lifecycle_phase = 'suspended' AND created_at_ms <= $3
   FOR UPDATE)sql",
                     {},
                     {{R"sql(
UPDATE ff_exec_core c
   SET attempt_index = newest.attempt_index,
       raw_fields = raw_fields || jsonb_build_object('total_attempt_count', newest.attempt_index::text)
  FROM (SELECT max(attempt_index) AS attempt_index FROM ff_attempt
         WHERE partition_key = $1 AND execution_id = $4::uuid) newest
 WHERE c.partition_key = $1 AND c.execution_id = $4::uuid)sql"}}}}};
}

// $5 attempt, then reclaimable or released.
RowByRow lease_expiry() {
  return {.name = "lease_expiry",
          .list = R"sql(
SELECT execution_id, attempt_index FROM ff_attempt
 WHERE partition_key = $1 AND lease_expires_at_ms IS NOT NULL AND lease_expires_at_ms <= $2
 ORDER BY lease_expires_at_ms LIMIT $3)sql",
          .steps = {{R"sql(
SELECT FROM ff_attempt
 WHERE partition_key = $1 AND execution_id = $4::uuid AND attempt_index = $5::integer AND lease_expires_at_ms <= $3
   FOR UPDATE)sql",
                     {},
                     {{R"sql(
SELECT CASE WHEN lifecycle_phase = 'active' AND attempt_index = $5::integer THEN 'reclaimable' ELSE 'released' END
  FROM ff_exec_core WHERE partition_key = $1 AND execution_id = $4::uuid FOR UPDATE)sql",
                       {},
                       {{R"sql(
UPDATE ff_attempt
   SET outcome = 'lease_expired_reclaimable', lease_expires_at_ms = NULL, lease_epoch = lease_epoch + 1,
       raw_fields = raw_fields
         || jsonb_build_object('lease_reclaims', coalesce((raw_fields->>'lease_reclaims')::bigint, 0) + 1)
 WHERE partition_key = $1 AND execution_id = $4::uuid AND attempt_index = $5::integer)sql"},
                        {R"sql(
UPDATE ff_exec_core
   SET lifecycle_phase = 'runnable', ownership_state = 'unowned', eligibility_state = 'eligible_now',
       attempt_state = 'pending_retry_attempt', public_state = 'waiting',
       raw_fields = raw_fields
         || jsonb_build_object('lease_expired_at_ms', $2, 'total_attempt_count', attempt_index::text)
 WHERE partition_key = $1 AND execution_id = $4::uuid)sql",
                         {"reclaimable"}},
                        {kLeaseExpired}}}}}}};
}

// $5 attempt.
RowByRow execution_deadline() {
  return {.name = "execution_deadline",
          .list = R"sql(
SELECT execution_id FROM ff_exec_core
 WHERE partition_key = $1 AND deadline_at_ms <= $2 AND lifecycle_phase = 'active'
 ORDER BY deadline_at_ms LIMIT $3)sql",
          .steps = {{R"sql(
SELECT attempt_index FROM ff_exec_core
 WHERE partition_key = $1 AND execution_id = $4::uuid AND deadline_at_ms <= $3 AND lifecycle_phase = 'active'
   FOR UPDATE)sql",
                     {},
                     {{R"sql(
UPDATE ff_attempt
   SET outcome = 'interrupted', lease_expires_at_ms = NULL, lease_epoch = lease_epoch + 1, terminal_at_ms = $2
 WHERE partition_key = $1 AND execution_id = $4::uuid AND attempt_index = $5::integer)sql"},
                      {R"sql(
UPDATE ff_exec_core
   SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
       attempt_state = 'attempt_terminal', public_state = 'expired', terminal_at_ms = $2,
       raw_fields = raw_fields || jsonb_build_object('last_failure_message', 'execution_deadline')
 WHERE partition_key = $1 AND execution_id = $4::uuid)sql"},
                      {kDeleteSuspension},
                      {kDeleteWaitpoints},
                      {kCompletion},
                      {kLeaseExpired}}}}};
}

// $5 behaviour, $6 the new public state, then what comes of the execution.
constexpr std::string_view kJudgeSuspended = R"sql(
SELECT CASE $5 WHEN 'cancel' THEN 'cancelled' ELSE 'expired' END,
       CASE WHEN lifecycle_phase <> 'suspended' THEN 'was resumed'
            WHEN $5 = 'auto_resume_with_timeout_signal' THEN 'resumes' ELSE 'ends' END
  FROM ff_exec_core WHERE partition_key = $1 AND execution_id = $4::uuid FOR UPDATE)sql";

RowByRow suspension_timeout() {
  return {.name = "suspension_timeout",
          .list = R"sql(
SELECT execution_id FROM ff_suspension_current
 WHERE partition_key = $1 AND timeout_at_ms IS NOT NULL AND timeout_at_ms <= $2
 ORDER BY timeout_at_ms LIMIT $3)sql",
          .steps = {{R"sql(
SELECT coalesce(timeout_behavior, 'fail') FROM ff_suspension_current
 WHERE partition_key = $1 AND execution_id = $4::uuid AND timeout_at_ms <= $3
   FOR UPDATE)sql",
                     {},
                     {{kJudgeSuspended,
                       {},
                       {{R"sql(
UPDATE ff_suspension_current
   SET timeout_at_ms = NULL,
       member_map = member_map || jsonb_build_object('__timeout__',
         coalesce(member_map->'__timeout__', '[]') || jsonb_build_array(jsonb_build_object(
           'signal_id', gen_random_uuid(), 'signal_name', 'timeout', 'signal_category', 'timeout',
           'source_type', 'suspension_timeout', 'source_identity', '', 'correlation_id', '', 'accepted_at', $2,
           'payload_hex', NULL)))
 WHERE partition_key = $1 AND execution_id = $4::uuid)sql",
                         {"resumes"}},
                        {R"sql(
UPDATE ff_suspension_current SET timeout_at_ms = NULL
 WHERE partition_key = $1 AND execution_id = $4::uuid)sql",
                         {"was resumed"}},
                        {R"sql(
UPDATE ff_exec_core
   SET lifecycle_phase = 'runnable', eligibility_state = 'eligible_now', public_state = 'resumable',
       raw_fields = raw_fields || jsonb_build_object('total_attempt_count', attempt_index::text)
 WHERE partition_key = $1 AND execution_id = $4::uuid)sql",
                         {"resumes"}},
                        {R"sql(
UPDATE ff_exec_core
   SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
       attempt_state = 'attempt_terminal', public_state = $6, terminal_at_ms = $2,
       cancellation_reason = 'suspension_timeout_' || $5,
       raw_fields = raw_fields || jsonb_build_object('last_failure_message', 'suspension_timeout')
 WHERE partition_key = $1 AND execution_id = $4::uuid)sql",
                         {"ends"}},
                        {kDeleteSuspension, {"ends"}},
                        {kDeleteWaitpoints, {"ends", "resumes"}},
                        {kCompletion, {"ends", "resumes"}}}}}}}};
}

RowByRow pending_waitpoint_expiry() {
  return {.name = "pending_waitpoint_expiry",
          .list = R"sql(
SELECT waitpoint_id FROM ff_waitpoint_pending
 WHERE partition_key = $1 AND expires_at_ms IS NOT NULL AND expires_at_ms <= $2 AND state = 'pending'
 ORDER BY expires_at_ms LIMIT $3)sql",
          .steps = {{R"sql(
SELECT FROM ff_waitpoint_pending
 WHERE partition_key = $1 AND waitpoint_id = $4::uuid AND expires_at_ms <= $3 AND state = 'pending'
   FOR UPDATE)sql",
                     {},
                     {{R"sql(
DELETE FROM ff_waitpoint_pending WHERE partition_key = $1 AND waitpoint_id = $4::uuid)sql"}}}}};
}

}  // namespace

std::vector<RowByRow> execution_rivals() {
  return {delayed_promoter(),
          grant_expiry(),
          index_repair(),
          lease_expiry(),
          execution_deadline(),
          suspension_timeout(),
          pending_waitpoint_expiry()};
}

}  // namespace ff::bench
