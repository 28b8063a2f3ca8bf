// What holds for every reconciler of the registry: whoever adds one gets these tests with it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "pg/transaction.hpp"
#include "support/engine.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Reconciler;
using reconcile::Statements;

namespace {

/// Runs a statement without leaving anything behind.
void run(pg::Connection& db, const reconcile::Statement& statement, const pg::Params& params) {
  pg::Transaction transaction(db, {.plan = pg::Plan::generic});
  CHECK_NOTHROW(transaction.execute(statement.over({{0}, {3}}), params));
  transaction.rollback();
}

pg::Params with_no_keys(pg::Params params, const Reconciler& reconciler) {
  params.add_array("smallint", {});
  for (const auto& column : reconciler.key) params.add_array(column.type, {});
  return params;
}

}  // namespace

TEST_CASE("every statement of every reconciler fits the migrated schema") {
  static const Database database;
  auto db = database.connect();
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    const Statements statements(reconciler);
    for (const ScannerFilter& filter : {ScannerFilter{}, for_both("a", {"k", "v"})}) {
      const auto leading = leading_params(reconciler, {{0}, {3}}, filter);
      pg::Params page = leading;
      page.add(std::int64_t{10}).add(std::int64_t{60'000}).add(std::int64_t{0});
      run(db, statements.page, page);
      for (std::size_t i = 0; i < reconciler.key.size(); ++i) page.add(std::optional<std::string>{});
      run(db, statements.rest, page);
      run(db, statements.still_due, with_no_keys(leading, reconciler));
      if (!statements.wait.empty()) run(db, statements.wait, with_no_keys(leading, reconciler));
      if (!statements.lock.empty()) run(db, statements.lock, with_no_keys(leading, reconciler));
      run(db, statements.act, with_no_keys(leading, reconciler));
      run(db, statements.backlog, pg::Params(leading).add(std::int64_t{10}));
      if (!statements.of_execution.empty())
        run(db, statements.of_execution, pg::Params(leading).add(new_uuid()));
    }
  }
}

TEST_CASE("every reconciler finds nothing to do in an empty database, and nothing is due there") {
  static const Database database;
  auto db = database.connect();
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    EngineFixture engine(database, reconciler);
    const auto report = engine->tick();
    CHECK_FALSE(report.failure);
    CHECK(report.scanned == 0);
    CHECK_FALSE(report.next_due);
    CHECK(engine->backlog(10).due == 0);
    const auto one = engine->tick_one({{3}, new_uuid()});
    CHECK((reconciler.execution_column.empty() || !one.failure));
  }
  CHECK(snapshot(db).empty());
}

TEST_CASE("the names of reconcilers are distinct and found again") {
  std::set<std::string_view> names;
  for (const Reconciler& reconciler : reconcile::registry()) {
    CAPTURE(reconciler.name);
    CHECK(names.insert(reconciler.name).second);
    CHECK(reconcile::find_reconciler(reconciler.name) == &reconciler);
    CHECK_FALSE(reconciler.summary.empty());
  }
  CHECK(reconcile::find_reconciler("no_such") == nullptr);
}

TEST_CASE("the outcomes of every pair are distinct, and its act can give each of them") {
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    std::set<std::string_view> outcomes;
    for (const auto& outcome : reconciler.outcomes) outcomes.insert(outcome.name);
    CHECK(outcomes.size() == reconciler.outcomes.size());
    CHECK_FALSE(outcomes.empty());
    // Every outcome is one that `act` can give: it stands there as a text.
    const std::string act = Statements(reconciler).act.over({{3}});
    for (const auto outcome : outcomes)
      CHECK(act.find("'" + std::string(outcome) + "'") != std::string::npos);
  }
}

TEST_CASE("companions share with their reconciler whatever an operator can set or see") {
  for (const Reconciler& reconciler : reconcile::registry()) {
    const auto all = reconcile::all_outcomes(reconciler);
    for (const Reconciler& companion : reconciler.companions) {
      CAPTURE(reconciler.name);
      CHECK(companion.name == reconciler.name);
      CHECK(companion.summary == reconciler.summary);
      const auto left_alone =
          std::ranges::count(companion.outcomes, reconcile::Effect::left_alone, &reconcile::Outcome::effect);
      CHECK((left_alone == 0 || companion.is_shortcut));
      CHECK(companion.companions.empty());
      // Rows that are no execution's have nothing that a filter could ask for: they are for everybody.
      CHECK((companion.filterable == reconciler.filterable || companion.execution_column.empty()));
      CHECK(companion.batch_size == reconciler.batch_size);
      CHECK(companion.takes_leases == reconciler.takes_leases);
      CHECK((companion.execution_column.empty() || !reconciler.execution_column.empty()));
      CHECK(reconcile::default_settings(companion) == reconcile::default_settings(reconciler));
      for (const auto& outcome : companion.outcomes) CHECK(std::ranges::count(all, outcome.name) == 1);
      // It is never scanned more often than the first pair, whatever it says.
      if (!companion.is_shortcut) CHECK(companion.interval >= reconciler.interval);
    }
  }
}

TEST_CASE("a shortcut is announced, and finds what another pair of the same reconciler finds by and by") {
  int found = 0;
  for (const Reconciler& reconciler : reconcile::registry()) {
    CAPTURE(reconciler.name);
    CHECK_FALSE(reconciler.is_shortcut);
    for (const Reconciler& shortcut : reconciler.companions) {
      if (!shortcut.is_shortcut) continue;
      ++found;
      CHECK(shortcut.announced(reconcile::default_settings(shortcut)));
      const auto name_and_effect = [](const reconcile::Outcome& its) {
        return std::pair(its.name, its.effect);
      };
      const auto is_its_walk = [&](const Reconciler& walk) {
        return (walk.walk || walk.searches) && walk.act == shortcut.act &&
               std::ranges::equal(walk.outcomes, shortcut.outcomes, {}, name_and_effect, name_and_effect) &&
               walk.interval > shortcut.interval;
      };
      CHECK((is_its_walk(reconciler) || std::ranges::any_of(reconciler.companions, is_its_walk)));
    }
  }
  CHECK(found > 0);
}

TEST_CASE("the key of every reconciler has, with the partition, the primary key of a table that it scans") {
  static const Database database;
  auto db = database.connect();
  const auto tables = db.execute(
      "SELECT c.relname::text AS name, json_agg(a.attname || ' ' || format_type(a.atttypid, NULL))::text AS "
      "key "
      "FROM pg_constraint p JOIN pg_class c ON c.oid = p.conrelid AND NOT "
      "c.relispartition "
      "CROSS JOIN LATERAL unnest(p.conkey) WITH ORDINALITY AS k(attnum, n) "
      "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum WHERE p.contype = 'p' GROUP BY 1");
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    std::set<std::string> key{"partition_key smallint"};
    for (const auto& column : reconciler.key)
      key.insert(std::string(column.name) + " " + std::string(column.type));
    const std::string page = Statements(reconciler).page.over({{3}});
    // Some keys have more: what the scan saw of the row, or of which table it is.
    const bool found = std::any_of(tables.begin(), tables.end(), [&](const pg::Row& table) {
      const auto primary = Json::parse(table.get<std::string>("key"));
      return std::ranges::all_of(
                 primary, [&](const Json& column) { return key.contains(column.get<std::string>()); }) &&
             page.find(table.get<std::string>("name")) != std::string::npos;
    });
    CHECK(found);
  }
}

TEST_CASE("every setting of every reconciler has a default within its range") {
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    for (const auto& setting : reconciler.settings) {
      CAPTURE(reconciler.name, setting.name);
      CHECK(setting.fallback >= setting.least);
      CHECK(setting.fallback <= setting.most);
      CHECK_FALSE(setting.summary.empty());
    }
    // What maps names to durations maps none unless configured.
    const auto mappings =
        std::ranges::count(reconciler.settings, SettingDecl::Kind::durations, &SettingDecl::kind);
    CHECK(reconcile::default_settings(reconciler).size() + static_cast<std::size_t>(mappings) ==
          reconciler.settings.size());
  }
}

TEST_CASE("the number of parameters of a reconciler does not depend on its settings or its neighbours") {
  reconcile::Family everybody;
  for (const Reconciler& reconciler : reconcile::registry())
    everybody.enabled.emplace(reconciler.name, reconcile::default_settings(reconciler));
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    const auto settings = reconcile::default_settings(reconciler);
    const auto alone = reconciler.parameters(settings, {});
    CHECK(reconciler.parameters(settings, everybody).types() == alone.types());
  }
}

TEST_CASE("the statements of a reconciler lock by skipping and never wait") {
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    const auto count_of = [](const std::string& text, std::string_view part) {
      int found = 0;
      for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
      return found;
    };
    const Statements statements(reconciler);
    const std::string act = statements.lock.over({{3}}) + statements.act.over({{3}});
    const int locks = count_of(act, "FOR NO KEY UPDATE") + count_of(act, "FOR UPDATE");
    CHECK(locks > 0);
    CHECK(count_of(act, "SKIP LOCKED") == locks);
    CHECK(count_of(statements.page.over({{3}}), "FOR ") == 0);
  }
}
