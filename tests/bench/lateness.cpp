#include <fmt/format.h>

#include <stdexcept>
#include <thread>

#include "bench/backlog.hpp"
#include "bench/bench.hpp"
#include "bench/daemon.hpp"
#include "bench/polling.hpp"
#include "bench/sql_file.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kHealthyLeases = 20'000;  // whose workers are at work: none of them falls due
constexpr const char* kHealthy = "healthy";
constexpr Milliseconds kPatience = 60s;

/// How long each part of a measurement takes.
struct Phases {
  Milliseconds ours_before;   ///< from the rows' being known to the first one's falling due
  Milliseconds rival_before;  ///< the same; it cannot know in advance
  Milliseconds falling_due;
};

/// Rows that are going to fall due, and what became of them.
class FallingDue {
 public:
  FallingDue(pg::Connection& connection, int rows_per_second, Milliseconds before, Milliseconds length,
             std::string name_space)
      : connection_(connection),
        name_space_(std::move(name_space)),
        count_(static_cast<int>(rows_per_second * length / 1s)),
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

Findings measure(const Bench& bench, pg::Connection& connection, int rows_per_second) {
  const Phases times = bench.quick ? Phases{4s, 2s, 1s} : Phases{6s, 1500ms, 10s};
  Rounds ours("ours"), rival("interval polling");
  int round = 0;
  const auto rows = [&](const char* whose, Milliseconds before) -> FallingDue {
    const std::string name_space = fmt::format("{}, {} a second, {}", whose, rows_per_second, ++round);
    return {connection, rows_per_second, before, times.falling_due, name_space};
  };
  take_turns(bench.quick ? 1 : 2,
             {[&] { ours.add(of_daemon(bench, rows("ours", times.ours_before))); },
              [&] { rival.add(of_polling(bench, rows("polled", times.rival_before))); }});
  Findings found{.regime = fmt::format("lateness_{}", rows_per_second),
                 .numbers = {{"per_second", rows_per_second},
                             {"rows", static_cast<double>(ours.all().size())},
                             {"seconds", seconds(times.falling_due)},
                             {"held", kHealthyLeases}}};
  for (const Rounds* way : {&ours, &rival}) found.add(*way, {0.5, 0.9, 0.99});
  return found;
}

}  // namespace

std::vector<Findings> measure_lateness(const Bench& bench) {
  auto connection = connect(bench.connector);
  if (connection.execute("SHOW track_commit_timestamp").one().get<std::string_view>(0) != "on")
    throw std::runtime_error("lateness is measured with track_commit_timestamp on");
  const std::int64_t tomorrow = database_now_ms(connection) + Milliseconds{24h}.count();
  add_leases(connection, {.count = kHealthyLeases, .name_space = kHealthy, .from_ms = tomorrow});
  settle(connection);
  std::vector<Findings> found;
  for (const int rows_per_second : {50, 500}) found.push_back(measure(bench, connection, rows_per_second));
  if (leases_left(connection, kHealthy) != kHealthyLeases)
    throw std::runtime_error("leases were taken that had not lapsed");
  empty(connection);
  return found;
}

}  // namespace ff::bench
