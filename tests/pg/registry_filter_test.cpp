// Whose rows a reconciler takes: the scanner filter, over the whole registry and in front of many rows of
// others.
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <thread>

#include "support/engine.hpp"
#include "support/stages.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Reconciler;
using reconcile::TickReport;

namespace {

constexpr std::int64_t kInFront = 3'600'000;  // due so much longer ago than what is looked for

SeedOptions of(std::optional<std::string> name_space, std::optional<std::string> tag, int count) {
  return {.count = count, .name_space = std::move(name_space), .instance_tag = std::move(tag)};
}

/// A tick with this filter, on tables of which the server has no statistics yet. Nothing in it may take longer than the engine's statement timeout.
TickReport tick(const Database& database, const Reconciler& reconciler, const ScannerFilter& filter) {
  EngineFixture engine(database, reconciler, {.filter = filter});
  TickReport report = engine->tick();
  CHECK_FALSE(report.failure);
  CHECK(report.error_count() == 0);
  return report;
}

/// The reconcilers whose rows belong to a namespace, as an operator may run them together. What one of them
/// ends is none of another's business here: so young an event is left alone.
struct Household {
  std::vector<const Reconciler*> members;
  std::map<std::string, Settings> settings;
};
const Household& household() {
  static const Household all = [] {
    Household made;
    for (const Reconciler& reconciler : reconcile::registry()) {
      // Whom dead_worker knows to be dead, worker_registry_ttl sweeps.
      if (!reconciler.filterable || reconciler.name == "dead_worker") continue;
      made.members.push_back(&reconciler);
      if (reconciler.name == "dependency")
        made.settings["dependency"] = {{"stale_threshold", Milliseconds{std::chrono::hours{1}}.count()}};
    }
    return made;
  }();
  return all;
}
Settings settings_at_home(const Reconciler& reconciler) {
  const auto found = household().settings.find(std::string(reconciler.name));
  return found == household().settings.end() ? Settings{} : found->second;
}

/// By reconciler.
using Rows = std::map<std::string_view, Seeded>;
Rows seed_all(pg::Connection& db, const std::string& name_space, int count, std::int64_t due_ago_ms) {
  Rows rows;
  for (const Reconciler* reconciler : household().members)
    rows[reconciler->name] = seed(db, *reconciler,
                                  {.count = count,
                                   .partitions = "{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}",
                                   .name_space = name_space,
                                   .due_ago_ms = due_ago_ms},
                                  settings_at_home(*reconciler));
  return rows;
}

/// What one filtered daemon moved in one pass, by the table of the rows.
struct Pass {
  std::map<std::string, std::multiset<reconcile::RowKey>> moved;
  std::vector<std::string> troubles;
};
Pass run_all(const Database& database, const std::string& name_space) {
  Pass pass;
  for (const Reconciler* reconciler : household().members) {
    EngineFixture engine(database, *reconciler,
                         {.filter = for_namespace(name_space), .settings = settings_at_home(*reconciler)});
    const TickReport report = engine->tick({.list_moves = true});
    const std::string who(reconciler->name);
    if (report.failure) pass.troubles.push_back(who + ": " + report.failure->what());
    if (report.error_count() > 0) pass.troubles.push_back(who + ": errors");
    // What a companion does once the first pair has moved its rows, such as clearing up behind them, goes by other keys.
    for (const auto& move : report.moves)
      if (move.key.columns.size() == reconciler->key.size())
        pass.moved[stage_of(*reconciler).table].insert(move.key);
  }
  return pass;
}

std::set<std::string> ids_of(const Rows& rows) {
  std::set<std::string> ids;
  for (const auto& [reconciler, seeded] : rows)
    for (const Seed& made : seeded.seeds) ids.insert(to_string(made.id));
  return ids;
}

/// How many rows of each table a pass over these rows has to move.
std::map<std::string, std::size_t> expected(const Rows& rows) {
  std::map<std::string, std::size_t> counts;
  for (const Reconciler* reconciler : household().members)
    counts[stage_of(*reconciler).table] += rows.at(reconciler->name).seeds.size();
  return counts;
}

std::map<std::string, std::size_t> counts_of(const Pass& pass) {
  std::map<std::string, std::size_t> counts;
  for (const auto& [table, keys] : pass.moved) counts[table] = keys.size();
  return counts;
}

bool names_any(const Pass& pass, const std::set<std::string>& ids) {
  for (const auto& [table, keys] : pass.moved)
    for (const auto& key : keys)
      for (const std::string& column : key.columns)
        if (ids.contains(column)) return true;
  return false;
}

}  // namespace

TEST_CASE("a filtered tick of every reconciler moves only what matches, behind 20,000 rows of others") {
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    if (!reconciler.filterable) continue;
    CAPTURE(reconciler.name);
    const Stage& stage = stage_of(reconciler);
    const Database database;
    auto db = database.connect();
    SeedOptions strangers = of("c", "3", 20'000);
    strangers.due_ago_ms += kInFront;
    const Seeded foreign = seed(db, reconciler, strangers);
    const Seeded nobodys = seed(db, reconciler, of(std::nullopt, std::nullopt, 5));
    const auto rows = untouched(db, foreign) + untouched(db, nobodys);
    const Seeded a1 = seed(db, reconciler, of("a", "1", 3));
    const Seeded a2 = seed(db, reconciler, of("a", "2", 4));
    const Seeded b1 = seed(db, reconciler, of("b", "1", 5));
    const auto left = [&] {
      std::vector<std::int64_t> counts;
      for (const Seeded* seeded : {&a1, &a2, &b1}) counts.push_back(untouched(db, stage.table, *seeded));
      return counts;
    };
    using Left = std::vector<std::int64_t>;
    if (stage.has_tags) {
      CHECK(tick(database, reconciler, for_both("a", {"cairn.instance_id", "1"})).scanned == 3);
      CHECK(left() == Left{0, 4, 5});
      CHECK(tick(database, reconciler, for_tag("1")).scanned == 5);
      CHECK(left() == Left{0, 4, 0});
      CHECK(tick(database, reconciler, for_namespace("a")).scanned == 4);
      CHECK(left() == Left{0, 0, 0});
    } else {
      CHECK(tick(database, reconciler, for_namespace("a")).scanned == 7);
      CHECK(left() == Left{0, 0, 5});
    }
    CHECK(tick(database, reconciler, for_namespace("nobody")).scanned == 0);
    CHECK(untouched(db, foreign) + untouched(db, nobodys) == rows);
  }
}

TEST_CASE("a filter never reaches the reconcilers whose rows belong to no execution") {
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    if (reconciler.filterable) continue;
    CAPTURE(reconciler.name);
    const Database database;
    auto db = database.connect();
    seed(db, reconciler, {.count = 3});
    CHECK(tick(database, reconciler, for_both("a", {"cairn.instance_id", "1"})).processed == 3);
  }
}

TEST_CASE("two filtered daemons move each its own rows, all of them, behind 100,000 due rows of others") {
  const Database database;
  auto db = database.connect();
  const int each = 100'000 / static_cast<int>(household().members.size()) + 1;
  const Rows c = seed_all(db, "c", each, kInFront);
  std::int64_t rows_of_c = 0;
  for (const auto& [reconciler, seeded] : c) rows_of_c += untouched(db, seeded);
  REQUIRE(rows_of_c > 100'000);
  const Rows a = seed_all(db, "a", 100, 60'000);
  const Rows b = seed_all(db, "b", 150, 60'000);

  std::array<Pass, 2> passes;
  std::thread one([&] { passes[0] = run_all(database, "a"); });
  std::thread two([&] { passes[1] = run_all(database, "b"); });
  one.join();
  two.join();
  const std::array<const Rows*, 2> own{&a, &b};
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(passes.at(i).troubles == std::vector<std::string>{});
    CHECK(counts_of(passes.at(i)) == expected(*own.at(i)));
    CHECK_FALSE(names_any(passes.at(i), ids_of(*own.at(1 - i))));
    CHECK_FALSE(names_any(passes.at(i), ids_of(c)));
    for (const Reconciler* reconciler : household().members) {
      CAPTURE(i, reconciler->name);
      CHECK(untouched(db, stage_of(*reconciler).table, own.at(i)->at(reconciler->name)) == 0);
    }
  }
  std::int64_t left_of_c = 0;
  for (const auto& [reconciler, seeded] : c) left_of_c += untouched(db, seeded);
  CHECK(left_of_c == rows_of_c);
}
