#include "bench/attempt_timeout.hpp"

#include <fmt/format.h>
#include <stdexcept>

#include "bench/backlog.hpp"
#include "bench/row_by_row.hpp"
#include "pg/pool.hpp"
#include "reconcile/engine.hpp"
#include "reconcile/registry.hpp"
#include "supervisor/thread_fork_join.hpp"

namespace ff::bench {
namespace {

constexpr Milliseconds kConnectTime{5000};

double rows_per_second(const std::function<std::int64_t()>& work, std::int64_t expected) {
  const auto started = Clock::system().now();
  const std::int64_t moved = work();
  const double took = std::chrono::duration<double>(Clock::system().now() - started).count();
  if (moved != expected)
    throw std::runtime_error(fmt::format("{} rows were moved instead of {}", moved, expected));
  return static_cast<double>(moved) / took;
}

std::int64_t processed(reconcile::Engine& engine, const reconcile::TickOptions& options = {}) {
  const reconcile::TickReport report = engine.tick(options);
  if (report.failure) throw *report.failure;
  return report.processed;
}

}  // namespace

std::vector<BacklogRound> measure_attempt_timeout(const pg::Connector& connector,
                                                  const BacklogOptions& options) {
  pg::Pool pool(connector, options.connections, kConnectTime);
  supervisor::ThreadForkJoin fork_join(options.connections - 1);
  const reconcile::Reconciler& reconciler = *reconcile::find_reconciler("attempt_timeout");
  const Partitions partitions = partition_range({0}, {static_cast<std::int16_t>(options.partitions - 1)});
  reconcile::Engine engine(reconciler,
                           {.partitions = partitions,
                            .filter = {},
                            .settings = reconcile::default_settings(reconciler),
                            .family = {}},
                           pool, Clock::system(), fork_join);
  std::stop_source only_look;
  only_look.request_stop();

  auto connection = connector.connect(Clock::system().now() + kConnectTime);
  std::vector<BacklogRound> rounds;
  for (int i = 0; i < options.rounds; ++i) {
    BacklogRound round;
    add_lapsed_leases(connection, options.rows, options.partitions);
    processed(engine, {.stop = only_look.get_token()});
    round.ours = rows_per_second([&] { return processed(engine); }, options.rows);
    add_lapsed_leases(connection, options.rows, options.partitions);
    round.row_by_row =
        rows_per_second([&] { return attempt_timeout_row_by_row(connection, partitions); }, options.rows);
    if (lapsed_leases(connection) != 0) throw std::runtime_error("lapsed leases are left");
    rounds.push_back(round);
  }
  return rounds;
}

}  // namespace ff::bench
