#include "bench/seed_polling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "base/partitions.hpp"
#include "bench/process_cost.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

// In each but the one for cancel groups: $1 partition, $2 now, $3 rows.

constexpr std::string_view kDelayedPromoter = R"sql(
SELECT execution_id FROM ff_exec_core
 WHERE partition_key = $1 AND lifecycle_phase = 'runnable' AND eligibility_state = 'not_eligible_until_time'
   AND deadline_at_ms IS NOT NULL AND deadline_at_ms <= $2
 ORDER BY deadline_at_ms LIMIT $3)sql";

constexpr std::string_view kLeaseExpiry = R"sql(
SELECT execution_id, attempt_index FROM ff_attempt
 WHERE partition_key = $1 AND lease_expires_at_ms IS NOT NULL AND lease_expires_at_ms < $2
 ORDER BY lease_expires_at_ms LIMIT $3)sql";

constexpr std::string_view kAttemptTimeout = R"sql(
SELECT a.execution_id, a.attempt_index
  FROM ff_attempt a
  JOIN ff_exec_core c ON c.partition_key = a.partition_key AND c.execution_id = a.execution_id
 WHERE a.partition_key = $1 AND a.lease_expires_at_ms IS NOT NULL AND a.lease_expires_at_ms < $2
   AND c.lifecycle_phase = 'active'
 ORDER BY a.lease_expires_at_ms LIMIT $3)sql";

constexpr std::string_view kExecutionDeadline = R"sql(
SELECT execution_id FROM ff_exec_core
 WHERE partition_key = $1 AND lifecycle_phase = 'active' AND deadline_at_ms IS NOT NULL AND deadline_at_ms < $2
 ORDER BY deadline_at_ms LIMIT $3)sql";

constexpr std::string_view kSuspensionTimeout = R"sql(
SELECT execution_id FROM ff_suspension_current
 WHERE partition_key = $1 AND timeout_at_ms IS NOT NULL AND timeout_at_ms < $2
 ORDER BY timeout_at_ms LIMIT $3)sql";

constexpr std::string_view kPendingWaitpointExpiry = R"sql(
SELECT waitpoint_id, execution_id FROM ff_waitpoint_pending
 WHERE partition_key = $1 AND expires_at_ms IS NOT NULL AND expires_at_ms < $2
 ORDER BY expires_at_ms LIMIT $3)sql";

constexpr std::string_view kDependency = R"sql(
SELECT event_id FROM ff_completion_event
 WHERE partition_key = $1 AND dispatched_at_ms IS NULL AND committed_at_ms < $2 - 1000
 ORDER BY committed_at_ms LIMIT $3)sql";

// Asked once for all partitions: FlowFabric does so. $1: rows
constexpr std::string_view kCancelGroups = R"sql(
SELECT partition_key, flow_id, downstream_eid FROM ff_pending_cancel_groups ORDER BY enqueued_at_ms LIMIT $1)sql";

constexpr std::string_view kBudgetReset = R"sql(
SELECT budget_id FROM ff_budget_policy
 WHERE partition_key = $1 AND next_reset_at_ms IS NOT NULL AND next_reset_at_ms <= $2
 ORDER BY next_reset_at_ms LIMIT $3)sql";

constexpr std::string_view kWorkerRegistryTtl = R"sql(
SELECT namespace, worker_instance_id FROM ff_worker_registry
 WHERE partition_key = $1 AND last_heartbeat_ms + liveness_ttl_ms < $2
 LIMIT $3)sql";

struct Poll {
  std::string_view candidates;
  Milliseconds interval;
  SteadyTime next{};
};

constexpr std::array kPolls{
    Poll{kDelayedPromoter, 750ms}, Poll{kLeaseExpiry, 1500ms},   Poll{kAttemptTimeout, 2s},
    Poll{kExecutionDeadline, 5s},  Poll{kSuspensionTimeout, 2s}, Poll{kPendingWaitpointExpiry, 5s},
    Poll{kDependency, 1s},         Poll{kCancelGroups, 1s},      Poll{kCancelGroups, 10s},
    Poll{kBudgetReset, 15s},       Poll{kWorkerRegistryTtl, 30s}};

void require_nothing(const pg::Result& found) {
  if (!found.empty())
    throw std::runtime_error(fmt::format("{} rows are due where none should be", found.size()));
}

void poll(pg::Connection& connection, std::string_view candidates) {
  static const Partitions partitions = partition_range({0}, {255});
  constexpr std::int64_t kBatch = 1000;
  constexpr std::int64_t kGroupBatch = 50;
  if (candidates == kCancelGroups)
    return require_nothing(connection.execute_prepared(candidates, pg::Params::of(kGroupBatch)));
  const std::int64_t now = count(Clock::system().wall());
  for (const PartitionKey partition : partitions)
    require_nothing(connection.execute_prepared(candidates, pg::Params::of(partition, now, kBatch)));
}

}  // namespace

SeedPolling::SeedPolling(const pg::Connector& connector)
    : life_(std::async(std::launch::async,
                       [this, connection = connector.connect(Clock::system().now() + 5s)]() mutable {
                         live(std::move(connection));
                       })) {}

SeedPolling::~SeedPolling() {
  if (life_.valid()) stopped_.set_value();
}

void SeedPolling::stop() {
  stopped_.set_value();
  std::exchange(life_, {}).get();
}

void SeedPolling::live(pg::Connection connection) {
  auto polls = kPolls;
  const auto stopped = stopped_.get_future();
  for (;;) {
    Poll& first = *std::min_element(polls.begin(), polls.end(),
                                    [](const Poll& a, const Poll& b) { return a.next < b.next; });
    if (stopped.wait_until(first.next) == std::future_status::ready) return;
    first.next = std::max(first.next, Clock::system().now()) + first.interval;
    poll(connection, first.candidates);
    ++passes_;
    cpu_seconds_ = cpu_seconds_of_this_thread();
  }
}

}  // namespace ff::bench
