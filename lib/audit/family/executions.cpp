#include "audit/check.hpp"

namespace ff::audit {
namespace {

// What FlowFabric's writers combine, and no more: public_state is left behind by many of them, the ownership by a flow's
// cancel, the eligibility by a dispatch to who runs already.
constexpr std::string_view kWords = R"sql(
SELECT p.problem, c.partition_key, c.execution_id::text AS key, c.xmin::text AS seen,
       concat_ws('/', c.lifecycle_phase, c.ownership_state, c.eligibility_state, c.public_state, c.attempt_state)
         || coalesce(', terminal_at_ms ' || c.terminal_at_ms, '') || coalesce(', deadline_at_ms ' || c.deadline_at_ms, '')
         || CASE WHEN c.attempt_index < 0 THEN ', attempt_index ' || c.attempt_index ELSE '' END AS what,
       CASE WHEN p.problem = 'ended_but_resumable' THEN coalesce((SELECT e.outcome
                                                                    FROM {schema}.ff_completion_event e
                                                                   WHERE {in_partitions:e} AND {same_execution:e, c}
                                                                     AND e.outcome <> 'resumable'
                                                                   ORDER BY e.event_id DESC
                                                                   LIMIT 1), {word_of_end:c}) END AS word
  FROM {schema}.ff_exec_core c
 CROSS JOIN LATERAL (
   SELECT CASE
     WHEN c.lifecycle_phase NOT IN ('submitted', 'runnable', 'active', 'suspended', 'blocked', 'terminal', 'cancelled')
       THEN 'unknown_phase'
     WHEN c.attempt_index < 0 THEN 'negative_attempt_index'
     WHEN {has_ended:c} THEN
       CASE WHEN c.terminal_at_ms IS NULL THEN 'ended_without_time'
            WHEN c.lifecycle_phase = 'terminal'
                 AND (c.attempt_state NOT IN ('attempt_terminal', 'terminal_failed', 'cancelled')
                      OR c.eligibility_state = 'eligible_now') THEN 'ended_in_part'
            WHEN c.public_state = 'resumable' THEN 'ended_but_resumable' END
     WHEN c.terminal_at_ms IS NOT NULL THEN 'alive_after_its_end'
     WHEN c.lifecycle_phase = 'active' THEN
       CASE WHEN c.ownership_state <> 'leased' OR c.attempt_state <> 'running_attempt' THEN 'active_in_part'
            WHEN c.deadline_at_ms < {long_ago} AND {not_replayed:c} THEN 'deadline_overdue' END
     WHEN c.lifecycle_phase = 'suspended' THEN
       CASE WHEN c.ownership_state <> 'released' OR c.attempt_state <> 'attempt_interrupted' THEN 'suspended_in_part' END
     WHEN c.ownership_state = 'leased' THEN 'waiting_but_leased'
     WHEN c.attempt_state IN ('running_attempt', 'attempt_terminal', 'terminal_failed', 'cancelled')
       THEN 'waiting_in_part'
     WHEN c.lifecycle_phase <> 'runnable' THEN NULL
     WHEN c.eligibility_state = 'not_eligible_until_time' THEN
       CASE WHEN c.public_state = 'delayed' AND c.blocking_reason = 'waiting_for_resume_delay' THEN NULL
            WHEN {delay_ends_at:c} IS NULL THEN 'delayed_for_ever'
            WHEN {delay_ends_at:c} < {long_ago} THEN 'delay_overdue' END
     WHEN c.eligibility_state NOT IN ('eligible_now', 'pending_claim', 'blocked_by_dependencies') THEN 'never_eligible'
   END AS problem
 ) p
 WHERE {in_partitions:c} AND p.problem IS NOT NULL)sql";

// Those that live and have something beside them that must be there.
constexpr std::string_view kAttempts = R"sql(
SELECT p.problem, c.partition_key, c.execution_id::text AS key, c.xmin::text || ',' || coalesce(a.seen, '') AS seen,
       format('attempt_index %s, attempts: %s', c.attempt_index, coalesce(a.list, 'none')) AS what
  FROM {living}
 CROSS JOIN LATERAL (
   SELECT max(i.attempt_index) AS newest, bool_or(i.lease_expires_at_ms IS NOT NULL) AS leased,
          bool_or(i.attempt_index = c.attempt_index) AS has_current,
          string_agg(i.xmin::text, ',' ORDER BY i.attempt_index) AS seen,
          string_agg(i.attempt_index::text, ', ' ORDER BY i.attempt_index) AS list
     FROM {schema}.ff_attempt i
    WHERE {in_partitions:i} AND i.partition_key = c.partition_key AND i.execution_id = c.execution_id
 ) a
 CROSS JOIN LATERAL (
   SELECT CASE
     WHEN c.lifecycle_phase = 'active' THEN
       CASE WHEN a.newest IS NULL THEN 'active_without_attempt' WHEN NOT a.leased THEN 'active_without_lease' END
     WHEN c.eligibility_state <> 'eligible_now' THEN NULL
     WHEN a.newest IS NULL THEN 'interrupted_without_attempt'
     WHEN NOT a.has_current THEN 'index_without_attempt'
   END AS problem
 ) p
 WHERE (c.lifecycle_phase = 'active' OR c.lifecycle_phase = 'runnable' AND c.attempt_state = 'attempt_interrupted')
   AND p.problem IS NOT NULL)sql";

constexpr std::string_view kPromises = R"sql(
SELECT 'promise_lapsed' AS problem, c.partition_key, c.execution_id::text AS key,
       c.xmin::text || ',' || coalesce(g.seen, '') AS seen,
       coalesce('its grant ended at ' || g.ended_at_ms, 'it has no grant') AS what
  FROM {living}
 CROSS JOIN LATERAL (
   SELECT max(i.expires_at_ms) AS ended_at_ms, bool_or(i.expires_at_ms = 0) AS is_endless,
          string_agg(i.xmin::text, ',' ORDER BY i.grant_id) AS seen
     FROM {schema}.ff_claim_grant i
    WHERE {in_partitions:i} AND i.partition_key = c.partition_key AND i.execution_id = c.execution_id
      AND i.kind = 'claim'
 ) g
 WHERE c.lifecycle_phase = 'runnable' AND c.eligibility_state = 'pending_claim'
   AND g.is_endless IS NOT TRUE
   AND coalesce(g.ended_at_ms,
                -- Of one whose row is gone the execution has a copy.
                CASE WHEN c.raw_fields->'claim_grant'->>'expires_at_ms' ~ '^[1-9][0-9]{0,17}$'
                     THEN (c.raw_fields->'claim_grant'->>'expires_at_ms')::bigint END, 0) < {long_ago})sql";

std::vector<Check> of_those_who_go_on() {
  return {
      {"active_without_attempt", "it is active, but has no attempt: nobody works on it, and nobody notices",
       "{core:{waits}}"},
      {"active_without_lease",
       "it is active, but none of its attempts has a lease: nobody works on it, and nobody notices",
       // A worker whose lease was taken in part may still renew it, and complete: not by the next epoch.
       "UPDATE ff_attempt SET lease_epoch = lease_epoch + 1 {of_it} AND lease_expires_at_ms IS NULL; "
       "{core_set:{waits}} AND lifecycle_phase = 'active' AND NOT EXISTS (SELECT FROM ff_attempt a WHERE "
       "a.partition_key = {$partition_key} AND a.execution_id = '{$key}' AND a.lease_expires_at_ms IS NOT "
       "NULL);"},
      {"interrupted_without_attempt",
       "it is to go on with an attempt, but has none: claim_resumed_execution and "
       "issue_grant_and_claim "
       "refuse it",
       "{core:attempt_state = 'pending_first_attempt', attempt_index = 0, raw_fields = raw_fields || "
       "jsonb_build_object('total_attempt_count', '0')}"},
      {"index_without_attempt",
       "it is to go on with an attempt that is not there, which claim_resumed_execution and "
       "issue_grant_and_claim refuse; a suspension after a typed claim leads to it",
       "{tick:index_repair}"}};
}

}  // namespace

std::vector<Sweep> sweeps_of_executions() {
  return {
      {.sql = std::string(kWords),
       .checks =
           {{"unknown_phase",
             "its lifecycle_phase is a word that nobody knows: nobody claims it, ends it or counts it",
             "{core:{waits}} -- find out who wrote it first: it may be at work, or have ended"},
            {"negative_attempt_index", "the number of its attempt is below nought: a claim fails on it",
             "UPDATE ff_exec_core c SET attempt_index = coalesce((SELECT max(a.attempt_index) + 1 FROM "
             "ff_attempt a "
             "WHERE a.partition_key = c.partition_key AND a.execution_id = c.execution_id AND "
             "a.attempt_index >= 0), 0) {of_it};"},
            {"ended_without_time", "it has ended, but at no time: retention and replays go by that time",
             "{core:{ended}}"},
            {"ended_in_part",
             "it has ended, but its attempt_state or its eligibility_state says that it goes on",
             "{core:{ended}}"},
            {"ended_but_resumable",
             "it has ended, but is called resumable: claim_resumed_execution asks for no more, and takes it",
             "{core:public_state = CASE '{$word}' WHEN 'success' THEN 'completed' ELSE nullif('{$word}', '') "
             "END}"},
            {"alive_after_its_end", "it has ended once, and lives again without a replay",
             "{core:terminal_at_ms = NULL, cancellation_reason = NULL, cancelled_by = NULL, attempt_state = "
             "CASE WHEN "
             "attempt_state IN ('attempt_terminal', 'terminal_failed', 'cancelled') THEN "
             "'pending_retry_attempt' "
             "ELSE attempt_state END} -- or, where the end is to stand, FlowFabric's cancel_execution ends "
             "it again"},
            {"active_in_part", "it is active, but not leased, or its attempt does not run: half a claim",
             "{core:ownership_state = 'leased', attempt_state = 'running_attempt'}"},
            {"suspended_in_part", "it is suspended, but its lease or its attempt was not given up",
             "{core:ownership_state = 'released', attempt_state = 'attempt_interrupted'}"},
            {"waiting_but_leased", "it waits, but is owned by somebody: every claim refuses it",
             "{core:ownership_state = 'unowned'}"},
            {"waiting_in_part",
             "it waits, but its attempt_state says that it runs or has ended: typed claims refuse it",
             "{core:attempt_state = 'pending_retry_attempt'}"},
            {"never_eligible", "it is runnable, but its eligibility_state is one that nothing ever changes",
             "{core:eligibility_state = 'eligible_now'}"},
            {"delayed_for_ever", "it is delayed, but until when stands nowhere",
             "{core:eligibility_state = 'eligible_now', public_state = 'waiting'}"},
            {"delay_overdue", "its delay was over more than a minute ago, and nobody has made it claimable",
             "{tick:delayed_promoter}"},
            {"deadline_overdue", "its deadline was more than a minute ago, and it is active still",
             "{tick:execution_deadline}"}}},
      {.sql = std::string(kAttempts), .checks = of_those_who_go_on()},
      {.sql = std::string(kPromises),
       .checks = {{"promise_lapsed",
                   "the scheduler has promised it to a worker that did not come: no other may claim it",
                   "{tick:grant_expiry}"}}}};
}

}  // namespace ff::audit
