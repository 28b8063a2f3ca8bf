#include "demo/simulation/suspension.hpp"

#include "demo/simulation/steps.hpp"
#include "demo/simulation/worker.hpp"

namespace ff::simulation {
namespace {

// In every statement: $1 partition_key, $2 execution_id.

// The newest active key signs. Where there is none FlowFabric refuses; here a name is made up.
constexpr std::string_view kKid = R"sql(
  SELECT coalesce((SELECT kid FROM ff_waitpoint_hmac WHERE active ORDER BY rotated_at_ms DESC LIMIT 1), 'simulation'))sql";

// $3 kid, $4 key, $5 life in ms
const std::string kPendingWaitpoint = R"sql(
  INSERT INTO ff_waitpoint_pending
      (partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms, expires_at_ms, waitpoint_key,
       state)
  SELECT $1, gen_random_uuid(), $2, $3, $3 || ':' || encode(sha256(gen_random_uuid()::text::bytea), 'hex'), now_ms,
         now_ms + $5, $4, 'pending'
    FROM (SELECT )sql" + kNowMs + R"sql( AS now_ms) AS clock
  RETURNING waitpoint_id, token)sql";

// By one reading: the suspension and its waitpoints bear the same moment.
const std::string kNow = "SELECT " + kNowMs;

// $3 kid, $4 key, $5 time-out of the suspension in ms, $6 the pending waitpoint or null, $7 names of signals, $8 now. One
// that was pending keeps its expiry; a fresh one gets the time-out for it.
constexpr std::string_view kUseWaitpoint = R"sql(
  INSERT INTO ff_waitpoint_pending
      (partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms, expires_at_ms, waitpoint_key,
       state, required_signal_names, activated_at_ms)
  SELECT $1, coalesce($6, gen_random_uuid()), $2, $3,
         $3 || ':' || encode(sha256(gen_random_uuid()::text::bytea), 'hex'), now_ms, now_ms + $5, $4, 'active', $7,
         now_ms
    FROM (SELECT $8::bigint AS now_ms) AS clock
  ON CONFLICT (partition_key, waitpoint_id) DO UPDATE
     SET token_kid = excluded.token_kid, token = excluded.token, waitpoint_key = excluded.waitpoint_key,
         state = excluded.state, required_signal_names = excluded.required_signal_names,
         activated_at_ms = excluded.activated_at_ms)sql";

// $3 time-out in ms, $4 timeout_behavior, $5 the key that matters or null, $6 the signal's name, $7 now
constexpr std::string_view kSuspension = R"sql(
  INSERT INTO ff_suspension_current
      (partition_key, execution_id, suspension_id, suspended_at_ms, timeout_at_ms, reason_code, condition,
       timeout_behavior)
  SELECT $1, $2, gen_random_uuid(), now_ms, now_ms + $3, 'waiting_for_signal',
         CASE WHEN $5 IS NULL THEN '"TimeoutOnly"'
              ELSE jsonb_build_object('Single', jsonb_build_object('waitpoint_key', $5,
                                                                   'matcher', jsonb_build_object('ByName', $6)))
         END, $4
    FROM (SELECT $7::bigint AS now_ms) AS clock
  ON CONFLICT (partition_key, execution_id) DO UPDATE
     SET suspension_id = excluded.suspension_id, suspended_at_ms = excluded.suspended_at_ms,
         timeout_at_ms = excluded.timeout_at_ms, reason_code = excluded.reason_code,
         condition = excluded.condition, satisfied_set = '[]', member_map = '{}',
         timeout_behavior = excluded.timeout_behavior)sql";

constexpr std::string_view kSuspendCore = R"sql(
  UPDATE ff_exec_core
     SET lifecycle_phase = 'suspended', ownership_state = 'released', eligibility_state = 'not_applicable',
         public_state = 'suspended', attempt_state = 'attempt_interrupted'
   WHERE partition_key = $1 AND execution_id = $2)sql";

// $3 attempt_index
constexpr std::string_view kSuspendAttempt = R"sql(
  UPDATE ff_attempt
     SET worker_id = NULL, worker_instance_id = NULL, lease_expires_at_ms = NULL, lease_epoch = lease_epoch + 1,
         outcome = 'attempt_interrupted'
   WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3)sql";

constexpr std::string_view kWaitpoints = R"sql(
  SELECT waitpoint_key, waitpoint_id, token FROM ff_waitpoint_pending
   WHERE partition_key = $1 AND execution_id = $2
   ORDER BY waitpoint_key)sql";

// $3 waitpoint
constexpr std::string_view kLockWaitpoint = R"sql(
  SELECT waitpoint_key, execution_id, token FROM ff_waitpoint_pending
   WHERE partition_key = $1 AND waitpoint_id = $3 AND execution_id = $2
     FOR UPDATE)sql";

// $3 key, $4 the signal's name. The condition is asked about the map as it becomes.
const std::string kAppendSignal = R"sql(
  UPDATE ff_suspension_current s
     SET member_map = n.member_map
    FROM (SELECT m.partition_key, m.execution_id,
                 jsonb_set(m.member_map, ARRAY[$3], coalesce(m.member_map->$3, '[]') || jsonb_build_object(
                   'signal_id', gen_random_uuid(), 'signal_name', $4, 'signal_category', 'user',
                   'source_type', 'client', 'source_identity', 'client', 'correlation_id', '',
                   'accepted_at', )sql" +
                                  kNowMs + R"sql(, 'payload_hex', NULL)) AS member_map
            FROM ff_suspension_current m
           WHERE m.partition_key = $1 AND m.execution_id = $2
             FOR UPDATE) AS n
   WHERE s.partition_key = n.partition_key AND s.execution_id = n.execution_id
  RETURNING EXISTS (
    SELECT FROM jsonb_array_elements(s.member_map->(s.condition->'Single'->>'waitpoint_key')) AS signal
     WHERE signal->>'signal_name' = s.condition->'Single'->'matcher'->>'ByName'),
    s.member_map->$3->-1->>'signal_id')sql";

constexpr std::string_view kMakeResumable = R"sql(
  UPDATE ff_exec_core
     SET public_state = 'resumable', lifecycle_phase = 'runnable', eligibility_state = 'eligible_now'
   WHERE partition_key = $1 AND execution_id = $2)sql";

constexpr std::string_view kCloseWaitpoints = R"sql(
  DELETE FROM ff_waitpoint_pending WHERE partition_key = $1 AND execution_id = $2)sql";

// Without flow_id, namespace and instance tag: FlowFabric's, too.
const std::string kResumableEvent = R"sql(
  INSERT INTO ff_completion_event (partition_key, execution_id, outcome, occurred_at_ms)
  VALUES ($1, $2, 'resumable', )sql" +
                                    kNowMs + ")";

// $3 signal_id, $4 waitpoint
const std::string kSignalEvent = R"sql(
  INSERT INTO ff_signal_event
      (execution_id, signal_id, waitpoint_id, source_identity, delivered_at_ms, partition_key, namespace,
       instance_tag)
  SELECT $2::text, $3, $4::text, 'client', )sql" +
                                 kNowMs + R"sql(, $1, raw_fields->>'namespace',
         raw_fields->'tags'->>'cairn.instance_id'
    FROM (VALUES (0)) AS always
    LEFT JOIN ff_exec_core ON partition_key = $1 AND execution_id = $2)sql";

void use(pg::Transaction& transaction, const Claim& claim, const Suspension& suspension,
         std::int64_t now_ms) {
  const auto kid = transaction.execute(kKid).one().get<std::string>(0);
  for (const Waitpoint& waitpoint : suspension.waitpoints) {
    const bool matters = waitpoint.key == suspension.waitpoints.front().key;
    const std::vector<std::string> names =
        matters ? std::vector<std::string>{kSignal} : std::vector<std::string>{};
    transaction.execute(kUseWaitpoint, of(claim.execution)
                                           .add(kid)
                                           .add(waitpoint.key)
                                           .add(in_ms(suspension.timeout_in))
                                           .add(waitpoint.id)
                                           .add(names)
                                           .add(now_ms));
  }
}

}  // namespace

Waitpoint Worker::create_waitpoint(const Claim& claim, const std::string& key, Milliseconds expires_in) {
  pg::Transaction transaction(connection_);
  const auto kid = transaction.execute(kKid).one().get<std::string>(0);
  const pg::Result made =
      transaction.execute(kPendingWaitpoint, of(claim.execution).add(kid).add(key).add(in_ms(expires_in)));
  transaction.commit();
  return {.key = key, .id = made.one().get<Uuid>(0), .token = made.one().get<std::string>(1)};
}

bool Worker::suspend(const Claim& claim, const Suspension& suspension) {
  const auto key = suspension.waitpoints.empty() ? std::optional<std::string>()
                                                 : std::optional(suspension.waitpoints.front().key);
  return serializable(connection_, [&](pg::Transaction& transaction) {
    if (!hold(transaction, claim)) return false;
    const auto now_ms = transaction.execute(kNow).one().get<std::int64_t>(0);
    use(transaction, claim, suspension, now_ms);
    transaction.execute(kSuspension, of(claim.execution)
                                         .add(in_ms(suspension.timeout_in))
                                         .add(suspension.timeout_behavior)
                                         .add(key)
                                         .add(kSignal)
                                         .add(now_ms));
    transaction.execute(kSuspendCore, of(claim.execution));
    transaction.execute(kSuspendAttempt, of(claim));
    append_lease_event(transaction, claim.execution, "revoked");
    transaction.commit();
    return true;
  });
}

std::vector<Waitpoint> waitpoints_of(pg::Connection& connection, const ExecutionId& execution) {
  std::vector<Waitpoint> found;
  for (const pg::Row row : connection.execute(kWaitpoints, of(execution)))
    found.push_back({row.get<std::string>(0), row.get<Uuid>(1), row.get<std::string>(2)});
  return found;
}

Delivery deliver_signal(pg::Connection& connection, const ExecutionId& execution, const Waitpoint& waitpoint,
                        const std::string& name) {
  const auto its = [&] { return of(execution).add(waitpoint.id); };
  return serializable(connection, [&](pg::Transaction& transaction) {
    const pg::Result found = transaction.execute(kLockWaitpoint, its());
    if (found.empty() || found.one().get<std::string>(2) != waitpoint.token) return Delivery::refused;
    const auto key = found.one().get<std::string>(0);
    const pg::Result appended = transaction.execute(kAppendSignal, of(execution).add(key).add(name));
    if (appended.empty()) return Delivery::refused;
    const bool satisfied = appended.one().get<bool>(0);
    if (satisfied) {
      transaction.execute(kMakeResumable, of(execution));
      transaction.execute(kCloseWaitpoints, of(execution));
      transaction.execute(kResumableEvent, of(execution));
    }
    transaction.execute(kSignalEvent,
                        of(execution).add(appended.one().get<std::string>(1)).add(waitpoint.id));
    transaction.commit();
    return satisfied ? Delivery::satisfied : Delivery::appended;
  });
}

}  // namespace ff::simulation
