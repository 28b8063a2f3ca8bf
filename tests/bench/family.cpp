#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "bench/bench.hpp"
#include "bench/contest.hpp"
#include "reconcile/family/registry.hpp"

namespace ff::bench {
namespace {

// Of the backlog on which all ways have to agree.
constexpr const char* kTrialDatabase = "family_trial";
constexpr int kTrialFanOut = 4;
constexpr int kTrialPartitions = 16;
constexpr int kTrialRowsPerPartition = 8;

constexpr int kRivalRows = 1280;

/// All that have a rival, but for attempt_timeout, which has regimes of its own.
std::vector<std::string> members() {
  std::vector<std::string> names;
  for (const reconcile::Reconciler& each : reconcile::registry())
    if (each.name != "attempt_timeout" && has_sql_file(std::string(each.name) + "/rival"))
      names.emplace_back(each.name);
  return names;
}

void expect_the_same(const pg::Connector& connector, const std::string& reconciler) {
  Contest contest(connector, reconciler, false);
  std::vector<std::string> wanted;
  for (const Contest::Who who : contest.ways()) {
    contest.rate(who, {.rows = kTrialPartitions * kTrialRowsPerPartition, .partitions = kTrialPartitions});
    const auto left = contest.stock().end_state();
    if (wanted.empty()) wanted = left;
    const auto [ours, other] = std::ranges::mismatch(wanted, left);
    if (ours != wanted.end())
      throw std::runtime_error(fmt::format("{}: {} leaves other rows than ours: {} instead of {}", reconciler,
                                           name_of(who), *other, *ours));
  }
  contest.clear();
}

void try_out(const Bench& bench) {
  {
    const pg::Connector connector = new_database(bench.server, kTrialDatabase, kTrialFanOut);
    for (const std::string& each : members()) expect_the_same(connector, each);
  }
  bench.server.drop_database(kTrialDatabase);
}

Findings measure_one(const Bench& bench, const std::string& name) {
  Contest contest(bench.connector, name, !bench.quick);
  const int per_partition = contest.stock().per_partition();
  const Contest::Backlog backlog{
      .rows = kPartitions * (bench.quick ? std::max(per_partition / 10, 4) : per_partition),
      .rival_partitions = bench.quick ? 17 : 1 + kRivalRows / per_partition};
  Findings found{.regime = name,
                 .ways = contest.rates(backlog, bench.rounds()),
                 .numbers = {{"rows", backlog.rows},
                             {"connections", Contest::kConnections},
                             {"rival_rows", backlog.rival_rows()},
                             {"rival_partitions", backlog.rival_partitions - 1}},
                 .words = {{"reconciler", name}, {"rows_are", contest.stock().rows_are()}},
                 .described_as = "family"};
  found.words[found.ways.size() == 3 ? "floor" : "no_floor"] = "";
  if (name.starts_with("edge_cancel_")) found.words["cancel_groups"] = "";
  if (!reconcile::find_reconciler(name)->companions.empty()) found.words["companions"] = "";
  return found;
}

}  // namespace

std::vector<Findings> measure_family(const Bench& bench) {
  try_out(bench);
  std::vector<Findings> all;
  for (const std::string& each : members()) all.push_back(measure_one(bench, each));
  return all;
}

}  // namespace ff::bench
