#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "bench/family_contest.hpp"
#include "bench/figures.hpp"
#include "bench/regimes.hpp"
#include "migrate/migrate.hpp"
#include "reconcile/family/registry.hpp"

namespace ff::bench {
namespace {

constexpr double kWantedRatio = 15;

// Of the backlog on which all ways have to agree.
constexpr std::string_view kTrialDatabase = "family_trial";
constexpr int kTrialFanOut = 4;
constexpr int kTrialPartitions = 16;
constexpr int kTrialRowsPerPartition = 8;

std::string_view name_of(Contest::Way way) {
  switch (way) {
    case Contest::Way::ours:
      return "ours";
    case Contest::Way::row_by_row:
      return "row by row";
    case Contest::Way::floor:
      return "floor";
  }
  throw std::invalid_argument("no such way");
}

// The first has regimes of its own, others nobody to be measured against.
bool is_member(const reconcile::Reconciler& reconciler) {
  return reconciler.name != "attempt_timeout" && has_sql_file(std::string(reconciler.name) + "/rival");
}

void expect_the_same(Sessions& sessions, const reconcile::Reconciler& reconciler) {
  constexpr int kRows = kTrialPartitions * kTrialRowsPerPartition;
  Contest contest(sessions, reconciler, Contest::Conditions::any);
  std::vector<std::string> wanted;
  for (const Contest::Way way : contest.ways()) {
    contest.measure(way, kRows, kTrialPartitions, kTrialPartitions);
    const auto left = contest.end_state();
    if (wanted.empty()) wanted = left;
    const auto [ours, other] = std::ranges::mismatch(wanted, left);
    if (ours != wanted.end())
      throw std::runtime_error(fmt::format("{}: {} leaves other rows than ours: {} instead of {}",
                                           reconciler.name, name_of(way), *other, *ours));
  }
  contest.clear();
}

void try_out(const Bench& bench) {
  bench.server.drop_database(kTrialDatabase);
  bench.server.create_database(kTrialDatabase);
  {
    const pg::Connector connector({.conninfo = bench.server.conninfo(kTrialDatabase)});
    auto connection = connect(connector);
    migrate::up(connection, kTrialFanOut);
    Sessions sessions(connector);
    for (const reconcile::Reconciler& reconciler : reconcile::registry())
      if (is_member(reconciler)) expect_the_same(sessions, reconciler);
  }
  bench.server.drop_database(kTrialDatabase);
}

struct Size {
  int rows;
  int rival_partitions;
};

// Row by row has a part of the partitions, as dense as all: with fewer rows in all of them it would pay more
// listing per row.
Size size_of(const Stock& stock, bool quick) {
  if (quick) return {.rows = kPartitions * std::max(stock.per_partition() / 10, 4), .rival_partitions = 17};
  return {.rows = kPartitions * stock.per_partition(), .rival_partitions = 1 + 1280 / stock.per_partition()};
}

std::vector<std::string> remarks_on(const reconcile::Reconciler& reconciler, const Size& size,
                                    bool has_floor) {
  std::vector<std::string> remarks{
      fmt::format(
          "Row by row worked off {} of the {} rows, those of {} partitions: it is a rate, and the rows lie "
          "as dense there.",
          size.rows / kPartitions * (size.rival_partitions - 1), size.rows, size.rival_partitions - 1),
      "All ways left the same rows, but for event numbers, signal ids and written times, of a smaller "
      "backlog of this kind."};
  if (has_floor)
    remarks.emplace_back("The floor has two connections, as ours, and half of the partitions on each.");
  else
    remarks.emplace_back("No floor was written: its statements would repeat most of the reconciler's own.");
  if (reconciler.name == "edge_cancel_dispatcher" || reconciler.name == "edge_cancel_reconciler")
    remarks.emplace_back(
        "FlowFabric lists groups over all partitions at once; here row by row may list them per "
        "partition, which costs it less. Ours has its default batch of 50 groups.");
  if (!reconciler.companions.empty())
    remarks.emplace_back(
        "Ours has looked for what its companions take, too, of which there is nothing and which no other way "
        "looks for.");
  return remarks;
}

Regime measure_one(const Bench& bench, Sessions& sessions, const reconcile::Reconciler& reconciler) {
  Contest contest(sessions, reconciler, bench.quick ? Contest::Conditions::any : Contest::Conditions::equal);
  const Stock& stock = contest.stock();
  const Size size = size_of(stock, bench.quick);
  const auto ways = contest.ways();
  Regime regime{
      .name = std::string(reconciler.name),
      .title = fmt::format("{} {} over {} partitions, ours over {} connections, row by row over one",
                           size.rows, stock.rows_are(), kPartitions, Sessions::kOurs),
      .unit = "rows/s",
      .ways = {}};
  for (const Contest::Way way : ways) regime.ways.push_back({std::string(name_of(way)), {}});
  for (int round = 0; round < bench.rounds(); ++round)
    for (std::size_t i = 0; i < ways.size(); ++i)
      regime.ways[i].rounds.push_back(
          contest.measure(ways[i], size.rows, kPartitions,
                          ways[i] == Contest::Way::row_by_row ? size.rival_partitions : kPartitions));
  contest.clear();

  regime.goals = {at_least_times(kWantedRatio, median_ratio(regime.ways[0], regime.ways[1]), "row by row")};
  regime.remarks = remarks_on(reconciler, size, ways.size() == 3);
  regime.plot = {.x = "", .y = "rows/s"};
  return regime;
}

}  // namespace

std::vector<Regime> measure_family(const Bench& bench) {
  try_out(bench);
  Sessions sessions(bench.connector);
  std::vector<Regime> regimes;
  for (const reconcile::Reconciler& reconciler : reconcile::registry())
    if (is_member(reconciler)) regimes.push_back(measure_one(bench, sessions, reconciler));
  return regimes;
}

}  // namespace ff::bench
