#include "sandbox/register.hpp"

#include <algorithm>

namespace ff::sandbox {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kHeartbeat = 300ms;
constexpr Milliseconds kLiveness = 1500ms;

// $1 workers, $2 namespace and lane, $3 time to live in ms. The register has 256 partitions of its own. Says
// of each whether it is new.
constexpr std::string_view kHeartbeats = R"sql(
  WITH clock AS (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms)
  INSERT INTO ff_worker_registry
      (partition_key, namespace, worker_instance_id, worker_id, lanes, capabilities_csv, last_heartbeat_ms,
       liveness_ttl_ms, registered_at_ms)
  SELECT abs(hashtext(worker)::bigint) % 256, $2, worker, worker, ARRAY[$2], '', now_ms, $3, now_ms
    FROM clock, unnest($1) AS worker
  ON CONFLICT (partition_key, namespace, worker_instance_id)
  DO UPDATE SET last_heartbeat_ms = excluded.last_heartbeat_ms
  RETURNING registered_at_ms = last_heartbeat_ms)sql";

}  // namespace

void Register::live() {
  for (;;) {
    std::vector<std::string> living;
    for (const WorkerState& worker : workload_.workers())
      if (worker.doing == WorkerState::Doing::waiting || worker.doing == WorkerState::Doing::working)
        living.push_back(worker.id);
    std::erase(living, "");  // a worker that has not shown itself yet
    if (workload_.finishing_ && living.empty()) return;
    if (!living.empty()) send_heartbeats(living);
    if (!workload_.pause(kHeartbeat)) return;
  }
}

void Register::send_heartbeats(const std::vector<std::string>& workers) {
  const pg::Result sent = connection_.execute(
      kHeartbeats, pg::Params::of(workers, workload_.options_.name, std::int64_t{kLiveness.count()}));
  std::int64_t made = 0;
  for (const pg::Row row : sent) made += row.get<bool>(0) ? 1 : 0;
  workload_.ledger_.registered(made);
}

}  // namespace ff::sandbox
