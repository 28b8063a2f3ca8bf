#include "bench/timeout_ways.hpp"

#include <fmt/format.h>

#include <future>
#include <stdexcept>

#include "bench/backlog.hpp"
#include "reconcile/family/registry.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kConnectTime = 10s;
constexpr auto kPatience = 10min;
constexpr int kRehearsedOfEach = 8;  // more than a look shows of a partition, so that these are paged through

// $1: partitions, $2: now. The core comes last: until then its phase tells which rows they are.
constexpr std::string_view kLeaseEvents = R"sql(
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag)
SELECT execution_id::text, 'expired', $2, partition_key, raw_fields->>'namespace',
       raw_fields->'tags'->>'cairn.instance_id'
  FROM ff_exec_core WHERE partition_key = ANY($1) AND lifecycle_phase = 'active')sql";

constexpr std::string_view kCompletionEvents = R"sql(
INSERT INTO ff_completion_event (partition_key, execution_id, flow_id, outcome, namespace, instance_tag, occurred_at_ms)
SELECT partition_key, execution_id, flow_id, 'expired', raw_fields->>'namespace',
       raw_fields->'tags'->>'cairn.instance_id', $2
  FROM ff_exec_core
 WHERE partition_key = ANY($1) AND lifecycle_phase = 'active'
   AND attempt_index >= coalesce((policy->'retry_policy'->>'max_retries')::bigint, 0))sql";

constexpr std::string_view kAttempts = R"sql(
UPDATE ff_attempt
   SET outcome = 'interrupted', lease_expires_at_ms = NULL, terminal_at_ms = $2, lease_epoch = lease_epoch + 1
 WHERE partition_key = ANY($1) AND lease_expires_at_ms < $2)sql";

constexpr std::string_view kCore = R"sql(
UPDATE ff_exec_core c
   SET lifecycle_phase = n.lifecycle_phase, ownership_state = 'unowned', eligibility_state = n.eligibility_state,
       attempt_state = n.attempt_state, public_state = n.public_state,
       attempt_index = c.attempt_index + n.attempts,
       terminal_at_ms = CASE WHEN n.attempts = 0 THEN $2 ELSE c.terminal_at_ms END,
       raw_fields = c.raw_fields || '{"last_failure_message": "attempt_timeout"}'
         || CASE WHEN n.retries THEN jsonb_build_object('total_attempt_count', (c.attempt_index + 1)::text) ELSE '{}' END
  FROM (VALUES (true, 'runnable', 'eligible_now', 'pending_retry_attempt', 'waiting', 1),
               (false, 'terminal', 'not_applicable', 'attempt_terminal', 'expired', 0))
       AS n(retries, lifecycle_phase, eligibility_state, attempt_state, public_state, attempts)
 WHERE c.partition_key = ANY($1) AND c.lifecycle_phase = 'active'
   AND n.retries = (c.attempt_index < coalesce((c.policy->'retry_policy'->>'max_retries')::bigint, 0)))sql";

constexpr std::string_view kChanges[] = {kLeaseEvents, kCompletionEvents, kAttempts, kCore};

void change_all(pg::Connection& connection, const Partitions& partitions) {
  const auto deadline = Clock::system().now() + kPatience;
  const auto params = pg::Params::of(partitions, count(Clock::system().wall()));
  connection.execute_script("BEGIN");
  for (const std::string_view statement : kChanges) connection.execute(statement, params, deadline);
  connection.execute_script("COMMIT");
}

}  // namespace

OurTimeout::OurTimeout(const pg::Connector& connector, int connections)
    : connections_(connections), pool_(connector, connections, kConnectTime), fork_join_(connections - 1) {
  start_over();
}

reconcile::Engine OurTimeout::engine(reconcile::ForkJoin& fork_join) {
  const reconcile::Reconciler& reconciler = *reconcile::find_reconciler("attempt_timeout");
  return {reconciler,
          {.partitions = all_partitions(),
           .filter = {},
           .settings = reconcile::default_settings(reconciler),
           .family = {}},
          pool_,
          Clock::system(),
          fork_join};
}

void OurTimeout::start_over() {
  engine_.emplace(engine(fork_join_));
}

// The pool lends the one used last first: those that are done with are kept from it.
void OurTimeout::over_each_connection(const std::function<void()>& work) {
  std::vector<pg::PooledConnection> done;
  for (int i = 0; i < connections_; ++i) {
    work();
    done.push_back(pool_.acquire());
  }
}

void OurTimeout::warm_up() {
  std::stop_source only_look;
  only_look.request_stop();
  over_each_connection([&] {
    const reconcile::TickReport report = engine_->tick({.stop = only_look.get_token()});
    if (report.failure) throw *report.failure;
  });
}

void OurTimeout::rehearse() {
  reconcile::Engine alone = engine(reconcile::ForkJoin::none());
  over_each_connection([&] {
    const reconcile::TickReport report = alone.tick({.dry_run = true});
    if (report.failure) throw *report.failure;
    if (report.processed == 0) throw std::runtime_error("there is nothing to rehearse with");
  });
}

reconcile::TickReport OurTimeout::tick() {
  reconcile::TickReport report = engine_->tick();
  if (report.failure) throw *report.failure;
  return report;
}

void rehearse(pg::Connection& seeding, const std::vector<OurTimeout*>& all) {
  for (int i = 0; i < kRehearsedOfEach; ++i) add_a_lapsed_lease_each(seeding);
  for (OurTimeout* each : all) each->rehearse();
  empty_tables(seeding);
}

TimeoutFloor::TimeoutFloor(const pg::Connector& connector, int connections) {
  for (int i = 0; i < connections; ++i)
    shares_.push_back({connector.connect(Clock::system().now() + kConnectTime),
                       shard_of(all_partitions(), i, connections)});
}

void TimeoutFloor::plan() {
  for (Share& share : shares_)
    for (const std::string_view statement : kChanges)
      share.connection.execute(fmt::format("EXPLAIN {}", statement),
                               pg::Params::of(share.partitions, count(Clock::system().wall())));
}

void TimeoutFloor::run() {
  std::vector<std::future<void>> running;
  for (Share& share : shares_)
    running.push_back(
        std::async(std::launch::async, [&share] { change_all(share.connection, share.partitions); }));
  for (auto& each : running) each.get();
}

}  // namespace ff::bench
