#include "bench/contest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace ff::bench {

Contest::Contest(const pg::Connector& short_way, const pg::Connector& connector,
                 const std::string& reconciler, bool checkpoints)
    : checkpoints_(checkpoints),
      name_(reconciler),
      row_by_row_(name_),
      keeper_(backstage(short_way)),
      stock_(keeper_, name_),
      ours_(std::make_shared<Lanes>(connector, kConnections), name_),
      holdoff_(ours_.reconciler().holdoff(settings_for_stock(ours_.reconciler()))),
      floor_(connector, kConnections, name_, holdoff_),
      rival_(connect(connector)) {
  rehearse(stock_, {&ours_});
}

int Contest::Backlog::rows_in_first(int some_partitions) const {
  return some_partitions * (rows / partitions) + std::min(some_partitions, rows % partitions);
}

std::vector<Contest::Who> Contest::ways() const {
  std::vector<Who> ways{Who::ours, Who::row_by_row};
  if (floor_.exists()) ways.push_back(Who::floor);
  return ways;
}

double Contest::rate(Who who, const Backlog& backlog) {
  stock_.fill(backlog.rows, backlog.partitions);
  const std::int64_t spoilt = backlog.spoil ? backlog.spoil() : 0;
  if (checkpoints_) keeper_.execute_script("CHECKPOINT", patiently());
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

// Nobody is measured who has only just connected, or whose tables have just been analyzed: their descriptions have to
// be read anew then, those of 256 children, which takes longer than many rows. An engine that has been running has
// scanned before, over each connection; row by row has worked off the last partition; the floor has planned its
// statements. Returns how many rows that has moved.
std::int64_t Contest::get_ready(Who who, int partitions) {
  const auto last = static_cast<std::int16_t>(partitions - 1);
  if (who == Who::row_by_row) return row_by_row_.work(rival_, {{last}}, holdoff_);
  if (who == Who::floor)
    floor_.plan();
  else
    ours_.start_over();
  return 0;
}

// How many rows it says to have moved; the floor says nothing.
std::optional<std::int64_t> Contest::work(Who who, int partitions) {
  if (who == Who::ours) return ours_.tick();
  if (who == Who::row_by_row) return row_by_row_.work(rival_, all_partitions(partitions), holdoff_);
  floor_.run(partitions);
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
