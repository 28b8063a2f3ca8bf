#include "bench/lease_events.hpp"

#include <algorithm>
#include <thread>

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kProducers = 8;
constexpr auto kConnectWithin = 10s;
constexpr auto kHeadStart = 200ms;

// $1: how many, $2: the first partition, $3: partitions.
constexpr std::string_view kAddMany = R"sql(
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag)
SELECT gen_random_uuid(), (ARRAY['acquired', 'renewed', 'expired', 'reclaimed', 'revoked'])[1 + i % 5],
       1700000000000 + i, $2 + i % $3, 'bench', 'i-1'
  FROM generate_series(1, $1) AS i)sql";

// $1: the first partition, $2: the last one.
constexpr std::string_view kStored = R"sql(
SELECT partition_key::smallint, min(event_id) - 1, max(event_id), count(*)
  FROM ff_lease_event WHERE partition_key BETWEEN $1 AND $2
 GROUP BY partition_key ORDER BY partition_key)sql";

// $1: partition.
constexpr std::string_view kAddOne = R"sql(
INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key, namespace, instance_tag)
VALUES (gen_random_uuid(), 'renewed', 1700000000000, $1, 'bench', 'i-1')
RETURNING event_id)sql";

std::vector<Committed> produce(const pg::Connector& connector, PartitionKey partition, SteadyTime first,
                               std::chrono::nanoseconds interval, int events) {
  auto connection = connector.connect(Clock::system().now() + kConnectWithin);
  std::vector<Committed> committed;
  committed.reserve(static_cast<std::size_t>(events));
  for (int i = 0; i < events; ++i) {
    std::this_thread::sleep_until(first + i * interval);
    committed.push_back(commit_lease_event(connection, partition));
  }
  return committed;
}

}  // namespace

std::vector<StoredEvents> add_lease_events(pg::Connection& connection, int count, PartitionKey first,
                                           int partitions) {
  const auto deadline = Clock::system().now() + 10min;
  const int last = first.value + partitions - 1;
  connection.execute(kAddMany, pg::Params::of(count, std::int32_t{first.value}, partitions), deadline);
  connection.execute_script("VACUUM (ANALYZE) ff_lease_event", deadline);
  connection.execute_script("CHECKPOINT", deadline);
  std::vector<StoredEvents> stored;
  for (const pg::Row& row :
       connection.execute(kStored, pg::Params::of(std::int32_t{first.value}, last), deadline))
    stored.push_back({row.get<PartitionKey>(0), row.get<std::int64_t>(1), row.get<std::int64_t>(2),
                      row.get<std::int64_t>(3)});
  return stored;
}

std::int64_t newest_lease_event(pg::Connection& connection) {
  return connection.execute("SELECT coalesce(max(event_id), 0) FROM ff_lease_event")
      .one()
      .get<std::int64_t>(0);
}

Committed commit_lease_event(pg::Connection& connection, PartitionKey partition) {
  connection.execute_script("BEGIN; SELECT pg_current_xact_id()");
  const auto id = connection.execute_prepared(kAddOne, pg::Params::of(std::int32_t{partition.value}))
                      .one()
                      .get<std::int64_t>(0);
  connection.execute_script("COMMIT");
  return {id, Clock::system().now()};
}

Producers::Producers(const pg::Connector& connector, PartitionKey partition, int events,
                     int events_per_second) {
  const std::chrono::nanoseconds between = std::chrono::nanoseconds{1s} / events_per_second;
  const SteadyTime start = Clock::system().now() + kHeadStart;
  for (int i = 0; i < kProducers; ++i) {
    const int share = (events + kProducers - 1 - i) / kProducers;
    producers_.push_back(std::async(std::launch::async, produce, std::cref(connector), partition,
                                    start + i * between, kProducers * between, share));
  }
}

bool Producers::done() const {
  return std::all_of(producers_.begin(), producers_.end(),
                     [](const auto& each) { return each.wait_for(0s) == std::future_status::ready; });
}

std::vector<Committed> Producers::finish() {
  std::vector<Committed> all;
  for (auto& each : producers_) {
    const auto committed = each.get();
    all.insert(all.end(), committed.begin(), committed.end());
  }
  return all;
}

}  // namespace ff::bench
