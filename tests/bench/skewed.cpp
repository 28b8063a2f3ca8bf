#include <spdlog/spdlog.h>

#include "bench/bench.hpp"
#include "bench/contest.hpp"

namespace ff::bench {
namespace {

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

pg::Result choose(pg::Connection& connection, std::string_view some) {
  return connection.execute(sql("leases", some), pg::Params::of(std::int64_t{kPartitions}));
}

/// `moved`: the share of the rows that can be.
Findings findings(const std::string& regime, const Contest::Backlog& even, double moved,
                  std::vector<Way> ways) {
  const double per_row = median_ratio(ways[1], ways[0]);
  return {.regime = regime,
          .ways = std::move(ways),
          .numbers = {{"rows", even.rows},
                      {"rival_rows", even.rival_rows()},
                      {"per_row", per_row},
                      {"whole", per_row * moved}}};
}

}  // namespace

std::vector<Findings> measure_skewed(const Bench& bench) {
  auto other = connect(bench.connector);
  other.execute_script(sql_script("poison"));
  Contest contest(bench.connector, "attempt_timeout");
  const int rows = bench.quick ? 10'000 : 50'000;
  const Contest::Backlog even{.rows = rows, .rival_partitions = bench.quick ? 13 : 27};
  const Contest::Backlog in_one{.rows = rows, .partitions = 1};
  Contest::Backlog half_locked = even, with_poison = even;
  std::int64_t locked = 0, poison = 0;
  half_locked.spoil = [&] {
    other.execute_script("BEGIN");
    return locked = choose(other, "lock half").size();
  };
  with_poison.spoil = [&] {
    poison = choose(contest.keeper(), "poison some").affected();
    settle(contest.keeper(), {"ff_exec_core", "ff_attempt"});
    return poison;
  };

  Way plain{"ours, plain case"}, row_by_row{"row by row, plain case"};
  Way over_one{"ours"}, over_locked{"ours"}, over_poison{"ours"};
  const auto turn = [&](Way& way, const Contest::Backlog& backlog, Contest::Who who = Contest::Who::ours) {
    way.rounds.push_back(contest.rate(who, backlog));
  };
  take_turns(bench.rounds(),
             {[&] { turn(plain, even); }, [&] { turn(row_by_row, even, Contest::Who::row_by_row); },
              [&] { turn(over_one, in_one); },
              [&] {
                turn(over_locked, half_locked);
                other.execute_script("ROLLBACK");
              },
              [&] {
                const NoLog no_log;
                turn(over_poison, with_poison);
              }});
  contest.clear();
  other.execute_script("DROP FUNCTION ff_bench_poison() CASCADE");

  const auto moved = [rows](std::int64_t spoilt) { return 1 - static_cast<double>(spoilt) / rows; };
  return {findings("skewed_one_partition", even, 1, {over_one, plain, row_by_row}),
          findings("skewed_locked", even, moved(locked), {over_locked, plain, row_by_row}),
          findings("skewed_poison", even, moved(poison), {over_poison, plain, row_by_row})};
}

}  // namespace ff::bench
