#include "demo/simulation/steps.hpp"

namespace ff::simulation {
namespace {

constexpr std::string_view kLockAttempt = R"sql(
  SELECT lease_epoch FROM ff_attempt
   WHERE partition_key = $1 AND execution_id = $2 AND attempt_index = $3
     FOR UPDATE)sql";

// $3 event_type, $4 with a lease_id
const std::string kLeaseEvent = R"sql(
  INSERT INTO ff_lease_event
      (execution_id, lease_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag)
  SELECT $2::text, CASE WHEN $4 THEN gen_random_uuid()::text END, $3, )sql" +
                                kNowMs + R"sql(, $1, raw_fields->>'namespace',
         raw_fields->'tags'->>'cairn.instance_id'
    FROM (VALUES (0)) AS always
    LEFT JOIN ff_exec_core ON partition_key = $1 AND execution_id = $2)sql";

// $3 outcome
const std::string kCompletionEvent = R"sql(
  INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, occurred_at_ms)
  SELECT partition_key, execution_id, flow_id, $3, )sql" +
                                     kNowMs + R"sql(
    FROM ff_exec_core WHERE partition_key = $1 AND execution_id = $2)sql";

}  // namespace

std::int64_t in_ms(Milliseconds duration) {
  return duration.count();
}

std::optional<std::int64_t> in_ms(const std::optional<Milliseconds>& duration) {
  return duration ? std::optional<std::int64_t>(duration->count()) : std::nullopt;
}

pg::Params of(const ExecutionId& execution) {
  return pg::Params::of(execution.partition, execution.uuid);
}

pg::Params of(const Claim& claim) {
  return of(claim.execution).add(claim.attempt_index);
}

bool hold(pg::Transaction& transaction, const Claim& claim) {
  const pg::Result found = transaction.execute(kLockAttempt, of(claim));
  return !found.empty() && found.one().get<std::int64_t>(0) == claim.lease_epoch;
}

void append_lease_event(pg::Transaction& transaction, const ExecutionId& execution, std::string_view type,
                        bool with_lease_id) {
  transaction.execute(kLeaseEvent, of(execution).add(type).add(with_lease_id));
}

void append_completion_event(pg::Transaction& transaction, const ExecutionId& execution,
                             std::string_view outcome) {
  transaction.execute(kCompletionEvent, of(execution).add(outcome));
}

}  // namespace ff::simulation
