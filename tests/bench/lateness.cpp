#include <fmt/format.h>

#include <stdexcept>
#include <thread>

#include "bench/backlog.hpp"
#include "bench/daemon.hpp"
#include "bench/figures.hpp"
#include "bench/polling.hpp"
#include "bench/regimes.hpp"
#include "bench/sql_file.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kHealthyLeases = 20'000;  // whose workers are at work: none of them falls due
constexpr const char* kHealthy = "healthy";
constexpr Milliseconds kPatience = 60s;

struct Wanted {
  int rows_per_second;
  double p50_ms;
  double p99_ms;
};

/// How long each part of a measurement takes.
struct Times {
  Milliseconds ours_before;   ///< from the rows' being known to the first one's falling due
  Milliseconds rival_before;  ///< the same; it cannot know in advance
  Milliseconds falling_due;
};

/// Rows that are going to fall due, and what became of them.
class FallingDue {
 public:
  FallingDue(pg::Connection& connection, const Wanted& wanted, Milliseconds before, Milliseconds length,
             std::string name_space)
      : connection_(connection),
        name_space_(std::move(name_space)),
        count_(static_cast<int>(wanted.rows_per_second * length / 1s)),
        first_due_(Clock::system().now() + before),
        last_due_(first_due_ + length) {
    add_leases(connection_, {.count = count_,
                             .name_space = name_space_,
                             .from_ms = database_now_ms(connection_) + before.count(),
                             .length_ms = length.count(),
                             .retries = false});
  }

  void require_none_yet() const {
    if (Clock::system().now() > first_due_)
      throw std::runtime_error("the first rows fell due before anybody was there");
  }

  /// Until `moved` says that all have been taken. Throws std::runtime_error when that takes too long.
  template <class Moved>
  void wait(const Moved& moved) const {
    std::this_thread::sleep_until(last_due_);
    while (moved() < count_) {
      if (Clock::system().now() > last_due_ + kPatience)
        throw std::runtime_error(fmt::format("only {} of {} rows were moved", moved(), count_));
      std::this_thread::sleep_for(20ms);
    }
  }

  Distribution lateness() const {
    require_all_expired_once(connection_, name_space_, count_);
    const auto found = connection_.execute(sql("leases", "lateness"), pg::Params::of(name_space_));
    Distribution lateness;
    for (const pg::Row row : found) lateness.add(row.get<double>(0));
    return lateness;
  }

 private:
  pg::Connection& connection_;
  const std::string name_space_;
  const int count_;
  const SteadyTime first_due_;
  const SteadyTime last_due_;
};

Distribution of_daemon(const Bench& bench, const FallingDue& rows) {
  Daemon daemon(bench.conninfo());
  rows.require_none_yet();
  rows.wait([&] { return daemon.processed("attempt_timeout"); });
  daemon.stop();
  return rows.lateness();
}

Distribution of_polling(const Bench& bench, const FallingDue& rows) {
  Polling polling(bench.connector, polls_for_lapsed_leases());
  rows.require_none_yet();
  rows.wait([&] { return polling.rows(); });
  polling.stop();
  return rows.lateness();
}

Regime regime_of(const Wanted& wanted, const Times& times, const Rounds& ours, const Rounds& rival) {
  Regime regime{
      .name = fmt::format("lateness_{}", wanted.rows_per_second),
      .title = fmt::format("{} leases a second lapse at random moments in 256 partitions: from due to commit",
                           wanted.rows_per_second),
      .unit = "ms",
      .ways = {}};
  for (const Rounds* way : {&ours, &rival})
    for (const auto& [label, share] : {std::pair{"p50", 0.5}, std::pair{"p90", 0.9}, std::pair{"p99", 0.99}})
      regime.ways.push_back(way->way(fmt::format(", {}", label), share));
  regime.goals = {at_most(wanted.p50_ms, ours.all().quantile(0.5), " ms", "p50"),
                  at_most(wanted.p99_ms, ours.all().quantile(0.99), " ms", "p99")};
  regime.remarks = {fmt::format("{} rows of each way, {} s a round; beside them {} leases that are not due.",
                                ours.all().size(), seconds(times.falling_due), kHealthyLeases),
                    "Ours is the daemon with its defaults: it has met the rows before they are due. The "
                    "rival looks every 2 s, "
                    "row by row.",
                    "The moment of commit is the server's commit timestamp, which it takes right before it "
                    "flushes the commit."};
  regime.plot = {.x = "from due to commit, ms",
                 .y = "share of rows, %",
                 .logarithmic_x = true,
                 .curves = {ours.curve(), rival.curve()}};
  return regime;
}

Regime measure(const Bench& bench, pg::Connection& connection, const Wanted& wanted) {
  const Times times = bench.quick ? Times{4s, 2s, 1s} : Times{6s, 1500ms, 10s};
  const int rounds = bench.quick ? 1 : 2;
  Rounds ours("ours"), rival("interval polling");
  for (int i = 0; i < rounds; ++i) {
    const std::string round = fmt::format("{} a second, round {}", wanted.rows_per_second, i);
    ours.add(of_daemon(bench, {connection, wanted, times.ours_before, times.falling_due, "ours, " + round}));
    rival.add(
        of_polling(bench, {connection, wanted, times.rival_before, times.falling_due, "polled, " + round}));
  }
  return regime_of(wanted, times, ours, rival);
}

}  // namespace

std::vector<Regime> measure_lateness(const Bench& bench) {
  auto connection = connect(bench.connector);
  if (connection.execute("SHOW track_commit_timestamp").one().get<std::string_view>(0) != "on")
    throw std::runtime_error("lateness is measured with track_commit_timestamp on");
  const std::int64_t tomorrow = database_now_ms(connection) + Milliseconds{24h}.count();
  add_leases(connection, {.count = kHealthyLeases, .name_space = kHealthy, .from_ms = tomorrow});
  settle(connection);
  std::vector<Regime> regimes;
  for (const Wanted& wanted : {Wanted{50, 10, 50}, Wanted{500, 50, 200}})
    regimes.push_back(measure(bench, connection, wanted));
  if (leases_left(connection, kHealthy) != kHealthyLeases)
    throw std::runtime_error("leases were taken that had not lapsed");
  clear_leases(connection);
  return regimes;
}

}  // namespace ff::bench
