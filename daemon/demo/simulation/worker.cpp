#include "demo/simulation/worker.hpp"

#include "demo/simulation/steps.hpp"

namespace ff::simulation {
namespace {

// In every statement about one attempt: $1 partition_key, $2 execution_id, $3 attempt_index.

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
         lease_epoch = a.lease_epoch + 1, lease_expires_at_ms = excluded.lease_expires_at_ms,
         started_at_ms = excluded.started_at_ms, outcome = NULL
  RETURNING lease_epoch)sql";

const std::string kActivate = R"sql(
  UPDATE ff_exec_core
     SET lifecycle_phase = 'active', ownership_state = 'leased', eligibility_state = 'not_applicable',
         public_state = 'running', attempt_state = 'running_attempt',
         started_at_ms = coalesce(started_at_ms, )sql" +
                              kNowMs + R"sql()
   WHERE partition_key = $1 AND execution_id = $2)sql";

constexpr std::string_view kLockResumable = R"sql(
  SELECT attempt_index, public_state = 'resumable' FROM ff_exec_core
   WHERE partition_key = $1 AND execution_id = $2
     FOR UPDATE)sql";

// $4 worker, $5 length of the lease in ms
const std::string kTakeAgain = R"sql(
  UPDATE ff_attempt
     SET worker_id = $4, worker_instance_id = $4, lease_epoch = lease_epoch + 1,
         lease_expires_at_ms = )sql" +
                               kNowMs + " + $5, started_at_ms = " + kNowMs + R"sql(, outcome = NULL
   WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3
  RETURNING lease_epoch)sql";

// $4 length of the lease in ms
const std::string kRenew = "UPDATE ff_attempt SET lease_expires_at_ms = " + kNowMs + R"sql( + $4
   WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3)sql";

// $4 outcome
const std::string kEndAttempt = R"sql(
  UPDATE ff_attempt SET outcome = $4, lease_expires_at_ms = NULL, terminal_at_ms = )sql" +
                                kNowMs + R"sql(
   WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3)sql";

// The attempt goes on later. $4 outcome
constexpr std::string_view kPutAttemptAside = R"sql(
  UPDATE ff_attempt SET outcome = $4, lease_expires_at_ms = NULL
   WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3)sql";

// $3 what is added to raw_fields, an object; nothing: it completes
const std::string kEndCore = R"sql(
  UPDATE ff_exec_core
     SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
         attempt_state = 'attempt_terminal', terminal_at_ms = )sql" +
                             kNowMs + R"sql(,
         raw_fields = raw_fields || jsonb_strip_nulls(jsonb_build_object('last_failure_message', $3))
   WHERE partition_key = $1 AND execution_id = $2)sql";

// $3 message
constexpr std::string_view kRetryCore = R"sql(
  UPDATE ff_exec_core
     SET lifecycle_phase = 'runnable', ownership_state = 'unowned', eligibility_state = 'eligible_now',
         attempt_state = 'pending_retry_attempt', attempt_index = attempt_index + 1,
         raw_fields = raw_fields || jsonb_build_object('last_failure_message', $3)
   WHERE partition_key = $1 AND execution_id = $2)sql";

// $3 length of the delay in ms
const std::string kDelayCore = R"sql(
  UPDATE ff_exec_core
     SET lifecycle_phase = 'runnable', ownership_state = 'unowned',
         eligibility_state = 'not_eligible_until_time', attempt_state = 'attempt_interrupted',
         deadline_at_ms = )sql" +
                               kNowMs + R"sql( + $3
   WHERE partition_key = $1 AND execution_id = $2)sql";

constexpr std::string_view kWaitCore = R"sql(
  UPDATE ff_exec_core
     SET lifecycle_phase = 'runnable', ownership_state = 'unowned',
         eligibility_state = 'blocked_by_dependencies', attempt_state = 'attempt_interrupted',
         blocking_reason = 'waiting_for_children'
   WHERE partition_key = $1 AND execution_id = $2)sql";

}  // namespace

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
      transaction.execute(kTakeAttempt, of(claim).add(id_).add(in_ms(lease_ttl_))).one().get<std::int64_t>(0);
  transaction.execute(kActivate, of(claim.execution));
  append_lease_event(transaction, claim.execution, "acquired");
  transaction.commit();
  return claim;
}

std::optional<Claim> Worker::claim_resumed(const ExecutionId& execution) {
  constexpr bool kWithLeaseId = true;
  pg::Transaction transaction(connection_);
  const pg::Result core = transaction.execute(kLockResumable, of(execution));
  if (core.empty() || !core.one().get<bool>(1)) return std::nullopt;
  Claim claim{execution, core.one().get<std::int32_t>(0)};
  const pg::Result taken = transaction.execute(kTakeAgain, of(claim).add(id_).add(in_ms(lease_ttl_)));
  // FlowFabric, too, fails where the row is not there, and undoes all.
  if (taken.empty()) return std::nullopt;
  claim.lease_epoch = taken.one().get<std::int64_t>(0);
  transaction.execute(kActivate, of(execution));
  append_lease_event(transaction, execution, "acquired", kWithLeaseId);
  transaction.commit();
  return claim;
}

bool Worker::renew(const Claim& claim) {
  pg::Transaction transaction(connection_);
  if (!hold(transaction, claim)) return false;
  transaction.execute(kRenew, of(claim).add(in_ms(lease_ttl_)));
  append_lease_event(transaction, claim.execution, "renewed");
  transaction.commit();
  return true;
}

bool Worker::complete(const Claim& claim) {
  pg::Transaction transaction(connection_);
  if (!hold(transaction, claim)) return false;
  transaction.execute(kEndAttempt, of(claim).add("success"));
  transaction.execute(kEndCore, of(claim.execution).add(std::optional<std::string>()));
  append_completion_event(transaction, claim.execution, "success");
  append_lease_event(transaction, claim.execution, "revoked");
  transaction.commit();
  return true;
}

bool Worker::fail(const Claim& claim, bool retryable, const std::string& message) {
  pg::Transaction transaction(connection_);
  if (!hold(transaction, claim)) return false;
  transaction.execute(kEndAttempt, of(claim).add(retryable ? "retry" : "failed"));
  if (retryable) {
    transaction.execute(kRetryCore, of(claim.execution).add(message));
  } else {
    transaction.execute(kEndCore, of(claim.execution).add(std::optional(message)));
    append_completion_event(transaction, claim.execution, "failed");
  }
  append_lease_event(transaction, claim.execution, "revoked");
  transaction.commit();
  return true;
}

bool Worker::delay(const Claim& claim, Milliseconds length) {
  pg::Transaction transaction(connection_);
  if (!hold(transaction, claim)) return false;
  transaction.execute(kPutAttemptAside, of(claim).add("interrupted"));
  transaction.execute(kDelayCore, of(claim.execution).add(in_ms(length)));
  append_lease_event(transaction, claim.execution, "revoked");
  transaction.commit();
  return true;
}

bool Worker::wait_for_children(const Claim& claim) {
  pg::Transaction transaction(connection_);
  if (!hold(transaction, claim)) return false;
  transaction.execute(kPutAttemptAside, of(claim).add("waiting_children"));
  transaction.execute(kWaitCore, of(claim.execution));
  append_lease_event(transaction, claim.execution, "revoked");
  transaction.commit();
  return true;
}

}  // namespace ff::simulation
