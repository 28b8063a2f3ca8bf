#include "reconcile/family/cancel_for_good.hpp"

namespace ff::reconcile::cancel_for_good {
namespace {

constexpr std::string_view kEndForGood = R"sql(coalesce({core}.terminal_at_ms, clock.now_ms) AS ended_at_ms,
         {told_end:{core}} IS NOT NULL
           OR coalesce({core}.raw_fields->'completion_repaired_for' = to_jsonb({core}.terminal_at_ms), false) AS is_told)sql";

constexpr std::string_view kCancelForGood = R"sql(
cancelled_core AS (
  UPDATE {schema}.ff_exec_core c
     SET lifecycle_phase = 'cancelled', ownership_state = 'unowned', eligibility_state = 'not_applicable',
         public_state = 'cancelled', attempt_state = 'cancelled', terminal_at_ms = e.ended_at_ms,
         cancellation_reason = coalesce(c.cancellation_reason, e.reason),
         cancelled_by = coalesce(c.cancelled_by, 'cancel_backlog'),
         raw_fields = {object:c.raw_fields} || jsonb_build_object('completion_repaired_for', e.ended_at_ms)
    FROM cancelling e
   WHERE {in_partitions:c} AND {same_execution:c, e}
),
-- The current attempt without a lease, too: by its epoch alone a worker could end the execution again.
cancelled_attempt AS (
  UPDATE {schema}.ff_attempt a
     SET outcome = coalesce(a.outcome, 'cancelled'), terminal_at_ms = coalesce(a.terminal_at_ms, e.now_ms),
         lease_expires_at_ms = NULL, lease_epoch = a.lease_epoch + 1
    FROM cancelling e
   WHERE {in_partitions:a} AND {same_execution:a, e}
     AND (a.attempt_index = e.attempt_index OR a.lease_expires_at_ms IS NOT NULL)
),
{clear_waiting:cancelling},
revoked AS (
  {lease_events:'revoked', {taken_leases:cancelling}}
),
told AS (
  {completion_events:'cancelled', {untold_ends}}
))sql";

}  // namespace

std::vector<Fragment> fragments() {
  return {{"end_for_good(core)", std::string(kEndForGood)},
          {"cancel_for_good", std::string(kCancelForGood)},
          {"untold_ends",
           R"sql((SELECT partition_key, execution_id, flow_id, ended_at_ms AS now_ms, name_space, instance_tag
            FROM cancelling WHERE NOT is_told) untold)sql"}};
}

}  // namespace ff::reconcile::cancel_for_good
