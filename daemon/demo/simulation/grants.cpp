// The grants of a GrantedWorker, and what is taken over with one.
#include "demo/simulation/granted_worker.hpp"
#include "demo/simulation/steps.hpp"

namespace ff::simulation {
namespace {

// $1 partition_key, $2 lane
constexpr std::string_view kCandidate = R"sql(
  SELECT execution_id FROM ff_exec_core
   WHERE partition_key = $1 AND lane_id = $2 AND lifecycle_phase = 'runnable'
     AND eligibility_state = 'eligible_now'
   ORDER BY priority DESC, created_at_ms
   LIMIT 1
     FOR UPDATE SKIP LOCKED)sql";

// In the others: $1 partition_key, $2 execution_id.

// $3 kind, $4 worker, $5 lane or null, $6 time to live in ms, $7 how far its writer's clock is ahead. The key of a
// grant is signed, and its hash is the grant's id.
const std::string kGrant = R"sql(
  INSERT INTO ff_claim_grant
      (partition_key, grant_id, execution_id, kind, worker_id, worker_instance_id, lane_id, grant_ttl_ms,
       issued_at_ms, expires_at_ms)
  SELECT $1, sha256(key::bytea), $2, $3, $4, $4, $5, $6, now_ms, now_ms + $6
    FROM (SELECT now_ms, 'pg:' || $3 || ':{fp:' || $1 || '}:' || $2 || ':' || now_ms + $6 || ':' ||
                         gen_random_uuid() AS key
            FROM (SELECT )sql" +
                           kNowMs + R"sql( + $7 AS now_ms) AS clock) AS signed
  RETURNING 'pg:{fp:' || $1 || '}:' || $2 || ':' || expires_at_ms, issued_at_ms, expires_at_ms)sql";

// $3 worker, $4 key, $5 and $6 when the grant was issued and ends. Older workers read it from here.
constexpr std::string_view kPendingClaim = R"sql(
  UPDATE ff_exec_core
     SET eligibility_state = 'pending_claim',
         raw_fields = raw_fields || jsonb_build_object('claim_grant', jsonb_build_object(
           'grant_key', $4, 'worker_id', $3, 'worker_instance_id', $3, 'issued_at_ms', $5, 'expires_at_ms', $6))
   WHERE partition_key = $1 AND execution_id = $2)sql";

// $3 how far the clock is ahead. The row that the execution's index names need not be there.
const std::string kReclaimable = R"sql(
  SELECT c.lifecycle_phase = 'active'
         AND CASE WHEN a.lease_expires_at_ms IS NOT NULL THEN a.lease_expires_at_ms <= )sql" +
                                 kNowMs + R"sql( + $3
                  ELSE coalesce(a.worker_instance_id, '') = '' END
    FROM ff_exec_core c
    LEFT JOIN ff_attempt a ON a.partition_key = c.partition_key AND a.execution_id = c.execution_id
                          AND a.attempt_index = c.attempt_index
   WHERE c.partition_key = $1 AND c.execution_id = $2
     FOR NO KEY UPDATE OF c)sql";

constexpr std::string_view kLockGrant = R"sql(
  SELECT grant_id FROM ff_claim_grant
   WHERE partition_key = $1 AND execution_id = $2 AND kind = 'reclaim'
   ORDER BY issued_at_ms DESC
   LIMIT 1
     FOR UPDATE)sql";

// Of the newest, $3 worker
const std::string kUseGrant = R"sql(
  DELETE FROM ff_claim_grant g
   WHERE partition_key = $1 AND execution_id = $2 AND kind = 'reclaim' AND worker_id = $3
     AND expires_at_ms > )sql" +
                              kNowMs + R"sql(
     AND issued_at_ms = (SELECT max(issued_at_ms) FROM ff_claim_grant n
                          WHERE n.partition_key = $1 AND n.execution_id = $2 AND n.kind = 'reclaim'))sql";

constexpr std::string_view kReclaimed = R"sql(
  SELECT c.attempt_index, coalesce(a.lease_epoch, 0), c.lifecycle_phase IN ('terminal', 'cancelled')
    FROM ff_exec_core c
    LEFT JOIN ff_attempt a ON a.partition_key = c.partition_key AND a.execution_id = c.execution_id
                          AND a.attempt_index = c.attempt_index
   WHERE c.partition_key = $1 AND c.execution_id = $2
     FOR NO KEY UPDATE OF c)sql";

// $3 attempt_index. Lease and epoch stay.
const std::string kLeaveAttempt = R"sql(
  UPDATE ff_attempt
     SET outcome = 'interrupted_reclaimed', terminal_at_ms = coalesce(terminal_at_ms, )sql" +
                                  kNowMs + R"sql()
   WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3)sql";

// $3 attempt_index, $4 worker, $5 lease_epoch, $6 length of the lease in ms
const std::string kNextAttempt = R"sql(
  INSERT INTO ff_attempt
      (partition_key, execution_id, attempt_index, worker_id, worker_instance_id, lease_epoch,
       lease_expires_at_ms, started_at_ms, raw_fields)
  VALUES ($1, $2, $3, $4, $4, $5, )sql" +
                                 kNowMs + " + $6, " + kNowMs + R"sql(, '{"attempt_type": "reclaim"}'))sql";

// $3 attempt_index
const std::string kTakeOver = R"sql(
  UPDATE ff_exec_core
     SET lifecycle_phase = 'active', ownership_state = 'leased', eligibility_state = 'not_applicable',
         public_state = 'running', attempt_state = 'running_attempt', attempt_index = $3,
         lease_reclaim_count = lease_reclaim_count + 1, started_at_ms = coalesce(started_at_ms, )sql" +
                              kNowMs + R"sql()
   WHERE partition_key = $1 AND execution_id = $2)sql";

}  // namespace

std::optional<ExecutionId> GrantedWorker::ask_scheduler(const Partitions& partitions) {
  const pg::Result keys =
      connection_.execute_prepared(kPartitionsWithWork, pg::Params::of(partitions, lane_));
  for (const pg::Row row : keys) {
    const auto partition = row.get<PartitionKey>(0);
    pg::Transaction transaction(connection_);
    const pg::Result found = transaction.execute(kCandidate, pg::Params::of(partition, lane_));
    if (found.empty()) continue;
    const ExecutionId execution{partition, found.one().get<Uuid>(0)};
    const pg::Result granted = transaction.execute(kGrant, of(execution)
                                                               .add("claim")
                                                               .add(id_)
                                                               .add(std::optional<std::string>())
                                                               .add(in_ms(lease_ttl_))
                                                               .add(std::int64_t{0}));
    transaction.execute(kPendingClaim, of(execution)
                                           .add(id_)
                                           .add(granted.one().get<std::string>(0))
                                           .add(granted.one().get<std::int64_t>(1))
                                           .add(granted.one().get<std::int64_t>(2)));
    transaction.commit();
    return execution;
  }
  return std::nullopt;
}

void GrantedWorker::grant(const ExecutionId& execution, Milliseconds ttl) {
  connection_.execute(
      kGrant,
      of(execution).add("claim").add(id_).add(std::optional(lane_)).add(in_ms(ttl)).add(std::int64_t{0}));
}

bool GrantedWorker::issue_reclaim_grant(const ExecutionId& execution, Milliseconds ttl,
                                        Milliseconds clock_ahead) {
  return serializable(connection_, [&](pg::Transaction& transaction) {
    const pg::Result core = transaction.execute(kReclaimable, of(execution).add(in_ms(clock_ahead)));
    if (core.empty() || !core.one().get<bool>(0)) return false;
    transaction.execute(kGrant, of(execution)
                                    .add("reclaim")
                                    .add(id_)
                                    .add(std::optional(lane_))
                                    .add(in_ms(ttl))
                                    .add(in_ms(clock_ahead)));
    transaction.commit();
    return true;
  });
}

std::optional<Claim> GrantedWorker::reclaim(const ExecutionId& execution) {
  return serializable(connection_, [&](pg::Transaction& transaction) -> std::optional<Claim> {
    if (transaction.execute(kLockGrant, of(execution)).empty()) return std::nullopt;
    if (transaction.execute(kUseGrant, of(execution).add(id_)).affected() == 0) return std::nullopt;
    const pg::Result core = transaction.execute(kReclaimed, of(execution));
    if (core.empty() || core.one().get<bool>(2)) return std::nullopt;
    const Claim before{execution, core.one().get<std::int32_t>(0), core.one().get<std::int64_t>(1)};
    const Claim next{execution, before.attempt_index + 1, before.lease_epoch + 1};
    transaction.execute(kLeaveAttempt, of(before));
    transaction.execute(kNextAttempt, of(next).add(id_).add(next.lease_epoch).add(in_ms(lease_ttl_)));
    transaction.execute(kTakeOver, of(next));
    append_lease_event(transaction, execution, "reclaimed");
    transaction.commit();
    return next;
  });
}

}  // namespace ff::simulation
