#include "bench/family_contest.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace ff::bench {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kConnectTime{5000};
constexpr std::int16_t kLastPartition = 255;
constexpr std::int64_t kCountUpTo = 10'000'000;

pg::Connection connect(const pg::Connector& connector) {
  return connector.connect(Clock::system().now() + kConnectTime);
}

// Times that somebody wrote in this century have thirteen digits; a signal's id is drawn.
std::string digest(pg::Connection& connection, std::string_view table) {
  return connection
      .execute(fmt::format(R"sql(
SELECT count(*) || ' rows ' || md5(coalesce(string_agg(line, E'\n' ORDER BY line), ''))
  FROM (SELECT regexp_replace((to_jsonb(t) - 'event_id')::text, '\m1[5-9]\d{{11}}\M|"signal_id": "[^"]*"', 'now', 'g') AS line
          FROM {} t) lines)sql",
                           table))
      .one()
      .get<std::string>(0);
}

}  // namespace

Lanes::Lanes(const pg::Connector& to) : connector(to), ours(to, kOurs, kConnectTime), keeper(connect(to)) {
  for (int i = 0; i < kOurs; ++i) floor.push_back(connect(to));
  // Of what prepares and tidies up nobody measures how safe it is.
  keeper.execute_script("SET synchronous_commit = off");
}

Contest::Contest(Lanes& lanes, const reconcile::Reconciler& reconciler, Conditions conditions)
    : conditions_(conditions),
      stock_(stock_of(reconciler.name)),
      row_by_row_(row_by_row_of(reconciler.name)),
      floor_(floor_of(reconciler.name)),
      settings_(settings_for_stock(reconciler)),
      holdoff_(reconciler.holdoff(settings_)),
      lanes_(lanes),
      engine_(reconciler,
              {.partitions = partition_range({0}, {kLastPartition}),
               .filter = {},
               .batch_size = reconciler.batch_size,
               .settings = settings_,
               .family = {},
               .still_for = Milliseconds{0}},
              lanes.ours, Clock::system(), lanes.fork_join),
      rival_(connect(lanes.connector)) {}

std::vector<Contest::Way> Contest::ways() const {
  std::vector<Way> ways{Way::ours, Way::row_by_row};
  if (!floor_.empty()) ways.push_back(Way::floor);
  return ways;
}

double Contest::measure(Way way, int rows, int partitions, int worked_off) {
  if (stocked_) clear();
  stock_up(lanes_.keeper, stock_, rows, partitions);
  if (!stocked_) analyze_stock(lanes_.keeper, stock_);
  stocked_ = true;
  if (conditions_ == Conditions::equal)
    lanes_.keeper.execute_script("CHECKPOINT", lanes_.keeper.default_deadline() + 5min);
  const std::int64_t beforehand = get_ready(way, partitions);
  const std::int64_t before = due();

  const auto started = Clock::system().now();
  const std::optional<std::int64_t> counted = work(way, way == Way::row_by_row ? worked_off - 1 : worked_off);
  const double took = std::chrono::duration<double>(Clock::system().now() - started).count();

  const std::int64_t expected = std::int64_t{rows} / partitions * worked_off;
  const std::int64_t left = due();
  const std::int64_t moved = counted.value_or(before - left);
  if (beforehand + moved != expected || left != rows - expected)
    throw std::runtime_error(
        fmt::format("{}: {} rows were moved and {} of {} are left, but {} should have gone", stock_.name,
                    beforehand + moved, left, rows, expected));
  return static_cast<double>(moved) / took;
}

std::vector<std::string> Contest::end_state() {
  std::vector<std::string> state;
  for (const std::string_view table : stock_.tables)
    state.push_back(fmt::format("{}: {}", table, digest(lanes_.keeper, table)));
  return state;
}

// Nobody is measured who has only just connected, or whose tables have just been analyzed: their
// descriptions have to be read anew then, those of 256 children, which takes longer than many rows. An engine
// that has been running has looked before, over each connection; row by row has worked off the last
// partition; the floor has run over none. Returns how many rows that has moved.
std::int64_t Contest::get_ready(Way way, int partitions) {
  const auto last = static_cast<std::int16_t>(partitions - 1);
  if (way == Way::row_by_row) return work_row_by_row(rival_, row_by_row_, {{last}}, holdoff_);
  if (way == Way::floor) {
    work_floor(lanes_.floor, floor_, 0, holdoff_);
    return 0;
  }
  std::vector<pg::PooledConnection> looked;  // kept from the pool, which lends the one used last first
  for (int i = 0; i < Lanes::kOurs; ++i) {
    engine_.backlog(1);
    looked.push_back(lanes_.ours.acquire());
  }
  return 0;
}

// How many rows it says to have moved; the floor says nothing.
std::optional<std::int64_t> Contest::work(Way way, int partitions) {
  const Partitions range = partition_range({0}, {static_cast<std::int16_t>(partitions - 1)});
  if (way == Way::row_by_row) return work_row_by_row(rival_, row_by_row_, range, holdoff_);
  if (way == Way::floor) {
    work_floor(lanes_.floor, floor_, partitions, holdoff_);
    return std::nullopt;
  }
  const reconcile::TickReport report = engine_.tick();
  if (report.failure) throw *report.failure;
  return report.processed;
}

std::int64_t Contest::due() {
  return engine_.backlog(kCountUpTo).due;
}

}  // namespace ff::bench
