// At the full number of hash children, the server thinks about no statement for much longer than it works on it.
#include <catch2/catch.hpp>

#include "migrate/migrate.hpp"
#include "support/due_rows.hpp"
#include "support/engine.hpp"
#include "support/plan.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Reconciler;
using reconcile::Statements;

namespace {

constexpr int kFew = 4;  // due rows per partition

/// A page that finds little runs for a tenth of a millisecond: there, a multiple alone would say nothing. The
/// rest is a matter of ratio, so that a slow server makes no difference.
bool is_planned_too_long(const Times& times) {
  return times.planning > 6 * times.execution + 1.5;
}

/// "planned 0.7 ms, run 0.1 ms", where that is too long.
std::string fault(const Times& times) {
  if (!is_planned_too_long(times)) return {};
  return "planned " + std::to_string(times.planning) + " ms, run " + std::to_string(times.execution) + " ms";
}

Times page_times(pg::Connection& db, const Reconciler& reconciler, const Partitions& partitions, int limit) {
  const pg::Plan plan = Statements::plan_for(partitions.size());
  return best_times(db, Statements(reconciler, plan).page,
                    page_params(reconciler, partitions, Milliseconds{0}, limit), plan);
}

}  // namespace

TEST_CASE("no statement is planned for much longer than it runs") {
  const Database database{empty_database()};
  auto db = database.connect();
  migrate::up(db, migrate::kDefaultFanOut);
  insert_due_rows(db, {.partitions = 256, .per_partition = 8, .one_due_in = 2});
  const auto eight = partition_range({8}, {15});
  const auto nine = partition_range({8}, {16});
  const auto all = partition_range({0}, {255});

  // The test would see it: an act over all partitions, planned for its values each time.
  const Reconciler& any = *reconcile::find_reconciler("attempt_timeout");
  const DueBatch over_all(db, any, nine, kFew);
  CHECK(over_all.plan == pg::Plan::reused);
  CHECK(is_planned_too_long(best_times(db, over_all.act, over_all.params, pg::Plan::fresh)));

  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    const DueBatch named(db, reconciler, eight, kFew);
    CHECK(moved(reconciler, named.outcomes(db)) >= 8);
    CHECK(fault(page_times(db, reconciler, eight, kFew)) == "");
    CHECK(fault(best_times(db, named.act, named.params, named.plan)) == "");

    const DueBatch wide(db, reconciler, all, 1);
    CHECK(fault(page_times(db, reconciler, all, 1)) == "");
    CHECK(fault(best_times(db, wide.act, wide.params, wide.plan)) == "");
  }
}
