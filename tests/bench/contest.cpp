#include "bench/contest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace ff::bench {
namespace {

Floor::Statements floor_of(const std::string& reconciler) {
  const std::string file = reconciler + "/floor";
  return has_sql_file(file) ? sql_file(file) : Floor::Statements{};
}

}  // namespace

Sessions::Sessions(const pg::Connector& short_way, const pg::Connector& to)
    : connector(to),
      ours(std::make_shared<Lanes>(to, kOurs)),
      floor(to, kOurs),
      keeper(backstage(short_way)) {}

Contest::Contest(Sessions& sessions, const std::string& reconciler, Options options)
    : checkpoints_(options.checkpoints),
      name_(reconciler),
      row_by_row_(name_),
      floor_(floor_of(name_)),
      sessions_(sessions),
      stock_(sessions.keeper, name_),
      ours_(sessions.ours, name_),
      holdoff_(ours_.reconciler().holdoff(settings_for_stock(ours_.reconciler()))),
      rival_(connect(sessions.connector)) {
  if (options.rehearsed) rehearse(stock_, {&ours_});
}

int Contest::Backlog::rows_in_first(int some_partitions) const {
  return some_partitions * (rows / partitions) + std::min(some_partitions, rows % partitions);
}

std::vector<Contest::Who> Contest::ways() const {
  std::vector<Who> ways{Who::ours, Who::row_by_row};
  if (!floor_.empty()) ways.push_back(Who::floor);
  return ways;
}

double Contest::rate(Who who, const Backlog& backlog) {
  stock_.fill(backlog.rows, backlog.partitions);
  const std::int64_t spoilt = backlog.spoil ? backlog.spoil() : 0;
  if (checkpoints_) sessions_.keeper.execute_script("CHECKPOINT", patiently());
  const std::int64_t beforehand = get_ready(who, backlog.partitions);
  const std::int64_t before = ours_.due();

  const bool is_rival = who == Who::row_by_row;
  std::optional<std::int64_t> counted;
  const double took = seconds_taken(
      [&] { counted = work(who, is_rival ? backlog.rival_partitions - 1 : backlog.partitions); });

  const std::int64_t stays =
      is_rival ? backlog.rows_in_first(backlog.partitions - 1) - backlog.rival_rows() : spoilt;
  const std::int64_t expected = backlog.rows - stays;
  const std::int64_t left = ours_.due();
  const std::int64_t moved = counted.value_or(before - left);
  if (beforehand + moved != expected || left != stays)
    throw std::runtime_error(
        fmt::format("{}: {} rows were moved and {} of {} are left, but {} should have gone", name_,
                    beforehand + moved, left, backlog.rows, expected));
  stock_.check(expected, left);
  return static_cast<double>(moved) / took;
}

std::vector<Way> Contest::rates(const Backlog& backlog, int rounds) {
  std::vector<Way> rates;
  for (const Who who : ways()) rates.push_back({name_of(who)});
  std::vector<std::function<void()>> turns;
  for (std::size_t i = 0; i < rates.size(); ++i)
    turns.emplace_back([&, i] { rates[i].rounds.push_back(rate(ways()[i], backlog)); });
  take_turns(rounds, turns);
  clear();
  return rates;
}

// Nobody is measured who has only just connected, or whose tables have just been analyzed: their
// descriptions have to be read anew then, those of 256 children, which takes longer than many rows. An engine
// that has been running has scanned before, over each connection; row by row has worked off the last
// partition; the floor has run over none. Returns how many rows that has moved.
std::int64_t Contest::get_ready(Who who, int partitions) {
  const auto last = static_cast<std::int16_t>(partitions - 1);
  if (who == Who::row_by_row) return row_by_row_.work(rival_, {{last}}, holdoff_);
  if (who == Who::floor)
    sessions_.floor.run(floor_, 0, holdoff_);
  else
    ours_.start_over();
  return 0;
}

// How many rows it says to have moved; the floor says nothing.
std::optional<std::int64_t> Contest::work(Who who, int partitions) {
  if (who == Who::ours) return ours_.tick();
  if (who == Who::row_by_row) return row_by_row_.work(rival_, all_partitions(partitions), holdoff_);
  sessions_.floor.run(floor_, partitions, holdoff_);
  return std::nullopt;
}

std::string name_of(Contest::Who who) {
  switch (who) {
    case Contest::Who::ours:
      return "ours";
    case Contest::Who::row_by_row:
      return "row by row";
    case Contest::Who::floor:
      return "floor";
  }
  throw std::invalid_argument("no such way");
}

}  // namespace ff::bench
