#include "bench/ways.hpp"

#include <future>
#include <stdexcept>

#include "reconcile/family/registry.hpp"

namespace ff::bench {
namespace {

constexpr Milliseconds kConnectTime{10'000};
constexpr int kRehearsedOfEach = 8;  // more than a scan shows of a partition, so that these are paged through
constexpr std::int64_t kCountUpTo = 10'000'000;

void require_no_failure(const reconcile::TickReport& report) {
  if (report.failure) throw *report.failure;
}

}  // namespace

Lanes::Lanes(const pg::Connector& to, int connections)
    : count(connections), pool(to, connections, kConnectTime), fork_join(connections - 1) {}

Ours::Ours(std::shared_ptr<Lanes> lanes, const std::string& reconciler)
    : lanes_(std::move(lanes)), reconciler_(*reconcile::find_reconciler(reconciler)) {
  engine_.emplace(engine(lanes_->fork_join));
}

reconcile::Engine Ours::engine(reconcile::ForkJoin& fork_join) {
  return {reconciler_,
          {.partitions = all_partitions(kPartitions),
           .filter = {},
           .batch_size = reconciler_.batch_size,
           .settings = settings_for_stock(reconciler_),
           .family = {},
           .still_for = Milliseconds{0}},
          lanes_->pool,
          Clock::system(),
          fork_join};
}

// The pool lends the one used last first: those that are done with are kept from it.
void Ours::over_each_connection(const std::function<void()>& work) {
  std::vector<pg::PooledConnection> done;
  for (int i = 0; i < lanes_->count; ++i) {
    work();
    done.push_back(lanes_->pool.acquire());
  }
}

// It is another engine that scans: one that walks through a table would go on in its middle.
void Ours::start_over() {
  std::stop_source only_scan;
  only_scan.request_stop();
  over_each_connection(
      [&] { require_no_failure(engine(reconcile::ForkJoin::none()).tick({.stop = only_scan.get_token()})); });
  engine_.emplace(engine(lanes_->fork_join));
}

void Ours::rehearse() {
  reconcile::Engine alone = engine(reconcile::ForkJoin::none());
  over_each_connection([&] {
    const reconcile::TickReport report = alone.tick({.dry_run = true});
    require_no_failure(report);
    if (report.processed == 0) throw std::runtime_error("there is nothing to rehearse with");
  });
}

std::int64_t Ours::tick() {
  const reconcile::TickReport report = engine_->tick();
  require_no_failure(report);
  return report.processed;
}

std::int64_t Ours::due() {
  return engine(reconcile::ForkJoin::none()).backlog(kCountUpTo).due;
}

void rehearse(Stock& stock, const std::vector<Ours*>& all) {
  stock.fill(kRehearsedOfEach * kPartitions, kPartitions);
  for (Ours* each : all) each->rehearse();
  stock.clear();
}

Floor::Floor(const pg::Connector& connector, int connections, const std::string& reconciler,
             Milliseconds holdoff)
    : statements_(has_sql_file(reconciler + "/floor") ? sql_file(reconciler + "/floor")
                                                      : std::vector<SqlStatement>{}),
      holdoff_(holdoff) {
  for (int i = 0; i < connections; ++i) connections_.push_back(connect(connector));
  run(kPartitions);
}

void Floor::execute(const std::string& prefix, int partitions) {
  const std::int64_t now = count(Clock::system().wall());
  const auto of = static_cast<int>(connections_.size());
  std::vector<std::future<void>> running;
  for (int i = 0; i < of; ++i) {
    const auto first = static_cast<std::int16_t>(partitions * i / of);
    const auto last = static_cast<std::int16_t>(partitions * (i + 1) / of - 1);
    const auto params =
        pg::Params::of(first, last, now, now - holdoff_.count(), partition_range({first}, {last}));
    running.push_back(std::async(std::launch::async, [&, i, params] {
      pg::Connection& connection = connections_[static_cast<std::size_t>(i)];
      connection.execute_script("BEGIN");
      for (const SqlStatement& each : statements_)
        connection.execute(prefix + each.text, params, patiently());
      connection.execute_script("COMMIT");
    }));
  }
  for (auto& each : running) each.get();
}

}  // namespace ff::bench
