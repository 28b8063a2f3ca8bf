#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "bench/figures.hpp"
#include "bench/regimes.hpp"
#include "bench/ways.hpp"

namespace ff::bench {
namespace {

constexpr double kWanted = 1.5;

// An engine logs each row that it sets aside: here hundreds.
class NoLog {
 public:
  NoLog() : before_(spdlog::get_level()) { spdlog::set_level(spdlog::level::off); }
  ~NoLog() { spdlog::set_level(before_); }
  NoLog(const NoLog&) = delete;
  NoLog& operator=(const NoLog&) = delete;

 private:
  const spdlog::level::level_enum before_;
};

/// What one backlog took.
struct Taken {
  std::int64_t rows = 0;
  double seconds = 0;
  double rate() const { return static_cast<double>(rows) / seconds; }
  double per_row() const { return seconds / static_cast<double>(rows); }
};

Taken half_locked(TimeoutTurns& turns, pg::Connection& other, int rows) {
  turns.fill(rows);
  other.execute_script("BEGIN");
  const auto locked =
      other.execute(sql("leases", "lock half"), pg::Params::of(std::int64_t{kPartitions})).size();
  const Taken taken{rows - locked, turns.ours_takes(rows - locked, locked)};
  other.execute_script("ROLLBACK");
  return taken;
}

Taken poisoned(TimeoutTurns& turns, int rows) {
  turns.fill(rows);
  const auto poison = turns.seeding()
                          .execute(sql("leases", "poison some"), pg::Params::of(std::int64_t{kPartitions}))
                          .affected();
  settle(turns.seeding(), {"ff_exec_core", "ff_attempt"});
  const NoLog no_log;
  return {rows - poison, turns.ours_takes(rows - poison, poison)};
}

// A skewed case over the rounds, beside the plain case and row by row of the same rounds.
class Series {
 public:
  void note(const Taken& skewed, const Taken& plain, const Taken& row_by_row) {
    skewed_.push_back(skewed.rate());
    plain_.push_back(plain.rate());
    row_by_row_.push_back(row_by_row.rate());
    per_row_.push_back(skewed.per_row() / plain.per_row());
    whole_.push_back(skewed.seconds / plain.seconds);
  }

  Regime regime(std::string name, std::string title, std::string_view compared, std::string remark) const {
    const double per_row = median(per_row_);
    return {
        .name = std::move(name),
        .title = "attempt_timeout: " + std::move(title),
        .unit = "rows/s",
        .ways = {{"ours", skewed_}, {"ours, plain case", plain_}, {"row by row, plain case", row_by_row_}},
        .goals = {within_times(kWanted, per_row, compared)},
        .remarks = {fmt::format("a moved row takes {} times as long as in the plain case; the whole "
                                "backlog, {} times",
                                figure(per_row), figure(median(whole_))),
                    std::move(remark)}};
  }

 private:
  std::vector<double> skewed_, plain_, row_by_row_, per_row_, whole_;
};

}  // namespace

std::vector<Regime> measure_skewed(const Bench& bench) {
  const int rows = bench.quick ? 10'000 : 50'000, rival_rows = bench.quick ? 500 : 5'000;
  auto other = connect(bench.connector);
  other.execute_script(sql_script("poison"));
  TimeoutTurns turns(bench.connector, bench.connector);
  Series one_partition, locked, poison;
  for (int round = 0; round < bench.rounds(); ++round) {
    const Taken plain{rows, turns.ours(rows)};
    const Taken row_by_row{rival_rows, turns.row_by_row(rival_rows, kPartitions * rival_rows / rows)};
    one_partition.note({rows, turns.ours(rows, 1)}, plain, row_by_row);
    locked.note(half_locked(turns, other, rows), plain, row_by_row);
    poison.note(poisoned(turns, rows), plain, row_by_row);
  }
  turns.clear();
  other.execute_script("DROP FUNCTION ff_bench_poison() CASCADE");

  const std::string leases = figure(rows) + " lapsed leases, ";
  const std::string all =
      fmt::format("the plain case's time for each row moved ({} rows dealt out over {} partitions)",
                  figure(rows), kPartitions);
  const std::string rival = fmt::format("row by row moves {} rows", figure(rival_rows));
  return {
      one_partition.regime("skewed_one_partition", leases + "all in one partition", all,
                           rival + "; ours has two connections, but one partition is one's work"),
      locked.regime("skewed_locked", leases + "every other one locked by somebody else", all,
                    rival + ", none of them locked: it would wait. The time is that of moving the free half "
                            "while passing over the other"),
      poison.regime("skewed_poison", leases + "one in a hundred raises an error", all,
                    rival + ", none of them poison. The time is that of moving 99 of 100 rows and setting "
                            "aside each one that fails")};
}

}  // namespace ff::bench
