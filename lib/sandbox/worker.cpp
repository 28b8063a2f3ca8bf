#include "sandbox/worker.hpp"

#include "lease/outbox.hpp"

namespace ff::sandbox {
namespace {

const std::string kNowMs = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

// In every statement about one attempt: $1 partition_key, $2 execution_id, $3 attempt_index.

// $1 partitions, $2 flow_id, $3 lane, $4 max_retries, $5 priority, $6 deadline in ms from now, $7 namespace,
// $8 tag cairn.instance_id, $9 how many
const std::string kCreate = R"sql(
  INSERT INTO ff_exec_core
      (partition_key, execution_id, flow_id, lane_id, lifecycle_phase, ownership_state, eligibility_state,
       public_state, attempt_state, priority, created_at_ms, deadline_at_ms, policy, raw_fields)
  SELECT ($1::smallint[])[1 + i % cardinality($1)], gen_random_uuid(), $2, $3, 'runnable', 'unowned',
         'eligible_now', 'waiting', 'pending', $5, )sql" +
                            kNowMs + ", " + kNowMs + R"sql( + $6,
         CASE WHEN $4 IS NOT NULL
              THEN jsonb_build_object('retry_policy', jsonb_build_object('max_retries', $4)) END,
         jsonb_strip_nulls(jsonb_build_object('namespace', $7, 'tags',
                                              jsonb_build_object('cairn.instance_id', $8)))
    FROM generate_series(0, $9 - 1) AS i
  RETURNING partition_key, execution_id)sql";

// $1 partitions, $2 lane. In random order, so that workers do not queue up in the first.
constexpr std::string_view kPartitionsWithWork = R"sql(
  SELECT key FROM unnest($1) AS key
   CROSS JOIN LATERAL (SELECT FROM ff_exec_core
                        WHERE partition_key = key AND lane_id = $2 AND lifecycle_phase = 'runnable'
                          AND eligibility_state = 'eligible_now'
                        LIMIT 1) AS work
   ORDER BY random())sql";

// $1 partition_key, $2 lane
const std::string kNextCandidate = R"sql(
  SELECT partition_key, execution_id, attempt_index FROM ff_exec_core
   WHERE partition_key = $1 AND lane_id = $2 AND lifecycle_phase = 'runnable'
     AND eligibility_state = 'eligible_now'
   ORDER BY priority DESC, created_at_ms
   LIMIT 1
     FOR UPDATE SKIP LOCKED)sql";

const std::string kNamedCandidate = R"sql(
  SELECT partition_key, execution_id, attempt_index FROM ff_exec_core
   WHERE partition_key = $1 AND execution_id = $2 AND lifecycle_phase = 'runnable'
     AND eligibility_state = 'eligible_now'
     FOR UPDATE SKIP LOCKED)sql";

// $4 worker, $5 length of the lease in ms
const std::string kTakeAttempt = R"sql(
  INSERT INTO ff_attempt AS a
      (partition_key, execution_id, attempt_index, worker_id, worker_instance_id, lease_epoch,
       lease_expires_at_ms, started_at_ms)
  VALUES ($1, $2, $3, $4, $4, 1, )sql" +
                                 kNowMs + " + $5, " + kNowMs + R"sql()
  ON CONFLICT (partition_key, execution_id, attempt_index) DO UPDATE
     SET worker_id = excluded.worker_id, worker_instance_id = excluded.worker_instance_id,
         lease_epoch = a.lease_epoch + 1, lease_expires_at_ms = excluded.lease_expires_at_ms, outcome = NULL
  RETURNING lease_epoch)sql";

const std::string kActivate = R"sql(
  UPDATE ff_exec_core
     SET lifecycle_phase = 'active', ownership_state = 'leased', eligibility_state = 'not_applicable',
         public_state = 'running', attempt_state = 'running_attempt',
         started_at_ms = coalesce(started_at_ms, )sql" +
                              kNowMs + R"sql()
   WHERE partition_key = $1 AND execution_id = $2)sql";

constexpr std::string_view kLockAttempt = R"sql(
  SELECT lease_epoch FROM ff_attempt
   WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3
     FOR UPDATE)sql";

// $4 length of the lease in ms
const std::string kRenew = "UPDATE ff_attempt SET lease_expires_at_ms = " + kNowMs + R"sql( + $4
   WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3)sql";

// $4 outcome
const std::string kEndAttempt = R"sql(
  UPDATE ff_attempt SET outcome = $4, lease_expires_at_ms = NULL, terminal_at_ms = )sql" +
                                kNowMs + R"sql(
   WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3)sql";

// The attempt goes on later. $4 what is added to the epoch
constexpr std::string_view kInterruptAttempt = R"sql(
  UPDATE ff_attempt SET outcome = 'interrupted', lease_expires_at_ms = NULL, lease_epoch = lease_epoch + $4
   WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3)sql";

// $3 public_state
const std::string kEndCore = R"sql(
  UPDATE ff_exec_core
     SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
         public_state = $3, attempt_state = 'attempt_terminal', terminal_at_ms = )sql" +
                             kNowMs + R"sql(
   WHERE partition_key = $1 AND execution_id = $2)sql";

constexpr std::string_view kRetryCore = R"sql(
  UPDATE ff_exec_core
     SET lifecycle_phase = 'runnable', ownership_state = 'unowned', eligibility_state = 'eligible_now',
         public_state = 'waiting', attempt_state = 'pending_retry_attempt', attempt_index = attempt_index + 1
   WHERE partition_key = $1 AND execution_id = $2)sql";

// $3 length of the delay in ms
const std::string kDelayCore = R"sql(
  UPDATE ff_exec_core
     SET lifecycle_phase = 'runnable', ownership_state = 'unowned',
         eligibility_state = 'not_eligible_until_time', public_state = 'delayed',
         attempt_state = 'attempt_interrupted', deadline_at_ms = )sql" +
                               kNowMs + R"sql( + $3
   WHERE partition_key = $1 AND execution_id = $2)sql";

constexpr std::string_view kSuspendCore = R"sql(
  UPDATE ff_exec_core
     SET lifecycle_phase = 'suspended', ownership_state = 'released', eligibility_state = 'not_applicable',
         public_state = 'suspended', attempt_state = 'attempt_interrupted'
   WHERE partition_key = $1 AND execution_id = $2)sql";

// $3 key, $4 life in ms
const std::string kAddWaitpoint = R"sql(
  INSERT INTO ff_waitpoint_pending
      (partition_key, waitpoint_id, execution_id, token_kid, token, created_at_ms, expires_at_ms, waitpoint_key)
  VALUES ($1, gen_random_uuid(), $2, 'sandbox', gen_random_uuid()::text, )sql" +
                                  kNowMs + ", " + kNowMs + " + $4, $3)";

// $3 timeout in ms, $4 timeout_behavior
const std::string kAddSuspension = R"sql(
  INSERT INTO ff_suspension_current
      (partition_key, execution_id, suspension_id, suspended_at_ms, timeout_at_ms, condition, timeout_behavior)
  VALUES ($1, $2, gen_random_uuid(), )sql" +
                                   kNowMs + ", " + kNowMs + R"sql( + $3, '{"kind": "signal"}', $4))sql";

// $3 outcome
const std::string kCompletionEvent = R"sql(
  INSERT INTO ff_completion_event
      (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms)
  SELECT partition_key, execution_id, flow_id, $3, raw_fields->>'namespace',
         raw_fields->'tags'->>'cairn.instance_id', )sql" +
                                     kNowMs + R"sql(
    FROM ff_exec_core WHERE partition_key = $1 AND execution_id = $2)sql";

// A lease can outlive its core row, and still has its event.
std::string lease_event(lease::EventType type) {
  return lease::append_events(type, R"sql((
    SELECT $1 AS partition_key, $2 AS execution_id, )sql" +
                                        kNowMs +
                                        R"sql( AS now_ms, raw_fields->>'namespace' AS name_space,
           raw_fields->'tags'->>'cairn.instance_id' AS instance_tag
      FROM (VALUES (0)) AS always
      LEFT JOIN ff_exec_core ON partition_key = $1 AND execution_id = $2) AS lease)sql");
}
const std::string kAcquired = lease_event(lease::EventType::acquired);
const std::string kRenewed = lease_event(lease::EventType::renewed);
const std::string kRevoked = lease_event(lease::EventType::revoked);

std::optional<std::int64_t> in_ms(const std::optional<Milliseconds>& duration) {
  return duration ? std::optional<std::int64_t>(duration->count()) : std::nullopt;
}

pg::Params execution_of(const Claim& claim) {
  return pg::Params::of(claim.execution.partition, claim.execution.uuid);
}

pg::Params attempt_of(const Claim& claim) {
  return execution_of(claim).add(claim.attempt_index);
}

}  // namespace

ExecutionId create(pg::Connection& connection, const NewExecution& execution) {
  return create(connection, execution, {execution.partition}, 1).front();
}

std::vector<ExecutionId> create(pg::Connection& connection, const NewExecution& like,
                                const Partitions& partitions, int count) {
  pg::Transaction transaction(connection);
  const pg::Result made = transaction.execute(
      kCreate, pg::Params::of(partitions, like.flow, like.lane, like.max_retries, like.priority,
                              in_ms(like.deadline_in), like.name_space, like.instance_tag, count));
  transaction.commit();
  std::vector<ExecutionId> ids;
  ids.reserve(static_cast<std::size_t>(made.size()));
  for (const pg::Row row : made) ids.push_back({row.get<PartitionKey>(0), row.get<Uuid>(1)});
  return ids;
}

Worker::Worker(pg::Connection& connection, std::string worker_id, Milliseconds lease_ttl, std::string lane)
    : connection_(connection), id_(std::move(worker_id)), lease_ttl_(lease_ttl), lane_(std::move(lane)) {}

std::optional<Claim> Worker::claim(const Partitions& partitions) {
  if (partitions.size() == 1) return take(kNextCandidate, pg::Params::of(partitions.front(), lane_));
  const pg::Result found =
      connection_.execute_prepared(kPartitionsWithWork, pg::Params::of(partitions, lane_));
  for (const pg::Row row : found) {
    if (auto claim = take(kNextCandidate, pg::Params::of(row.get<PartitionKey>(0), lane_))) return claim;
  }
  return std::nullopt;
}

std::optional<Claim> Worker::claim_one(const ExecutionId& execution) {
  return take(kNamedCandidate, pg::Params::of(execution.partition, execution.uuid));
}

std::optional<Claim> Worker::take(const std::string& candidate, const pg::Params& params) {
  pg::Transaction transaction(connection_);
  const pg::Result found = transaction.execute(candidate, params);
  if (found.empty()) return std::nullopt;
  const pg::Row core = found.one();
  Claim claim{{core.get<PartitionKey>(0), core.get<Uuid>(1)}, core.get<std::int32_t>(2)};
  claim.lease_epoch =
      transaction.execute(kTakeAttempt, attempt_of(claim).add(id_).add(std::int64_t{lease_ttl_.count()}))
          .one()
          .get<std::int64_t>(0);
  transaction.execute(kActivate, execution_of(claim));
  transaction.execute(kAcquired, execution_of(claim));
  transaction.commit();
  return claim;
}

// Locks the attempt, if it is still ours.
bool Worker::hold(pg::Transaction& transaction, const Claim& claim) const {
  const pg::Result found = transaction.execute(kLockAttempt, attempt_of(claim));
  return !found.empty() && found.one().get<std::int64_t>(0) == claim.lease_epoch;
}

bool Worker::renew(const Claim& claim) {
  pg::Transaction transaction(connection_);
  if (!hold(transaction, claim)) return false;
  transaction.execute(kRenew, attempt_of(claim).add(std::int64_t{lease_ttl_.count()}));
  transaction.execute(kRenewed, execution_of(claim));
  transaction.commit();
  return true;
}

bool Worker::complete(const Claim& claim) {
  pg::Transaction transaction(connection_);
  if (!hold(transaction, claim)) return false;
  transaction.execute(kEndAttempt, attempt_of(claim).add("success"));
  transaction.execute(kEndCore, execution_of(claim).add("completed"));
  transaction.execute(kCompletionEvent, execution_of(claim).add("success"));
  transaction.execute(kRevoked, execution_of(claim));
  transaction.commit();
  return true;
}

bool Worker::fail(const Claim& claim, bool retryable) {
  pg::Transaction transaction(connection_);
  if (!hold(transaction, claim)) return false;
  transaction.execute(kEndAttempt, attempt_of(claim).add(retryable ? "retry" : "failed"));
  if (retryable) {
    transaction.execute(kRetryCore, execution_of(claim));
  } else {
    transaction.execute(kEndCore, execution_of(claim).add("failed"));
    transaction.execute(kCompletionEvent, execution_of(claim).add("failed"));
  }
  transaction.execute(kRevoked, execution_of(claim));
  transaction.commit();
  return true;
}

bool Worker::delay(const Claim& claim, Milliseconds length) {
  constexpr std::int64_t kSameEpoch = 0;
  pg::Transaction transaction(connection_);
  if (!hold(transaction, claim)) return false;
  transaction.execute(kInterruptAttempt, attempt_of(claim).add(kSameEpoch));
  transaction.execute(kDelayCore, execution_of(claim).add(std::int64_t{length.count()}));
  transaction.execute(kRevoked, execution_of(claim));
  transaction.commit();
  return true;
}

bool Worker::suspend(const Claim& claim, const Suspension& suspension) {
  constexpr std::int64_t kNextEpoch = 1;
  pg::Transaction transaction(connection_);
  if (!hold(transaction, claim)) return false;
  for (const auto& waitpoint : suspension.waitpoints)
    transaction.execute(kAddWaitpoint,
                        execution_of(claim).add(waitpoint.key).add(in_ms(waitpoint.expires_in)));
  transaction.execute(kAddSuspension,
                      execution_of(claim).add(in_ms(suspension.timeout_in)).add(suspension.timeout_behavior));
  transaction.execute(kSuspendCore, execution_of(claim));
  transaction.execute(kInterruptAttempt, attempt_of(claim).add(kNextEpoch));
  transaction.execute(kRevoked, execution_of(claim));
  transaction.commit();
  return true;
}

}  // namespace ff::sandbox
