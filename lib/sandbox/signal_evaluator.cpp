#include "sandbox/signal_evaluator.hpp"

namespace ff::sandbox {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kBetween = 200ms;
constexpr Milliseconds kPatience = 20s;

// In both: $1 partition keys, $2 lane. Whoever holds a row of it makes the execution wait for the next turn.
constexpr std::string_view kResume = R"sql(
  WITH signalled AS MATERIALIZED (
    SELECT s.partition_key, s.execution_id
      FROM ff_suspension_current s
      JOIN ff_exec_core c ON c.partition_key = s.partition_key AND c.execution_id = s.execution_id
     WHERE s.partition_key = ANY($1) AND c.partition_key = ANY($1) AND c.lane_id = $2
       AND c.lifecycle_phase = 'suspended' AND s.member_map ? '__timeout__'
       FOR UPDATE SKIP LOCKED),
  waitpoints AS (
    DELETE FROM ff_waitpoint_pending w USING signalled s
     WHERE w.partition_key = ANY($1) AND w.partition_key = s.partition_key AND w.execution_id = s.execution_id),
  suspensions AS (
    DELETE FROM ff_suspension_current c USING signalled s
     WHERE c.partition_key = ANY($1) AND c.partition_key = s.partition_key AND c.execution_id = s.execution_id)
  UPDATE ff_exec_core c
     SET lifecycle_phase = 'runnable', ownership_state = 'unowned', eligibility_state = 'eligible_now',
         public_state = 'resumable', attempt_state = 'attempt_interrupted'
    FROM signalled s
   WHERE c.partition_key = ANY($1) AND c.partition_key = s.partition_key AND c.execution_id = s.execution_id
  RETURNING c.execution_id::text)sql";

constexpr std::string_view kSuspended = R"sql(
  SELECT EXISTS (SELECT FROM ff_exec_core
                  WHERE partition_key = ANY($1) AND lane_id = $2 AND lifecycle_phase IN ('active', 'suspended')))sql";

}  // namespace

void SignalEvaluator::live() {
  while (!workload_.finishing_) {
    resume();
    if (!workload_.pause(kBetween)) return;
  }
  const SteadyTime deadline = Clock::system().now() + kPatience;
  while (is_waited_for() && Clock::system().now() < deadline) {
    resume();
    if (!workload_.pause(kBetween)) return;
  }
}

void SignalEvaluator::resume() {
  const pg::Result resumed =
      connection_.execute(kResume, pg::Params::of(workload_.options_.partitions, workload_.options_.name));
  workload_.ledger_.resumed(resumed.size());
  for (const pg::Row row : resumed)
    workload_.tell(row.get<std::string>(0).substr(0, 8) + " got the signal of its time-out and goes on");
}

// What is active may yet be suspended.
bool SignalEvaluator::is_waited_for() {
  return connection_
      .execute(kSuspended, pg::Params::of(workload_.options_.partitions, workload_.options_.name))
      .one()
      .get<bool>(0);
}

}  // namespace ff::sandbox
