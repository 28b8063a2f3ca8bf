#include "bench/family_contest.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "bench/figures.hpp"

namespace ff::bench {
namespace {

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

Floor::Statements floor_of(const std::string& reconciler) {
  const std::string file = reconciler + "/floor";
  return has_sql_file(file) ? sql_file(file) : Floor::Statements{};
}

}  // namespace

Contest::Contest(Sessions& sessions, const reconcile::Reconciler& reconciler, Conditions conditions)
    : conditions_(conditions),
      name_(reconciler.name),
      stock_(name_),
      row_by_row_(name_),
      floor_(floor_of(name_)),
      holdoff_(reconciler.holdoff(settings_for_stock(reconciler))),
      sessions_(sessions),
      ours_(sessions.ours, name_),
      rival_(connect(sessions.connector)) {}

std::vector<Contest::Way> Contest::ways() const {
  std::vector<Way> ways{Way::ours, Way::row_by_row};
  if (!floor_.empty()) ways.push_back(Way::floor);
  return ways;
}

double Contest::measure(Way way, int rows, int partitions, int worked_off) {
  if (stocked_) clear();
  stock_.add(sessions_.keeper, rows, partitions);
  if (!stocked_) stock_.analyze(sessions_.keeper);
  stocked_ = true;
  if (conditions_ == Conditions::equal) sessions_.keeper.execute_script("CHECKPOINT", patiently());
  const std::int64_t beforehand = get_ready(way, partitions);
  const std::int64_t before = ours_.due();

  const SteadyTime started = Clock::system().now();
  const std::optional<std::int64_t> counted = work(way, way == Way::row_by_row ? worked_off - 1 : worked_off);
  const double took = seconds_since(started);

  const std::int64_t expected = std::int64_t{rows} / partitions * worked_off;
  const std::int64_t left = ours_.due();
  const std::int64_t moved = counted.value_or(before - left);
  if (beforehand + moved != expected || left != rows - expected)
    throw std::runtime_error(
        fmt::format("{}: {} rows were moved and {} of {} are left, but {} should have gone", name_,
                    beforehand + moved, left, rows, expected));
  return static_cast<double>(moved) / took;
}

std::vector<std::string> Contest::end_state() {
  std::vector<std::string> state;
  for (const std::string& table : stock_.tables())
    state.push_back(fmt::format("{}: {}", table, digest(sessions_.keeper, table)));
  return state;
}

// Nobody is measured who has only just connected, or whose tables have just been analyzed: their
// descriptions have to be read anew then, those of 256 children, which takes longer than many rows. An engine
// that has been running has looked before, over each connection; row by row has worked off the last
// partition; the floor has run over none. Returns how many rows that has moved.
std::int64_t Contest::get_ready(Way way, int partitions) {
  const auto last = static_cast<std::int16_t>(partitions - 1);
  if (way == Way::row_by_row) return row_by_row_.work(rival_, {{last}}, holdoff_);
  if (way == Way::floor)
    sessions_.floor.run(floor_, 0, holdoff_);
  else
    ours_.count_over_each();
  return 0;
}

// How many rows it says to have moved; the floor says nothing.
std::optional<std::int64_t> Contest::work(Way way, int partitions) {
  if (way == Way::ours) return ours_.tick();
  if (way == Way::row_by_row) return row_by_row_.work(rival_, first_partitions(partitions), holdoff_);
  sessions_.floor.run(floor_, partitions, holdoff_);
  return std::nullopt;
}

}  // namespace ff::bench
