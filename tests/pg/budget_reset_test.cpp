#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "support/stalled_act.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::RowKey;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("budget_reset");
}

struct Stage : StillStage {
  Stage() : StillStage(reconciler()) {}

  RowKey add(const std::string& id, std::optional<std::int64_t> next_reset_at_ms, int partition = 3) {
    insert(db, "ff_budget_policy",
           {{"partition_key", partition},
            {"budget_id", id},
            {"policy_json", {{"reset_interval_ms", 60'000}, {"limit", 7}}},
            {"created_at_ms", 1},
            {"updated_at_ms", 2},
            {"scope_type", "lane"},
            {"scope_id", "default"},
            {"enforcement_mode", "hard"},
            {"breach_count", 3},
            {"soft_breach_count", 4},
            {"last_breach_at_ms", 5},
            {"last_breach_dim", "tokens"},
            {"next_reset_at_ms", next_reset_at_ms ? Json(*next_reset_at_ms) : Json(nullptr)}});
    for (const char* dimension : {"tokens", "cost"}) add_usage(id, dimension, partition);
    return {{static_cast<std::int16_t>(partition)}, {id}};
  }
  void add_usage(const std::string& id, const std::string& dimension, int partition = 3) {
    insert(db, "ff_budget_usage",
           {{"partition_key", partition},
            {"budget_id", id},
            {"dimensions_key", dimension},
            {"current_value", 100},
            {"last_reset_at_ms", 5},
            {"updated_at_ms", 6}});
  }
  Json policy(const std::string& id) {
    return row(db, "SELECT * FROM ff_budget_policy WHERE partition_key = 3 AND budget_id = $1",
               pg::Params::of(id));
  }
  Json usage(const std::string& id, const std::string& dimension) {
    return row(db,
               "SELECT * FROM ff_budget_usage WHERE partition_key = 3 AND budget_id = $1"
               " AND dimensions_key = $2",
               pg::Params::of(id, dimension));
  }
};

const Json kZero = {{"current_value", 0}, {"last_reset_at_ms", kNow}, {"updated_at_ms", kNow}};
const Json kRestarted = {{"last_breach_at_ms", nullptr},
                         {"last_breach_dim", nullptr},
                         {"updated_at_ms", kNow},
                         {"next_reset_at_ms", kNow + 60'000}};

}  // namespace

TEST_CASE("budget_reset starts a budget from zero whose period is over and touches nothing else") {
  Stage t;
  t.add("due", kNow - 5000);
  // Another budget of the partition, one that never resets, and the same name in another partition.
  t.add("later", kNow + 1);
  t.add("never", std::nullopt);
  t.add("due", kNow + 1, 4);
  t.add_usage("without_policy", "tokens");
  const Json policy = t.policy("due");
  const Json tokens = t.usage("due", "tokens");
  const Json cost = t.usage("due", "cost");
  const auto before = snapshot(t.db);

  const TickReport report = t.tick();
  CHECK(t.policy("due") == changed(policy, kRestarted));
  CHECK(t.usage("due", "tokens") == changed(tokens, kZero));
  CHECK(t.usage("due", "cost") == changed(cost, kZero));
  CHECK(diff(before, snapshot(t.db)).size() == 6);
  CHECK(outcomes(report) == "reset=1");
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK(report.skipped.empty());
}

TEST_CASE(
    "budget_reset deletes what a budget's executions have spent, so that nothing of it is given back later") {
  Stage t;
  t.add("due", kNow - 5000);
  t.add("later", kNow + 1);
  t.add("due", kNow + 1, 4);
  const auto spend = [&](const char* budget, int partition, const char* dimension) {
    insert(t.db, "ff_budget_usage_by_exec",
           {{"partition_key", partition},
            {"budget_id", budget},
            {"execution_id", to_string(new_uuid())},
            {"dimensions_key", dimension},
            {"delta_total", 40},
            {"updated_at_ms", 6}});
  };
  for (const char* dimension : {"tokens", "tokens", "cost"}) spend("due", 3, dimension);
  spend("later", 3, "tokens");
  spend("due", 4, "tokens");
  const std::string of_due =
      "SELECT count(*) FROM ff_budget_usage_by_exec WHERE budget_id = 'due' AND partition_key = 3";
  {
    auto other = t.database.connect();
    pg::Transaction releasing(other);
    releasing.execute("SELECT FROM ff_budget_usage_by_exec WHERE dimensions_key = 'cost' FOR UPDATE");
    CHECK(t.tick().skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
    CHECK(number(t.db, of_due) == 3);
    CHECK(t.usage("due", "tokens")["current_value"] == 100);
  }
  CHECK(outcomes(t.tick()) == "reset=1");
  CHECK(number(t.db, of_due) == 0);
  CHECK(number(t.db, "SELECT count(*) FROM ff_budget_usage_by_exec") == 2);
}

TEST_CASE(
    "budget_reset shortens a ledger that is too long for one transaction, and resets with its last slice") {
  Stage t;
  t.add("long", kNow - 5000);
  t.add("longer", kNow - 4500);
  t.add("short", kNow - 4000);
  t.add("later", kNow + 1);
  for (const char* budget : {"long", "longer", "short", "later"})
    t.db.execute(
        "INSERT INTO ff_budget_usage_by_exec (partition_key, budget_id, execution_id, dimensions_key, "
        "delta_total, updated_at_ms) SELECT 3, $1, gen_random_uuid(), 'tokens', 1, 6 FROM generate_series(1, "
        "$2)",
        pg::Params::of(budget, std::string_view(budget) == "short" ? 10'000 : 20'001));
  const auto in_ledger = [&](const std::string& budget) {
    return number(t.db, "SELECT count(*) FROM ff_budget_usage_by_exec WHERE budget_id = '" + budget + "'");
  };
  const Json policy = t.policy("long");
  const TickReport first = t.tick();
  CHECK(outcomes(first) == "reset=1 shortened=2");
  CHECK(first.skipped.empty());
  CHECK(first.more);
  CHECK(in_ledger("longer") == 10'001);
  CHECK(in_ledger("long") == 10'001);
  CHECK(in_ledger("short") == 0);
  CHECK(t.policy("long") == policy);
  CHECK(t.usage("long", "tokens")["current_value"] == 100);
  CHECK(t.usage("short", "tokens")["current_value"] == 0);
  {
    auto other = t.database.connect();
    pg::Transaction releasing(other);
    releasing.execute("SELECT FROM ff_budget_usage_by_exec WHERE budget_id LIKE 'long%' FOR UPDATE");
    const TickReport held = t.tick();
    CHECK(held.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 2}});
    CHECK_FALSE(held.more);
  }
  CHECK(outcomes(t.tick()) == "shortened=2");
  const TickReport last = t.tick();
  CHECK(outcomes(last) == "reset=2");
  CHECK_FALSE(last.more);
  CHECK(in_ledger("long") == 0);
  CHECK(t.usage("long", "tokens")["current_value"] == 0);
  CHECK(in_ledger("later") == 20'001);
}

TEST_CASE("budget_reset resets at the very millisecond at which the period ends") {
  Stage t;
  t.add("past", kNow - 1, 1);
  t.add("present", kNow, 2);
  const RowKey future = t.add("future", kNow + 1);
  CHECK(act_on(t.db, reconciler(), {future}).empty());
  const TickReport report = t.tick();
  CHECK(report.processed == 2);
  CHECK(t.policy("future")["next_reset_at_ms"] == kNow + 1);
  CHECK(t.usage("future", "cost")["current_value"] == 100);
  CHECK(report.next_due == unix_millis(kNow + 1));
}

TEST_CASE("budget_reset sets the next reset only by a positive whole number") {
  struct Case {
    const char* policy;
    std::optional<std::int64_t> interval;
  };
  const auto c =
      GENERATE(values<Case>({{"null", {}},
                             {"5", {}},
                             {"\"reset_interval_ms\"", {}},
                             {"[]", {}},
                             {R"(["reset_interval_ms", 5])", {}},
                             {"{}", {}},
                             {R"({"reset_interval_ms": null})", {}},
                             {R"({"reset_interval_ms": "60000"})", {}},
                             {R"({"reset_interval_ms": true})", {}},
                             {R"({"reset_interval_ms": [60000]})", {}},
                             {R"({"reset_interval_ms": {"ms": 60000}})", {}},
                             {R"({"reset_interval_ms": 0})", {}},
                             {R"({"reset_interval_ms": -1})", {}},
                             {R"({"reset_interval_ms": -60000})", {}},
                             {R"({"reset_interval_ms": 2.5})", {}},
                             {R"({"reset_interval_ms": 0.5})", {}},
                             {R"({"reset_interval_ms": 1e400})", {}},
                             {R"({"reset_interval_ms": 9223372036854775807})", {}},
                             {R"({"reset_interval_ms": 99999999999999999999})", {}},
                             {R"({"reset_interval_ms": 1})", 1},
                             {R"({"reset_interval_ms": 6e4})", 60'000},
                             {R"({"reset_interval_ms": 999999999999999999})", 999'999'999'999'999'999}}));
  static Stage t;
  static int number = 0;
  const std::string id = "b" + std::to_string(++number);
  t.add(id, kNow);
  t.db.execute("UPDATE ff_budget_policy SET policy_json = $1::jsonb WHERE budget_id = $2",
               pg::Params::of(c.policy, id));
  CAPTURE(c.policy);
  const TickReport report = t.tick();
  CHECK(outcomes(report) == "reset=1");
  CHECK(report.error_count() == 0);
  const auto next =
      t.db.execute("SELECT next_reset_at_ms FROM ff_budget_policy WHERE budget_id = $1", pg::Params::of(id))
          .one()
          .get<std::optional<std::int64_t>>(0);
  CHECK(next == (c.interval ? std::optional(kNow + *c.interval) : std::nullopt));
  CHECK(t.usage(id, "tokens")["current_value"] == 0);
  // A budget that is put in order by hand must not be found by the next case.
  CHECK(t.tick().scanned == 0);
}

TEST_CASE("budget_reset resets a budget that nobody has used") {
  Stage t;
  t.add("idle", kNow);
  t.db.execute("DELETE FROM ff_budget_usage");
  CHECK(outcomes(t.tick()) == "reset=1");
  CHECK(t.policy("idle")["next_reset_at_ms"] == kNow + 60'000);
  CHECK(snapshot(t.db, "ff_budget_usage").empty());
}

TEST_CASE("budget_reset looks at as many partitions as there are for budgets") {
  Stage t;
  t.db.execute("UPDATE ff_partition_config SET num_flow_partitions = 16, num_budget_partitions = 300");
  for (const int partition : {0, 16, 299, 300}) t.add("b" + std::to_string(partition), kNow, partition);
  CHECK(t.tick({.partitions = {{1}}}).processed == 3);
  CHECK(number(t.db, "SELECT count(*) FROM ff_budget_usage WHERE current_value = 100") == 2);
  CHECK(number(t.db, "SELECT partition_key FROM ff_budget_policy WHERE next_reset_at_ms = $1",
               pg::Params::of(kNow)) == 300);
}

TEST_CASE("budget_reset looks at the partitions of budgets also where it has as many of executions") {
  Stage t;
  t.db.execute("UPDATE ff_partition_config SET num_budget_partitions = 4");
  for (const int partition : {0, 3, 4, 40}) t.add("b" + std::to_string(partition), kNow, partition);
  CHECK(t.tick({.partitions = partition_range({40}, {43})}).processed == 2);
  CHECK(number(t.db, "SELECT min(partition_key) FROM ff_budget_policy WHERE next_reset_at_ms = $1",
               pg::Params::of(kNow)) == 4);
}

TEST_CASE("budget_reset is not filtered because a budget belongs to no execution") {
  Stage t;
  t.add("b", kNow);
  CHECK(t.tick({.filter = for_both("a", {"cairn.instance_id", "1"})}).processed == 1);
  CHECK_FALSE(reconciler().filterable);
}

TEST_CASE("budget_reset skips a budget of which somebody holds any row and takes it later") {
  const std::string held = GENERATE("ff_budget_policy WHERE budget_id = 'held'",
                                    "ff_budget_usage WHERE budget_id = 'held' AND dimensions_key = 'cost'");
  Stage t;
  t.add("held", kNow);
  t.add("free", kNow);
  const auto before = snapshot(t.db);
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM " + held + " FOR UPDATE");
  const TickReport report = t.tick();
  CHECK(outcomes(report) == "reset=1");
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  for (const auto& line : diff(before, snapshot(t.db))) CHECK(line.find("\"held\"") == std::string::npos);
  CHECK(t.usage("free", "cost")["current_value"] == 0);
  holding.rollback();
  CHECK(t.tick().processed == 1);
  CHECK(t.usage("held", "cost")["current_value"] == 0);
  CHECK(t.usage("held", "tokens")["current_value"] == 0);
}

TEST_CASE("budget_reset leaves a budget for later from which somebody spends after its statement began") {
  Stage t;
  t.add("b", 1);
  StalledAct act(t.database, reconciler(), {{{3}, {"b"}}});
  // What is spent for an execution that had spent nothing: its line in the ledger is one that the act does not see.
  t.db.execute_script(
      "BEGIN; SELECT FROM ff_budget_policy WHERE budget_id = 'b' FOR UPDATE;"
      "UPDATE ff_budget_usage SET current_value = current_value + 5 WHERE budget_id = 'b' AND dimensions_key "
      "= 'cost';"
      "INSERT INTO ff_budget_usage_by_exec (partition_key, budget_id, execution_id, dimensions_key, "
      "delta_total,"
      " updated_at_ms) VALUES (3, 'b', gen_random_uuid(), 'cost', 5, 0); COMMIT");
  const auto spent = snapshot(t.db);
  CHECK(act.finish().empty());
  CHECK(diff(spent, snapshot(t.db)).empty());

  CHECK(t.tick().processed == 1);
  CHECK(t.usage("b", "cost")["current_value"] == 0);
  CHECK(number(t.db, "SELECT count(*) FROM ff_budget_usage_by_exec") == 0);
}

TEST_CASE("budget_reset takes a budget to whose keys others refer") {
  Stage t;
  t.add("b", kNow);
  auto other = t.database.connect();
  pg::Transaction referring(other);
  referring.execute("SELECT FROM ff_budget_policy FOR KEY SHARE");
  referring.execute("SELECT FROM ff_budget_usage FOR KEY SHARE");
  CHECK(t.tick().processed == 1);
}

TEST_CASE("budget_reset leaves a budget alone that is reset between looking and acting") {
  Stage t;
  t.add("b", kNow);
  t.check_left_alone_after("UPDATE ff_budget_policy SET next_reset_at_ms = next_reset_at_ms + 60000");
}

TEST_CASE("budget_reset changes nothing when it runs again") {
  Stage t;
  t.add("b", kNow);
  REQUIRE(t.tick().processed == 1);
  const auto after = snapshot(t.db);
  CHECK(t.tick().scanned == 0);
  CHECK(diff(after, snapshot(t.db)).empty());
}

TEST_CASE("budget_reset tells budgets of the same name in two partitions apart") {
  Stage t;
  t.add("b", kNow);
  t.add("b", kNow + 1, 4);
  // Due as well, so that one statement is about both partitions.
  t.add("c", kNow, 4);
  const auto twin = row(t.db, "SELECT * FROM ff_budget_policy WHERE partition_key = 4 AND budget_id = 'b'");
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_budget_usage WHERE partition_key = 4 AND budget_id = 'b' FOR UPDATE");
  CHECK(t.tick().processed == 2);
  CHECK(row(t.db, "SELECT * FROM ff_budget_policy WHERE partition_key = 4 AND budget_id = 'b'") == twin);
  CHECK(number(t.db, "SELECT sum(current_value)::bigint FROM ff_budget_usage WHERE budget_id = 'b'") == 200);
  CHECK(t.usage("b", "cost")["current_value"] == 0);
}

TEST_CASE("budget_reset waits for a usage row although one of the same name in another partition is free") {
  Stage t;
  t.add("b", kNow);
  t.add("b", kNow, 4);
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute(
      "SELECT FROM ff_budget_usage WHERE partition_key = 4 AND dimensions_key = 'cost' FOR UPDATE");
  const TickReport report = t.tick();
  CHECK(report.processed == 1);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(t.usage("b", "cost")["current_value"] == 0);
}

TEST_CASE("budget_reset locks no row of another budget") {
  Stage t;
  // In front of those that are due, where whoever looks for them too widely meets the others first.
  t.add("later", kNow + 1);
  t.add("due", kNow + 1, 4);
  t.add("due", kNow);
  t.add("other", kNow, 4);
  CHECK(t.tick().processed == 2);
  // A lock leaves its mark in the row's header.
  CHECK(number(t.db, "SELECT count(*) FROM ff_budget_usage WHERE current_value <> 0") == 4);
  CHECK(number(t.db, "SELECT count(*) FROM ff_budget_usage WHERE current_value <> 0 AND xmax <> '0'") == 0);
}
