#include "demo/simulation/audit.hpp"

#include "pg/transaction.hpp"

namespace ff::simulation {
namespace {

struct Rule {
  std::string_view name;
  /// A query for partition_key, execution_id as text, and what is wrong. $2: AuditOptions::whole_outboxes.
  std::string_view violations;
};

// The five words of a state, as FlowFabric's workers and the reconcilers combine them. Workers leave public_state as
// it was when they put an execution back or end it; a signal leaves the ownership.
constexpr std::string_view kIllegalState = R"sql(
  WITH legal(phase, ownership, eligibility, public_states, attempt_states) AS (VALUES
    ('submitted', 'unowned', '{eligible_now,blocked_by_dependencies,blocked,not_applicable}'::text[],
      '{waiting}'::text[], '{pending,pending_first_attempt}'::text[]),
    ('runnable', 'unowned', '{eligible_now,pending_claim,blocked_by_dependencies,blocked}',
      '{waiting,resumable,running,active}',
      '{pending,pending_first_attempt,pending_retry_attempt,pending_replay_attempt,attempt_interrupted}'),
    ('runnable', 'released', '{eligible_now,pending_claim}', '{resumable}', '{attempt_interrupted}'),
    ('runnable', 'unowned', '{not_eligible_until_time}', '{delayed,running,active}',
      '{pending,pending_first_attempt,pending_retry_attempt,attempt_interrupted}'),
    ('blocked', 'unowned', '{blocked_by_dependencies,blocked,not_applicable}', '{waiting}',
      '{pending,pending_first_attempt,pending_retry_attempt,attempt_interrupted}'),
    ('active', 'leased', '{not_applicable}', '{running,active}', '{running_attempt}'),
    ('suspended', 'released', '{not_applicable}', '{suspended}', '{attempt_interrupted}'),
    ('terminal', 'unowned', '{not_applicable}', '{completed,failed,expired,skipped,running,active}',
      '{attempt_terminal}'),
    ('terminal', 'unowned', '{not_applicable}', '{cancelled}', '{attempt_terminal,cancelled}'),
    ('cancelled', 'unowned', '{not_applicable}', '{cancelled}', '{attempt_terminal,cancelled}'))
  SELECT partition_key, execution_id::text,
         concat_ws('/', lifecycle_phase, ownership_state, eligibility_state, public_state, attempt_state)
    FROM ff_exec_core
   WHERE NOT EXISTS (SELECT FROM legal
                      WHERE phase = lifecycle_phase AND ownership = ownership_state
                        AND eligibility_state = ANY(eligibility) AND public_state = ANY(public_states)
                        AND attempt_state = ANY(attempt_states)))sql";

constexpr std::string_view kTerminalTime = R"sql(
  SELECT partition_key, execution_id::text,
         lifecycle_phase || CASE WHEN terminal_at_ms IS NULL THEN ' without' ELSE ' with' END || ' terminal_at_ms'
    FROM ff_exec_core
   WHERE (lifecycle_phase IN ('terminal', 'cancelled')) <> (terminal_at_ms IS NOT NULL))sql";

// A backoff has its end elsewhere.
constexpr std::string_view kEndlessDelay = R"sql(
  SELECT partition_key, execution_id::text, 'nothing ends the delay'
    FROM ff_exec_core
   WHERE lifecycle_phase = 'runnable' AND eligibility_state = 'not_eligible_until_time'
     AND CASE WHEN public_state = 'delayed' AND blocking_reason = 'waiting_for_retry_backoff'
              THEN raw_fields->>'delay_until' IS NULL
              WHEN public_state = 'delayed' AND blocking_reason = 'waiting_for_resume_delay' THEN false
              ELSE deadline_at_ms IS NULL END)sql";

constexpr std::string_view kSuspendedWithoutSuspension = R"sql(
  SELECT partition_key, execution_id::text, 'no row in ff_suspension_current'
    FROM ff_exec_core c
   WHERE lifecycle_phase = 'suspended'
     AND NOT EXISTS (SELECT FROM ff_suspension_current s
                      WHERE s.partition_key = c.partition_key AND s.execution_id = c.execution_id))sql";

constexpr std::string_view kActiveWithoutLease = R"sql(
  SELECT c.partition_key, c.execution_id::text, 'no attempt has a lease'
    FROM ff_exec_core c
   WHERE c.lifecycle_phase = 'active'
     AND NOT EXISTS (SELECT FROM ff_attempt a
                      WHERE a.partition_key = c.partition_key AND a.execution_id = c.execution_id
                        AND a.lease_expires_at_ms IS NOT NULL))sql";

// Whoever takes over with a reclaim grant leaves the lease of the attempt before; any other is alone.
constexpr std::string_view kLeaseWithoutActive = R"sql(
  SELECT a.partition_key, a.execution_id::text,
         'attempt ' || a.attempt_index || ' has a lease, the execution is ' ||
         CASE WHEN c.execution_id IS NULL THEN 'missing' WHEN c.lifecycle_phase <> 'active' THEN c.lifecycle_phase
              ELSE 'leased to a later attempt' END
    FROM ff_attempt a
    LEFT JOIN ff_exec_core c ON c.partition_key = a.partition_key AND c.execution_id = a.execution_id
   WHERE a.lease_expires_at_ms IS NOT NULL AND a.outcome IS DISTINCT FROM 'interrupted_reclaimed'
     AND (c.lifecycle_phase IS DISTINCT FROM 'active'
          OR EXISTS (SELECT FROM ff_attempt later
                      WHERE later.partition_key = a.partition_key AND later.execution_id = a.execution_id
                        AND later.attempt_index > a.attempt_index AND later.lease_expires_at_ms IS NOT NULL)))sql";

// What an operator cancels ends without an event.
constexpr std::string_view kCompletionEvents = R"sql(
  SELECT c.partition_key, c.execution_id::text,
         'ended with ' || coalesce(e.number, 0) || ' completion events'
    FROM ff_exec_core c
    LEFT JOIN (SELECT partition_key, execution_id, count(*) AS number FROM ff_completion_event
                WHERE outcome <> 'resumable'
                GROUP BY partition_key, execution_id) e
           ON e.partition_key = c.partition_key AND e.execution_id = c.execution_id
   WHERE c.lifecycle_phase IN ('terminal', 'cancelled')
     AND coalesce(e.number, CASE WHEN $2 AND c.lifecycle_phase = 'terminal' THEN 0 ELSE 1 END) <> 1)sql";

constexpr std::string_view kEventBeforeEnd = R"sql(
  SELECT c.partition_key, c.execution_id::text,
         'completion event ' || e.outcome || ', but the execution is ' || c.lifecycle_phase
    FROM ff_completion_event e
    JOIN ff_exec_core c ON c.partition_key = e.partition_key AND c.execution_id = e.execution_id
   WHERE c.lifecycle_phase NOT IN ('terminal', 'cancelled') AND e.outcome <> 'resumable')sql";

constexpr std::string_view kEventContradicts = R"sql(
  SELECT c.partition_key, c.execution_id::text,
         'completion event ' || e.outcome || ', but public_state ' || c.public_state
    FROM ff_completion_event e
    JOIN ff_exec_core c ON c.partition_key = e.partition_key AND c.execution_id = e.execution_id
   WHERE c.lifecycle_phase IN ('terminal', 'cancelled')
     AND e.outcome <> 'resumable'
     AND e.outcome <> ALL(CASE WHEN c.public_state IN ('running', 'active') THEN '{success,failed}'
                               WHEN c.public_state = 'completed' THEN '{success}'
                               ELSE ARRAY[c.public_state] END))sql";

// Many completion events that FlowFabric writes have neither.
constexpr std::string_view kEventOrigin = R"sql(
  SELECT e.partition_key, e.execution_id::text,
         e.kind || ' event ' || e.event_id || ' carries another namespace or instance tag'
    FROM (SELECT partition_key, execution_id, 'completion' AS kind, event_id, namespace, instance_tag
            FROM ff_completion_event
          UNION ALL
          SELECT partition_key::smallint,
                 CASE WHEN execution_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN execution_id::uuid END,
                 'lease', event_id, namespace, instance_tag
            FROM ff_lease_event) e
    JOIN ff_exec_core c ON c.partition_key = e.partition_key AND c.execution_id = e.execution_id
   WHERE (e.namespace IS NOT NULL OR e.kind = 'lease')
         AND e.namespace IS DISTINCT FROM c.raw_fields->>'namespace'
      OR (e.instance_tag IS NOT NULL OR e.kind = 'lease')
         AND e.instance_tag IS DISTINCT FROM c.raw_fields->'tags'->>'cairn.instance_id')sql";

// A lease is taken (acquired, or reclaimed from whoever has it), perhaps renewed, and released once.
constexpr std::string_view kLeaseHistory = R"sql(
  SELECT partition_key, execution_id,
         'event ' || event_id || ': ' || event_type || ' after ' || coalesce(previous, 'nothing')
    FROM (SELECT *, lag(event_type) OVER (PARTITION BY partition_key, execution_id ORDER BY event_id) AS previous
            FROM ff_lease_event) e
   WHERE CASE
           WHEN previous IS NULL AND NOT $2 THEN false
           WHEN event_type = 'acquired' THEN previous NOT IN ('expired', 'revoked')
           WHEN event_type IN ('renewed', 'expired', 'revoked')
             THEN coalesce(previous, '') NOT IN ('acquired', 'renewed', 'reclaimed')
           ELSE event_type <> 'reclaimed'
         END)sql";

// The last event says whether there is a lease now.
constexpr std::string_view kLeaseUntold = R"sql(
  WITH told AS (
    SELECT DISTINCT ON (partition_key, execution_id) partition_key, execution_id, event_type
      FROM ff_lease_event ORDER BY partition_key, execution_id, event_id DESC),
  held AS (
    SELECT DISTINCT partition_key::integer, execution_id::text
      FROM ff_attempt
     WHERE lease_expires_at_ms IS NOT NULL AND outcome IS DISTINCT FROM 'interrupted_reclaimed')
  SELECT coalesce(h.partition_key, t.partition_key), coalesce(h.execution_id, t.execution_id),
         CASE WHEN h.execution_id IS NULL THEN 'no lease' ELSE 'a lease' END || ', but the last event is ' ||
         coalesce(t.event_type, 'missing')
    FROM told t
    FULL JOIN held h ON h.partition_key = t.partition_key AND h.execution_id = t.execution_id
   WHERE (t.event_type IS NOT NULL OR $2)
     AND (h.execution_id IS NOT NULL) <>
         coalesce(t.event_type IN ('acquired', 'renewed', 'reclaimed'), false))sql";

constexpr Rule kRules[] = {
    {"illegal_state", kIllegalState},
    {"terminal_time", kTerminalTime},
    {"endless_delay", kEndlessDelay},
    {"suspended_without_suspension", kSuspendedWithoutSuspension},
    {"active_without_lease", kActiveWithoutLease},
    {"lease_without_active", kLeaseWithoutActive},
    {"completion_events", kCompletionEvents},
    {"completion_before_end", kEventBeforeEnd},
    {"completion_contradicts", kEventContradicts},
    {"event_origin", kEventOrigin},
    {"lease_history", kLeaseHistory},
    {"lease_untold", kLeaseUntold},
};

// $1: how many are listed. Without a null test the planner would not know the type of an unused $2.
std::string listing(const Rule& rule) {
  return "SELECT partition_key::integer, execution_id, what, count(*) OVER () FROM (" +
         std::string(rule.violations) +
         ") AS violation(partition_key, execution_id, what) WHERE $2 IS NOT NULL ORDER BY 1, 2, 3 LIMIT $1";
}

void apply(const Rule& rule, pg::Transaction& transaction, const AuditOptions& options,
           std::vector<std::string>& lines) {
  const pg::Result found = transaction.execute(
      listing(rule), pg::Params::of(std::int64_t{options.limit_per_rule}, options.whole_outboxes));
  const std::string name(rule.name);
  for (const pg::Row row : found)
    lines.push_back(name + " {fp:" + row.get<std::string>(0) + "}:" + row.get<std::string>(1) + ": " +
                    row.get<std::string>(2));
  if (found.empty()) return;
  const std::int64_t unlisted = found[0].get<std::int64_t>(3) - found.size();
  if (unlisted > 0) lines.push_back(name + ": and " + std::to_string(unlisted) + " more");
}

}  // namespace

std::vector<std::string> audit(pg::Connection& connection, const AuditOptions& options) {
  pg::Transaction transaction(connection, {.isolation = pg::Isolation::snapshot});
  std::vector<std::string> lines;
  for (const Rule& rule : kRules) apply(rule, transaction, options, lines);
  transaction.rollback();
  return lines;
}

std::vector<std::string_view> audit_rules() {
  std::vector<std::string_view> names;
  for (const Rule& rule : kRules) names.push_back(rule.name);
  return names;
}

}  // namespace ff::simulation
