#include "bench/skewed.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "bench/backlog.hpp"
#include "bench/compare.hpp"
#include "bench/row_by_row.hpp"
#include "bench/timeout_ways.hpp"

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kConnections = 2;
constexpr auto kConnectTime = 10s;
constexpr double kWanted = 1.5;

// Raises for executions in a lane of their own; made before any figure is taken, so that all ways have it.
constexpr const char* kPoison = R"sql(
CREATE FUNCTION ff_bench_poison() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'this row cannot be changed';
END $$;
CREATE TRIGGER ff_bench_poison BEFORE UPDATE ON ff_exec_core
  FOR EACH ROW WHEN (OLD.lane_id = 'poison') EXECUTE FUNCTION ff_bench_poison())sql";
constexpr const char* kNoPoison = "DROP FUNCTION ff_bench_poison() CASCADE";

// $1: partitions. Due times count up from row to row, and so these choose rows evenly from each partition; of
// those with retries (every other one) as well as of those without.
constexpr std::string_view kLockHalf = R"sql(
SELECT 1 FROM ff_attempt WHERE lease_expires_at_ms / $1 / 2 % 2 = 0 FOR UPDATE)sql";
constexpr std::string_view kPoisonSome = R"sql(
UPDATE ff_exec_core c SET lane_id = 'poison'
  FROM ff_attempt a
 WHERE a.partition_key = c.partition_key AND a.execution_id = c.execution_id AND a.lease_expires_at_ms / $1 % 100 = 7)sql";

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

class Skewed {
 public:
  explicit Skewed(const Bench& bench)
      : seeding_(backstage(bench.connector)),
        other_(bench.connector.connect(Clock::system().now() + kConnectTime)),
        ours_(bench.connector, kConnections),
        rows_(bench.quick ? 10'000 : 50'000),
        rival_rows_(bench.quick ? 500 : 5'000) {
    seeding_.execute_script(kPoison);
    rehearse(seeding_, {&ours_});
  }

  int rows() const { return rows_; }
  int rival_rows() const { return rival_rows_; }

  Taken plain(int partitions) {
    fill(rows_, partitions);
    return take(rows_, 0);
  }

  Taken half_locked() {
    fill(rows_, kPartitions);
    other_.execute_script("BEGIN");
    const auto locked = other_.execute(kLockHalf, pg::Params::of(std::int64_t{kPartitions})).size();
    const Taken taken = take(rows_ - locked, locked);
    other_.execute_script("ROLLBACK");
    return taken;
  }

  Taken poisoned() {
    fill(rows_, kPartitions);
    const auto poison = seeding_.execute(kPoisonSome, pg::Params::of(std::int64_t{kPartitions})).affected();
    bring_up_to_date(seeding_);
    const NoLog no_log;
    return take(rows_ - poison, poison);
  }

  Taken row_by_row() {
    const int partitions = kPartitions * rival_rows_ / rows_;
    fill(rival_rows_, partitions);
    const SteadyTime started = Clock::system().now();
    attempt_timeout_row_by_row(other_, partition_range({0}, {static_cast<std::int16_t>(partitions - 1)}));
    const Taken taken{rival_rows_, seconds_since(started)};
    expect_moved(seeding_, rival_rows_);
    return taken;
  }

  void clear() {
    empty_tables(seeding_);
    seeding_.execute_script(kNoPoison);
  }

 private:
  void fill(int rows, int partitions) {
    empty_tables(seeding_);
    add_lapsed_leases(seeding_, rows, partitions);
  }

  // With a new engine: what another case has taught it of batches and bad rows is none of this one's.
  Taken take(std::int64_t to_move, std::int64_t to_leave) {
    ours_.start_over();
    ours_.warm_up();
    const SteadyTime started = Clock::system().now();
    ours_.tick();
    const Taken taken{to_move, seconds_since(started)};
    expect_moved(seeding_, to_move, to_leave);
    return taken;
  }

  pg::Connection seeding_;
  pg::Connection other_;
  OurTimeout ours_;
  const int rows_;
  const int rival_rows_;
};

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

  Regime regime(std::string name, std::string title, std::string_view compared, std::string remark) && {
    const double per_row = median(std::move(per_row_));
    std::string both =
        fmt::format("a moved row takes {} times as long as in the plain case; the whole backlog, {} times",
                    figure(per_row), figure(median(std::move(whole_))));
    return {.name = std::move(name),
            .title = std::move(title),
            .unit = "rows/s",
            .ways = {{"ours", std::move(skewed_)},
                     {"ours, plain case", std::move(plain_)},
                     {"row by row, plain case", std::move(row_by_row_)}},
            .goals = {within_times(kWanted, per_row, compared)},
            .remarks = {std::move(both), std::move(remark)}};
  }

 private:
  std::vector<double> skewed_, plain_, row_by_row_, per_row_, whole_;
};

}  // namespace

std::vector<Regime> measure_skewed(const Bench& bench) {
  Skewed skewed(bench);
  Series one_partition, locked, poison;
  for (int round = 0; round < bench.rounds(); ++round) {
    const Taken plain = skewed.plain(kPartitions);
    const Taken row_by_row = skewed.row_by_row();
    one_partition.note(skewed.plain(1), plain, row_by_row);
    locked.note(skewed.half_locked(), plain, row_by_row);
    poison.note(skewed.poisoned(), plain, row_by_row);
  }
  skewed.clear();

  const std::string rows = figure(skewed.rows());
  const std::string all = fmt::format(
      "the plain case's time for each row moved ({} rows dealt out over {} partitions)", rows, kPartitions);
  const std::string rival = fmt::format("row by row moves {} rows", figure(skewed.rival_rows()));
  std::vector<Regime> regimes;
  regimes.push_back(std::move(one_partition)
                        .regime("skewed_one_partition",
                                fmt::format("attempt_timeout: {} lapsed leases, all in one partition", rows),
                                all, rival + "; ours has two connections, but one partition is one's work"));
  regimes.push_back(std::move(locked).regime(
      "skewed_locked",
      fmt::format("attempt_timeout: {} lapsed leases, every other one locked by somebody else", rows), all,
      rival + ", none of them locked: it would wait. The time is that of moving the free half while passing "
              "over the other"));
  regimes.push_back(std::move(poison).regime(
      "skewed_poison",
      fmt::format("attempt_timeout: {} lapsed leases, one in a hundred raises an error", rows), all,
      rival + ", none of them poison. The time is that of moving 99 of 100 rows and setting aside each one "
              "that fails"));
  return regimes;
}

}  // namespace ff::bench
