#include "bench/ways.hpp"

#include <future>
#include <stdexcept>

#include "bench/backlog.hpp"
#include "bench/figures.hpp"
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
  start_over();
}

reconcile::Engine Ours::engine(reconcile::ForkJoin& fork_join) {
  return {reconciler_,
          {.partitions = first_partitions(),
           .filter = {},
           .batch_size = reconciler_.batch_size,
           .settings = settings_for_stock(reconciler_),
           .family = {},
           .still_for = Milliseconds{0}},
          lanes_->pool,
          Clock::system(),
          fork_join};
}

void Ours::start_over() {
  engine_.emplace(engine(lanes_->fork_join));
}

// The pool lends the one used last first: those that are done with are kept from it.
void Ours::over_each_connection(const std::function<void()>& work) {
  std::vector<pg::PooledConnection> done;
  for (int i = 0; i < lanes_->count; ++i) {
    work();
    done.push_back(lanes_->pool.acquire());
  }
}

void Ours::warm_up() {
  std::stop_source only_scan;
  only_scan.request_stop();
  over_each_connection([&] { require_no_failure(engine_->tick({.stop = only_scan.get_token()})); });
}

void Ours::count_over_each() {
  over_each_connection([&] { engine_->backlog(1); });
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
  return engine_->backlog(kCountUpTo).due;
}

void rehearse(pg::Connection& seeding, const std::vector<Ours*>& all) {
  for (int i = 0; i < kRehearsedOfEach; ++i) add_a_lapsed_lease_each(seeding);
  for (Ours* each : all) each->rehearse();
  empty(seeding);
}

Floor::Floor(const pg::Connector& connector, int connections) {
  for (int i = 0; i < connections; ++i) connections_.push_back(connect(connector));
}

std::vector<Floor::Share> Floor::shares(int partitions, Milliseconds holdoff) {
  const std::int64_t now = count(Clock::system().wall());
  const auto of = static_cast<int>(connections_.size());
  std::vector<Share> all;
  for (int i = 0; i < of; ++i) {
    const auto first = static_cast<std::int16_t>(partitions * i / of);
    const auto last = static_cast<std::int16_t>(partitions * (i + 1) / of - 1);
    all.push_back(
        {connections_[static_cast<std::size_t>(i)],
         pg::Params::of(first, last, now, now - holdoff.count(), partition_range({first}, {last}))});
  }
  return all;
}

void Floor::plan(const Statements& statements) {
  for (const Share& share : shares(kPartitions, Milliseconds{0}))
    for (const SqlStatement& each : statements)
      share.connection.execute("EXPLAIN " + each.text, share.params);
}

void Floor::run(const Statements& statements, int partitions, Milliseconds holdoff) {
  std::vector<std::future<void>> running;
  for (const Share& share : shares(partitions, holdoff))
    running.push_back(std::async(std::launch::async, [share, &statements] {
      share.connection.execute_script("BEGIN");
      for (const SqlStatement& each : statements)
        share.connection.execute(each.text, share.params, patiently());
      share.connection.execute_script("COMMIT");
    }));
  for (auto& each : running) each.get();
}

TimeoutTurns::TimeoutTurns(const pg::Connector& short_way, const pg::Connector& connector)
    : seeding_(backstage(short_way)),
      rival_(connect(connector)),
      ours_(connector, kConnections),
      floor_(connector, kConnections),
      changes_(sql_file("attempt_timeout/floor")) {
  floor_.run(changes_, kPartitions);
  rehearse(seeding_, {&ours_});
}

double TimeoutTurns::timed(const std::function<void()>& work, std::int64_t moves, std::int64_t leaves) {
  const SteadyTime started = Clock::system().now();
  work();
  const double took = seconds_since(started);
  expect_moved(seeding_, moves, leaves);
  return took;
}

void TimeoutTurns::fill(int rows, int partitions) {
  empty(seeding_);
  add_lapsed_leases(seeding_, rows, partitions);
}

double TimeoutTurns::ours_takes(std::int64_t to_move, std::int64_t to_leave) {
  ours_.start_over();  // what another case has taught it of batches and bad rows is none of this one's
  ours_.warm_up();
  return timed([&] { ours_.tick(); }, to_move, to_leave);
}

double TimeoutTurns::ours(int rows, int partitions) {
  fill(rows, partitions);
  return ours_takes(rows);
}

double TimeoutTurns::row_by_row(int rows, int partitions) {
  fill(rows, partitions);
  return timed([&] { row_by_row_.work(rival_, first_partitions(partitions)); }, rows);
}

double TimeoutTurns::floor(int rows) {
  fill(rows);
  floor_.plan(changes_);
  return timed([&] { floor_.run(changes_, kPartitions); }, rows);
}

}  // namespace ff::bench
