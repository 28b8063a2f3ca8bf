// With rows in all partitions of a group, and a hash child for each, no act compares them with each other.
#include <catch2/catch.hpp>

#include "migrate/migrate.hpp"
#include "support/due_rows.hpp"
#include "support/engine.hpp"
#include "support/plan.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Reconciler;

namespace {

/// More than in act_plan_test: a child this small has few rows whichever index it is read by, and not always is
/// that the primary key. A row that is compared with all others of its batch is met 500 times.
constexpr double kComparisonsPerRow = 50;

}  // namespace

TEST_CASE("no act over a whole group compares the rows of its batch with each other") {
  const Database database{empty_database()};
  auto db = database.connect();
  migrate::up(db, migrate::kDefaultFanOut);
  insert_due_rows(db, {.partitions = 256, .per_partition = 16, .one_due_in = 4});
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    const DueBatch batch(db, reconciler, reconcile::Groups(partition_range({0}, {255})).all().front(), 16);
    CHECK(moved(reconciler, batch.outcomes(db)) >= 32);
    const double most = kComparisonsPerRow * static_cast<double>(batch.rows.size());
    for (const std::string& statement : {batch.lock, batch.act})
      if (!statement.empty())
        CHECK(efforts_above(most, run_plan_of(db, statement, batch.params, pg::Plan::generic)) ==
              std::vector<std::string>{});
  }
}
