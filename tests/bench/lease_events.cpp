#include "bench/lease_events.hpp"

#include <thread>

#include "bench/backlog.hpp"
#include "bench/sql_file.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kProducers = 8;
constexpr auto kHeadStart = 200ms;

std::vector<Committed> produce(const pg::Connector& connector, PartitionKey partition, SteadyTime first,
                               std::chrono::nanoseconds interval, int events) {
  auto connection = connect(connector);
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
  const std::int32_t last = first.value + partitions - 1;
  connection.execute(sql("lease_events", "add"), pg::Params::of(count, std::int32_t{first.value}, partitions),
                     patiently());
  settle(connection, {"ff_lease_event"});
  std::vector<StoredEvents> stored;
  for (const pg::Row& row : connection.execute(sql("lease_events", "stored"),
                                               pg::Params::of(std::int32_t{first.value}, last), patiently()))
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
  const auto added = connection.execute_prepared(sql("lease_events", "add one"),
                                                 pg::Params::of(std::int32_t{partition.value}));
  connection.execute_script("COMMIT");
  return {added.one().get<std::int64_t>(0), Clock::system().now()};
}

std::vector<std::future<std::vector<Committed>>> produce_lease_events(const pg::Connector& connector,
                                                                      PartitionKey partition, int events,
                                                                      int events_per_second) {
  const std::chrono::nanoseconds between = std::chrono::nanoseconds{1s} / events_per_second;
  const SteadyTime start = Clock::system().now() + kHeadStart;
  std::vector<std::future<std::vector<Committed>>> producers;
  for (int i = 0; i < kProducers; ++i) {
    const int share = (events + kProducers - 1 - i) / kProducers;
    producers.push_back(std::async(std::launch::async, produce, std::cref(connector), partition,
                                   start + i * between, kProducers * between, share));
  }
  return producers;
}

}  // namespace ff::bench
