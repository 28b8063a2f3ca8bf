#include "demo/simulation/granted_worker.hpp"

#include "demo/simulation/steps.hpp"

namespace ff::simulation {
namespace {

// In every statement: $1 partition_key, $2 execution_id; about an attempt: $3 attempt_index.

constexpr std::string_view kLockCore = R"sql(
  SELECT lifecycle_phase, ownership_state, eligibility_state, attempt_state, attempt_index,
         (raw_fields->>'total_attempt_count')::integer
    FROM ff_exec_core WHERE partition_key = $1 AND execution_id = $2
     FOR UPDATE)sql";

// $3 worker
const std::string kUseGrant = R"sql(
  DELETE FROM ff_claim_grant
   WHERE partition_key = $1 AND execution_id = $2 AND kind = 'claim' AND worker_id = $3
     AND (expires_at_ms <= 0 OR expires_at_ms >= )sql" +
                              kNowMs + ")";

// $4 worker, $5 length of the lease in ms, $6 attempt_type
const std::string kTakeAttempt = R"sql(
  INSERT INTO ff_attempt AS a
      (partition_key, execution_id, attempt_index, worker_id, worker_instance_id, lease_epoch,
       lease_expires_at_ms, started_at_ms, raw_fields)
  VALUES ($1, $2, $3, $4, $4, 1, )sql" +
                                 kNowMs + " + $5, " + kNowMs + R"sql(,
          jsonb_build_object('attempt_type', $6, 'attempt_id', gen_random_uuid(), 'lease_id', gen_random_uuid()))
  ON CONFLICT (partition_key, execution_id, attempt_index) DO UPDATE
     SET worker_id = excluded.worker_id, worker_instance_id = excluded.worker_instance_id,
         lease_epoch = a.lease_epoch + 1, lease_expires_at_ms = excluded.lease_expires_at_ms,
         started_at_ms = coalesce(a.started_at_ms, excluded.started_at_ms),
         raw_fields = a.raw_fields || excluded.raw_fields, terminal_at_ms = NULL, outcome = NULL
  RETURNING lease_epoch)sql";

// $3 attempt_index of the claim, $4 worker, $5 public_state
constexpr std::string_view kActivate = R"sql(
  UPDATE ff_exec_core c
     SET lifecycle_phase = 'active', ownership_state = 'leased', eligibility_state = 'not_applicable',
         attempt_state = 'running_attempt', public_state = $5, attempt_index = $3 + 1,
         raw_fields = c.raw_fields || jsonb_build_object(
           'current_attempt_id', a.raw_fields->'attempt_id', 'current_lease_id', a.raw_fields->'lease_id',
           'current_worker_id', $4, 'current_worker_instance_id', $4, 'pending_retry_reason', '',
           'pending_replay_reason', '', 'pending_replay_requested_by', '', 'pending_previous_attempt_index', '')
    FROM ff_attempt a
   WHERE c.partition_key = $1 AND c.execution_id = $2
     AND a.partition_key = $1 AND a.execution_id = $2 AND a.attempt_index = $3)sql";

// $4 worker, $5 length of the lease in ms
const std::string kTakeAgain = R"sql(
  UPDATE ff_attempt
     SET worker_id = $4, worker_instance_id = $4, lease_epoch = lease_epoch + 1,
         lease_expires_at_ms = )sql" +
                               kNowMs + " + $5, started_at_ms = " + kNowMs + R"sql(, outcome = NULL
   WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3
  RETURNING lease_epoch)sql";

const std::string kGoOn = R"sql(
  UPDATE ff_exec_core
     SET lifecycle_phase = 'active', ownership_state = 'leased', eligibility_state = 'not_applicable',
         public_state = 'running', attempt_state = 'running_attempt',
         started_at_ms = coalesce(started_at_ms, )sql" +
                          kNowMs + R"sql()
   WHERE partition_key = $1 AND execution_id = $2)sql";

constexpr std::string_view kHasLease = R"sql(
  SELECT c.lifecycle_phase = 'active', a.lease_expires_at_ms > extract(epoch FROM clock_timestamp()) * 1000
    FROM ff_exec_core c
    JOIN ff_attempt a ON a.partition_key = c.partition_key AND a.execution_id = c.execution_id
   WHERE c.partition_key = $1 AND c.execution_id = $2 AND a.attempt_index = $3)sql";

// $4 length of the lease in ms
const std::string kRenew = "UPDATE ff_attempt SET lease_expires_at_ms = " + kNowMs + R"sql( + $4
   WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3)sql";

// $4 outcome
const std::string kEndAttempt = R"sql(
  UPDATE ff_attempt SET outcome = $4, lease_expires_at_ms = NULL, terminal_at_ms = )sql" +
                                kNowMs + R"sql(
   WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3)sql";

// $3 public_state, $4 terminal_outcome, $5 failure_reason or null
const std::string kEndCore = R"sql(
  UPDATE ff_exec_core
     SET lifecycle_phase = 'terminal', ownership_state = 'unowned', eligibility_state = 'not_applicable',
         attempt_state = 'attempt_terminal', public_state = $3, terminal_at_ms = )sql" +
                             kNowMs + R"sql(,
         raw_fields = raw_fields || jsonb_strip_nulls(
           jsonb_build_object('terminal_outcome', $4, 'failure_reason', $5))
   WHERE partition_key = $1 AND execution_id = $2)sql";

// The namespace is carried forward here, and a tag that nobody writes.
const std::string kCompleted = R"sql(
  INSERT INTO ff_completion_event
      (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms)
  SELECT partition_key, execution_id, flow_id, 'success', raw_fields->>'namespace',
         raw_fields->>'instance_tag', )sql" +
                               kNowMs + R"sql(
    FROM ff_exec_core WHERE partition_key = $1 AND execution_id = $2)sql";

constexpr std::string_view kRetries = R"sql(
  SELECT lifecycle_phase = 'active', coalesce((raw_fields->>'retry_count')::integer, 0)
    FROM ff_exec_core WHERE partition_key = $1 AND execution_id = $2
     FOR UPDATE)sql";

// $3 attempt_index, $4 retries so far, $5 backoff in ms, $6 reason. The attempt_index stays.
const std::string kBackOff = R"sql(
  UPDATE ff_exec_core
     SET lifecycle_phase = 'runnable', ownership_state = 'unowned',
         eligibility_state = 'not_eligible_until_time', attempt_state = 'pending_retry_attempt',
         blocking_reason = 'waiting_for_retry_backoff', public_state = 'delayed',
         raw_fields = raw_fields || jsonb_build_object(
           'pending_retry_reason', $6, 'pending_previous_attempt_index', $3::text,
           'retry_count', ($4 + 1)::text, 'delay_until', ()sql" +
                             kNowMs + R"sql( + $5)::text, 'failure_reason', $6)
   WHERE partition_key = $1 AND execution_id = $2)sql";

struct Core {
  std::string phase, ownership, eligibility, attempt_state;
  std::int32_t attempt_index = 0;
  std::optional<std::int32_t> total_attempt_count;

  bool can_be_granted() const {
    return phase == "runnable" && ownership == "unowned" && attempt_state != "running_attempt";
  }
  std::string attempt_type() const {
    if (attempt_state == "pending_retry_attempt") return "retry";
    return attempt_state == "pending_replay_attempt" ? "replay" : "initial";
  }
};

std::optional<Core> lock_core(pg::Transaction& transaction, const ExecutionId& execution) {
  const pg::Result found = transaction.execute(kLockCore, of(execution));
  if (found.empty()) return std::nullopt;
  const pg::Row row = found.one();
  const auto word = [&](int column) { return row.get<std::string>(column); };
  return Core{
      word(0), word(1), word(2), word(3), row.get<std::int32_t>(4), row.get<std::optional<std::int32_t>>(5)};
}

struct Terms {
  std::string worker;
  Milliseconds lease_ttl;
  std::string public_state;
};

void take(pg::Transaction& transaction, Claim& claim, const Core& core, const Terms& terms) {
  claim.lease_epoch =
      transaction
          .execute(kTakeAttempt,
                   of(claim).add(terms.worker).add(in_ms(terms.lease_ttl)).add(core.attempt_type()))
          .one()
          .get<std::int64_t>(0);
  transaction.execute(kActivate, of(claim).add(terms.worker).add(terms.public_state));
}

}  // namespace

GrantedWorker::GrantedWorker(pg::Connection& connection, std::string worker_id, Milliseconds lease_ttl,
                             std::string lane)
    : connection_(connection), id_(std::move(worker_id)), lease_ttl_(lease_ttl), lane_(std::move(lane)) {}

std::optional<Claim> GrantedWorker::claim_granted(const ExecutionId& execution) {
  pg::Transaction transaction(connection_);
  const auto core = lock_core(transaction, execution);
  if (!core || !core->can_be_granted() || core->eligibility != "eligible_now") return std::nullopt;
  if (core->attempt_state == "attempt_interrupted") return std::nullopt;
  if (transaction.execute(kUseGrant, of(execution).add(id_)).affected() == 0) return std::nullopt;
  Claim claim{execution, core->total_attempt_count.value_or(0)};
  take(transaction, claim, *core, {id_, lease_ttl_, "active"});
  append_lease_event(transaction, execution, "acquired");
  transaction.commit();
  return claim;
}

std::optional<Claim> GrantedWorker::grant_and_claim(const ExecutionId& execution) {
  constexpr const char* kOperator = "operator";
  constexpr bool kWithLeaseId = true;
  pg::Transaction transaction(connection_);
  const auto core = lock_core(transaction, execution);
  if (!core) return std::nullopt;
  Claim claim{execution, core->attempt_index};
  if (core->attempt_state == "attempt_interrupted") {
    const pg::Result taken = transaction.execute(kTakeAgain, of(claim).add(kOperator).add(in_ms(lease_ttl_)));
    if (taken.empty()) return std::nullopt;
    claim.lease_epoch = taken.one().get<std::int64_t>(0);
    transaction.execute(kGoOn, of(execution));
  } else {
    const bool eligible = core->eligibility == "eligible_now" || core->eligibility == "pending_claim";
    if (!core->can_be_granted() || !eligible || core->attempt_state == "pending") return std::nullopt;
    take(transaction, claim, *core, {kOperator, lease_ttl_, "running"});
  }
  append_lease_event(transaction, execution, "acquired", kWithLeaseId);
  transaction.commit();
  return claim;
}

// Locks the attempt, and says whether its lease is still this claim's and alive.
bool GrantedWorker::fenced(pg::Transaction& transaction, const Claim& claim) const {
  if (!hold(transaction, claim)) return false;
  const pg::Result found = transaction.execute(kHasLease, of(claim));
  return !found.empty() && found.one().get<bool>(0) && found.one().get<std::optional<bool>>(1) == true;
}

bool GrantedWorker::renew(const Claim& claim) {
  pg::Transaction transaction(connection_);
  if (!fenced(transaction, claim)) return false;
  transaction.execute(kRenew, of(claim).add(in_ms(lease_ttl_)));
  append_lease_event(transaction, claim.execution, "renewed");
  transaction.commit();
  return true;
}

// Locks the execution first, unlike the others.
bool GrantedWorker::complete(const Claim& claim) {
  pg::Transaction transaction(connection_);
  if (!lock_core(transaction, claim.execution) || !fenced(transaction, claim)) return false;
  transaction.execute(kEndAttempt, of(claim).add("success"));
  transaction.execute(kEndCore,
                      of(claim.execution).add("completed").add("success").add(std::optional<std::string>()));
  transaction.execute(kCompleted, of(claim.execution));
  append_lease_event(transaction, claim.execution, "revoked");
  transaction.commit();
  return true;
}

GrantedWorker::Failed GrantedWorker::fail(const Claim& claim, std::int32_t max_retries, Milliseconds backoff,
                                          const std::string& reason) {
  pg::Transaction transaction(connection_);
  if (!hold(transaction, claim)) return Failed::refused;
  const pg::Result core = transaction.execute(kRetries, of(claim.execution));
  if (core.empty() || !core.one().get<bool>(0)) return Failed::refused;
  const auto retries = core.one().get<std::int32_t>(1);
  const bool again = retries < max_retries;
  transaction.execute(kEndAttempt, of(claim).add("failure"));
  if (again) {
    transaction.execute(kBackOff, of(claim).add(retries).add(in_ms(backoff)).add(reason));
  } else {
    transaction.execute(kEndCore, of(claim.execution).add("failed").add("failed").add(std::optional(reason)));
    append_completion_event(transaction, claim.execution, "failed");
  }
  append_lease_event(transaction, claim.execution, "revoked");
  transaction.commit();
  return again ? Failed::to_be_retried : Failed::ended;
}

}  // namespace ff::simulation
