// No act reads a whole table, and none compares the rows of its batch with each other.
#include <catch2/catch.hpp>

#include <algorithm>
#include <set>

#include "support/due_rows.hpp"
#include "support/engine.hpp"
#include "support/plan.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Reconciler;

namespace {

constexpr int kBatch = 400;  // rows

/// Each row is met a few times, by each part of the statement that has a use for it, and a group with four
/// siblings as many times as these; one that is compared with all others of its batch is met 400 times.
constexpr double kComparisonsPerRow = 20;

/// The partitions over which a batch is spread, and that its statement names.
struct Spread {
  const char* name;
  Partitions partitions;

  DueBatch batch(pg::Connection& db, const Reconciler& reconciler) const {
    return {db, reconciler, partitions, kBatch / static_cast<int>(partitions.size())};
  }
};

const std::vector<Spread>& spreads() {
  static const std::vector<Spread> all = {{"one partition", {{3}}},
                                          {"eight partitions", partition_range({0}, {7})},
                                          {"sixteen partitions", sixteen_partitions()}};
  return all;
}

/// The declared outcomes without those that only somebody else's lock or work brings about.
std::set<std::string> to_be_seen(const Reconciler& reconciler) {
  std::set<std::string> names;
  for (const auto& outcome : reconciler.outcomes)
    if (!outcome.goes_on) names.emplace(outcome.name);  // that is of what is large
  names.erase("skipped_locked");
  if (reconciler.name == "dependency") names.erase("noop");
  if (reconciler.name == "quota_concurrency") names.erase("guards_expired");
  return names;
}

}  // namespace

TEST_CASE("no act and no look at what it left reads a large table as a whole") {
  const Database database;
  auto db = database.connect();
  insert_due_rows(db);
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    for (const Spread& spread : spreads()) {
      CAPTURE(spread.name);
      const DueBatch batch = spread.batch(db, reconciler);
      for (const std::string& statement : {batch.lock, batch.act, batch.still_due})
        if (!statement.empty())
          CHECK(whole_tables(db, plan_of(db, statement, batch.params, pg::Plan::generic)) ==
                std::vector<std::string>{});
    }
  }
}

TEST_CASE("no act compares the rows of its batch with each other") {
  const Database database;
  auto db = database.connect();
  insert_due_rows(db);
  // The test would see it: sums can be found by comparing each with each only.
  const std::string pairs =
      "WITH a AS MATERIALIZED (SELECT * FROM generate_series(1, $1) x) SELECT FROM a JOIN a b ON a.x + b.x = "
      "7";
  CHECK_FALSE(efforts_above(kComparisonsPerRow * kBatch,
                            run_plan_of(db, pairs, pg::Params::of(kBatch), pg::Plan::custom))
                  .empty());

  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    std::set<std::string> seen;
    for (const Spread& spread : spreads()) {
      CAPTURE(spread.name);
      const DueBatch batch = spread.batch(db, reconciler);
      const auto outcomes = batch.outcomes(db);
      for (const auto& [name, count] : outcomes) seen.insert(name);
      CHECK(moved(reconciler, outcomes) >= kBatch / 3);
      const double most = kComparisonsPerRow * static_cast<double>(batch.rows.size());
      for (const std::string& statement : {batch.lock, batch.act})
        if (!statement.empty())
          CHECK(efforts_above(most, run_plan_of(db, statement, batch.params, pg::Plan::generic)) ==
                std::vector<std::string>{});
    }
    CHECK(std::ranges::includes(seen, to_be_seen(reconciler)));
  }
}
