#include "demo/simulation/registration.hpp"

#include "demo/simulation/steps.hpp"

namespace ff::simulation {
namespace {

// In every statement: $1 partition key, $2 namespace, $3 worker.

// $4 lane, $5 time to live in ms. Says whether it was there.
const std::string kEnter = R"sql(
  WITH entered AS (SELECT FROM ff_worker_registry
                    WHERE partition_key = $1 AND namespace = $2 AND worker_instance_id = $3
                      FOR UPDATE)
  INSERT INTO ff_worker_registry
      (partition_key, namespace, worker_instance_id, worker_id, lanes, capabilities_csv, last_heartbeat_ms,
       liveness_ttl_ms, registered_at_ms)
  SELECT $1, $2, $3, $3, ARRAY[$4], '', now_ms, $5, now_ms
    FROM (SELECT )sql" + kNowMs +
                           R"sql( AS now_ms) AS clock
  ON CONFLICT (partition_key, namespace, worker_instance_id) DO UPDATE
     SET lanes = excluded.lanes, last_heartbeat_ms = excluded.last_heartbeat_ms,
         liveness_ttl_ms = excluded.liveness_ttl_ms
  RETURNING last_heartbeat_ms, EXISTS (SELECT FROM entered))sql";

const std::string kHeartbeat = R"sql(
  UPDATE ff_worker_registry r SET last_heartbeat_ms = now_ms
    FROM (SELECT )sql" + kNowMs +
                               R"sql( AS now_ms) AS clock
   WHERE r.partition_key = $1 AND r.namespace = $2 AND r.worker_instance_id = $3
     AND r.last_heartbeat_ms + r.liveness_ttl_ms > now_ms
  RETURNING now_ms)sql";

// $4 when, $5 what
constexpr std::string_view kEvent = R"sql(
  INSERT INTO ff_worker_registry_event (partition_key, namespace, worker_instance_id, event_at_ms, event_kind)
  VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT DO NOTHING)sql";

pg::Params params_of(const Registration& its) {
  return pg::Params::of(partition_of(its.worker), its.name_space, its.worker);
}

}  // namespace

PartitionKey partition_of(const std::string& worker) {
  constexpr std::uint64_t kPartitions = 256;
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : worker) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return PartitionKey{static_cast<std::int16_t>(hash % kPartitions)};
}

bool enter(pg::Connection& connection, const Registration& registration) {
  pg::Transaction transaction(connection);
  const pg::Result entered = transaction.execute(
      kEnter, params_of(registration).add(registration.lane).add(in_ms(registration.liveness)));
  const auto at = entered.one().get<std::int64_t>(0);
  transaction.execute(kEvent, params_of(registration).add(at).add("registered"));
  transaction.commit();
  return !entered.one().get<bool>(1);
}

bool send_heartbeat(pg::Connection& connection, const Registration& registration) {
  pg::Transaction transaction(connection);
  const pg::Result sent = transaction.execute(kHeartbeat, params_of(registration));
  if (sent.empty()) return false;
  transaction.execute(kEvent, params_of(registration).add(sent.one().get<std::int64_t>(0)).add("heartbeat"));
  transaction.commit();
  return true;
}

}  // namespace ff::simulation
