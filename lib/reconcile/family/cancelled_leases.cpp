// cancelled_leases: what was cancelled and left to its worker is not taken up again.
//
// Rows     Cancelled executions with a lease that has not lapsed, `grace` after the cancel. FlowFabric leaves its lease to
//          a worker in three ways: the cancel of a flow's header, of which its server acknowledges a member without taking anything
//          from it; cancel_flow, which tells of each member that its lease was revoked; and an operator's cancel_execution
//          of what was claimed by a typed claim, because it looks for the attempt that the core names. And executions that
//          such a worker has revived since: a retry, once somebody has a lease again, and a suspension. No index leads to
//          them: the first pair looks at all leases, the second walks through all suspended executions.
// Changes  As cancel_for_good has it.
// Others   A member whose row is in the backlog is the first pair's of cancel_backlog. What the cancel of a flow has
//          cancelled under another policy than cancel_all is its worker's to finish. What an operator has replayed goes on:
//          a replay clears cancelled_by, which a retry and a suspension leave. Whoever completes, renews or retries first
//          wins: the core has to be as this statement has seen it, and a lease that is held is met again.
// Repeat   It is cancelled, and no lease is left, so the row is not found again.

#include "reconcile/family/cancelled_leases.hpp"

#include "reconcile/family/cancel_for_good.hpp"
#include "reconcile/with.hpp"

namespace ff::reconcile::cancelled_leases {
namespace {

// The partition is that of the lease, and nothing stands between: whoever asks for one partition reads no other's leases.
// What the core alone tells comes first: for most leases no flow is looked up.
constexpr std::string_view kScan = R"sql(
  SELECT held.partition_key, held.execution_id, {cancelled_at:c, f} AS due_at_ms
    FROM (SELECT DISTINCT a.partition_key, a.execution_id
            FROM {schema}.ff_attempt a
           WHERE {in_partitions:a} AND {has_not_lapsed:a}) held
    JOIN {core_of:held} c ON true
    LEFT JOIN {flow_of:c} f ON true
   WHERE ({is_cancelled:c} OR {was_cancelled:c}) AND {is_left_to_its_worker:c, f} AND {filter:c})sql";

constexpr std::string_view kSuspendedScan = R"sql(
  SELECT c.partition_key, c.execution_id, {cancelled_at:c, f} AS due_at_ms
    FROM {by_lane:'suspended'} c
    LEFT JOIN {flow_of:c} f ON true
   WHERE {was_cancelled:c} AND {is_left_to_its_worker:c, f} AND {filter:c})sql";

constexpr std::string_view kAct = R"sql(
with_core AS MATERIALIZED (
  SELECT c.partition_key, c.execution_id, c.flow_id, c.lifecycle_phase, c.terminal_at_ms, c.raw_fields,
         f.reason, {cancelled_at:c, f} AS due_at_ms
    FROM clock, key
    JOIN {schema}.ff_exec_core c ON {same_execution:c, key}
    {as_seen:c}
    LEFT JOIN {flow_of:c} f ON true
   WHERE {in_partitions:c} AND {is_left_to_its_worker:c, f} AND {cancelled_at:c, f} + 0 <= clock.due_ms AND {is_taken_up:c}
     AND {filter:c} AND {in_sight:ff_flow_core, ff_cancel_backlog_member, ff_completion_event}
     FOR NO KEY UPDATE OF c SKIP LOCKED
),
doomed AS MATERIALIZED (
  SELECT {doomed:c}, coalesce(c.reason, 'cancelled') AS reason, c.due_at_ms, {end_for_good:c}
    FROM clock, with_core c
),
{hold_doomed},
cancelling AS MATERIALIZED (SELECT * FROM endable),
{cancel_for_good},
moved AS (SELECT partition_key, execution_id, due_at_ms, {outcome} AS outcome FROM cancelling))sql";

constexpr std::string_view kHasLease = R"sql((SELECT true
            FROM {schema}.ff_attempt h
           WHERE {in_partitions:h} AND {same_execution:h, {core}}
             AND h.lease_expires_at_ms IS NOT NULL
           LIMIT 1) IS NOT NULL)sql";

/// `is_taken_up`: by what a worker goes on with it.
std::vector<Fragment> fragments_of(std::string_view is_taken_up, std::string_view outcome) {
  return with(
      cancel_for_good::fragments(),
      {{"is_taken_up(core)", std::string(is_taken_up)},
       {"outcome", std::string(outcome)},
       {"flow_of(core)",
        R"sql(LATERAL (SELECT i.public_flow_state, i.terminal_at_ms, i.raw_fields->>'cancellation_policy' AS policy,
                           i.raw_fields->>'cancel_reason' AS reason
                      FROM {schema}.ff_flow_core i
                     WHERE {in_partitions:i} AND i.partition_key = {core}.partition_key AND i.flow_id = {core}.flow_id
                    OFFSET 0))sql"},
       {"is_cancelled(core)", "{core}.lifecycle_phase = 'cancelled'"},
       // Not what FlowFabric's dispatcher of sibling cancels has ended, nor a worker: neither asks anybody else to go on.
       {"was_cancelled(core)", "coalesce({core}.cancelled_by, 'worker') NOT IN ('engine', 'worker')"},
       {"is_of_its_flow(core)", "coalesce({core}.cancelled_by, '') IN ('cancel_flow', 'cancel_flow_header')"},
       {"is_left_to_its_worker(core, flow)",
        R"sql(CASE WHEN {is_cancelled:{core}}
                 THEN NOT {is_of_its_flow:{core}} OR coalesce({flow}.policy, 'cancel_all') = 'cancel_all'
               WHEN {has_not_ended:{core}}
                 THEN {was_cancelled:{core}}
                      AND (NOT {is_of_its_flow:{core}} OR {flow}.public_flow_state = 'cancelled' AND {flow}.policy = 'cancel_all')
                 ELSE false END
     AND NOT {is_in_backlog:{core}})sql"},
       {"cancelled_at(core, flow)",
        R"sql(CASE WHEN {is_cancelled:{core}} OR NOT {is_of_its_flow:{core}}
              THEN coalesce({core}.terminal_at_ms, {core}.created_at_ms)
              ELSE {flow}.terminal_at_ms END)sql"},
       {"is_in_backlog(core)",
        R"sql((SELECT true
            FROM {schema}.ff_cancel_backlog_member m
           WHERE {in_partitions:m} AND m.partition_key = {core}.partition_key AND m.flow_id = {core}.flow_id
             AND m.execution_id = {member_name:{core}}
           LIMIT 1) IS NOT NULL)sql"}});
}

}  // namespace

std::vector<Reconciler> pairs(const Reconciler& members) {
  using namespace std::chrono_literals;
  Reconciler its = members;
  its.outcomes = {{"lease_revoked", Effect::ended, "it was cancelled, and a worker had a lease of it still"}};
  its.key = {{"execution_id", "uuid"}};
  its.scan = kScan;
  its.act = kAct;
  its.fragments = fragments_of(kHasLease, "'lease_revoked'");
  its.interval = 5s;
  its.rows_meet = false;
  // A quarter at a time: all in twenty seconds, where that does not take long.
  its.groups_a_scan = 4;
  its.searches = true;
  Reconciler suspended = its;
  suspended.outcomes = {
      {"suspension_cancelled", Effect::ended, "it was cancelled, and its worker has suspended it since"}};
  suspended.scan = kSuspendedScan;
  suspended.fragments = fragments_of("{core}.lifecycle_phase = 'suspended'", "'suspension_cancelled'");
  suspended.interval = 30s;
  suspended.groups_a_scan = 0;
  suspended.searches = false;
  suspended.walk = {{.table = "ff_exec_core", .key = "execution_id", .phases = "'suspended'"}};
  return {its, suspended};
}

}  // namespace ff::reconcile::cancelled_leases
