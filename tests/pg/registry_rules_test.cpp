// What every reconciler does to rows of its own, written once: whoever adds one adds a stage and gets these
// tests with it.

#include <algorithm>
#include <array>
#include <barrier>
#include <catch2/catch.hpp>
#include <set>
#include <thread>

#include "pg/transaction.hpp"
#include "support/engine.hpp"
#include "support/log_capture.hpp"
#include "support/stages.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Move;
using reconcile::Reconciler;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

constexpr std::int64_t kNotDue = -600'000;  // so long before it is due

/// Rows that are not due yet, where there are such.
Seeded seed_later(pg::Connection& db, const Reconciler& reconciler) {
  return stage_of(reconciler).may_wait ? seed(db, reconciler, {.count = 3, .due_ago_ms = kNotDue}) : Seeded{};
}

/// Rows that were due and left alone because somebody held them, under whichever name.
std::int64_t left_to_holders(const Reconciler& reconciler, const TickReport& report) {
  const auto locked = report.skipped.find(Skip::locked);
  std::int64_t sum = locked == report.skipped.end() ? 0 : locked->second;
  for (const auto& [name, count] : report.outcomes) {
    const reconcile::Outcome* const outcome = reconcile::outcome_of(reconciler, name);
    if (outcome != nullptr && outcome->effect == reconcile::Effect::left_alone) sum += count;
  }
  return sum;
}

using Listed = std::set<std::tuple<reconcile::RowKey, std::string, std::int64_t>>;
Listed listed(const TickReport& report) {
  Listed rows;
  for (const Move& move : report.moves)
    rows.emplace(move.key, move.outcome, stage_of(*move.pair).dated ? count(move.due_at) : 0);
  return rows;
}

/// Fails whatever changes this one row.
void poison(pg::Connection& db, const Stage& stage, const Uuid& id) {
  db.execute_script(
      "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'spoiled'; END "
      "$$");
  db.execute_script("CREATE TRIGGER poison BEFORE UPDATE OR DELETE ON " + stage.table +
                    " FOR EACH ROW WHEN (OLD." + stage.id + "::text = '" + to_string(id) +
                    "') EXECUTE FUNCTION poison()");
}

constexpr int kOurs = 110;  // partitions in which rows are to be moved

std::string array_of(int first, int count) {
  std::string text;
  for (int partition = first; partition < first + count; ++partition)
    text += (text.empty() ? "{" : ",") + std::to_string(partition);
  return text + "}";
}

/// Copies every row into the partition further on by so many, but for those whose key has no partition in it.
void add_namesakes(pg::Connection& db, const Stage& stage) {
  const std::set<std::string> numbered{"ff_lease_event", "ff_signal_event", "ff_operator_event"};
  std::set<std::string> tables;
  for (const Part& part : stage.parts)
    if (!numbered.contains(part.table)) tables.insert(part.table);
  for (const std::string& table : tables)
    db.execute_script("CREATE TEMP TABLE namesake AS SELECT * FROM " + table +
                      "; UPDATE namesake SET partition_key = partition_key + " + std::to_string(kOurs) +
                      "; INSERT INTO " + table +
                      " OVERRIDING SYSTEM VALUE SELECT * FROM namesake; DROP TABLE namesake");
}

/// The lines of a snapshot that are of rows in the partitions from kOurs on.
std::vector<std::string> in_other_partitions(std::vector<std::string> lines) {
  std::erase_if(lines, [](const std::string& line) {
    const auto at = line.find('{');
    return Json::parse(line.substr(at)).value("partition_key", 0) < kOurs;
  });
  return lines;
}

}  // namespace

TEST_CASE("every pair of the registry has a stage, and every stage a pair") {
  std::set<const Stage*> staged;
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    CHECK(staged.insert(&stage_of(reconciler)).second);
  }
  CHECK(staged.size() == stages().size());
}

TEST_CASE("every reconciler moves a row that is due and leaves one alone that is not") {
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    const Stage& stage = stage_of(reconciler);
    const Database database;
    auto db = database.connect();
    const Seeded due = seed(db, reconciler);
    const Seeded later = seed_later(db, reconciler);
    const auto rows_of_later = untouched(db, later);
    EngineFixture engine(database, reconciler);
    const TickReport report = engine->tick({.scan_ahead = std::chrono::hours{1}});
    CHECK_FALSE(report.failure);
    CHECK(report.scanned == 1);
    CHECK(report.processed == 1);
    CHECK(report.next_due.has_value() == stage.may_wait);
    for (const auto& [outcome, count] : report.outcomes)
      CHECK(std::ranges::count(reconciler.outcomes, outcome, &reconcile::Outcome::name) == 1);
    CHECK(untouched(db, stage.table, due) == 0);
    CHECK(untouched(db, later) == rows_of_later);
  }
}

TEST_CASE("every reconciler moves single rows of many partitions, and nothing in others") {
  // Rows in one partition or a few are moved by statements that name them, in many by one over all.
  const int last = GENERATE(0, 7, kOurs - 1);
  const std::int64_t own = last + 1;
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    if (!reconciler.partition_count.empty()) continue;  // it has all partitions for its own
    CAPTURE(reconciler.name, last);
    const Stage& stage = stage_of(reconciler);
    const Database database;
    auto db = database.connect();
    seed(db, reconciler, {.count = kOurs, .partitions = array_of(0, kOurs)});
    add_namesakes(db, stage);
    seed(db, reconciler, {.count = 3, .partitions = array_of(kOurs, 3)});
    const auto elsewhere = in_other_partitions(snapshot(db));
    REQUIRE(elsewhere.size() >= 3);
    EngineFixture engine(database, reconciler,
                         {.partitions = partition_range({0}, {static_cast<std::int16_t>(last)})});
    const TickReport report = engine->tick({.list_moves = true});
    CHECK_FALSE(report.failure);
    CHECK(report.processed == own);
    CHECK(static_cast<std::int64_t>(listed(report).size()) == own);
    CHECK(std::ranges::all_of(report.moves,
                              [&](const Move& move) { return move.key.partition.value <= last; }));
    CHECK(in_other_partitions(snapshot(db)) == elsewhere);
    CHECK(engine->tick().scanned == 0);
  }
}

TEST_CASE("every reconciler changes nothing the second time") {
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    const Database database;
    auto db = database.connect();
    seed(db, reconciler, {.count = 30, .name_space = "a", .instance_tag = "1"});
    EngineFixture engine(database, reconciler);
    EngineFixture other(database, reconciler);
    CHECK(engine->tick().processed == 30);
    const auto after = snapshot(db);
    for (EngineFixture* again : {&engine, &other}) {
      const TickReport second = (*again)->tick();
      CHECK(second.processed == 0);
      CHECK(second.error_count() == 0);
      CHECK(diff(after, snapshot(db)).empty());
    }
  }
}

TEST_CASE("a dry run of every reconciler lists what the tick then does, and writes nothing") {
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    const Database database;
    auto db = database.connect();
    seed(db, reconciler, {.count = 30});
    seed(db, reconciler, {.partitions = "{5}"});  // by the other way through the engine
    seed_later(db, reconciler);
    EngineFixture engine(database, reconciler);
    const auto before = snapshot(db);
    const TickReport dry = engine->tick({.dry_run = true, .list_moves = true});
    CHECK(diff(before, snapshot(db)).empty());
    CHECK(dry.processed == 31);
    const TickReport real = engine->tick({.list_moves = true});
    CHECK(listed(dry).size() == 31);
    CHECK(listed(dry) == listed(real));
    CHECK(dry.outcomes == real.outcomes);
    CHECK(dry.skipped == real.skipped);
    CHECK_FALSE(diff(before, snapshot(db)).empty());
  }
}

TEST_CASE(
    "every reconciler leaves a row alone of which others hold anything, and takes it once they let go") {
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    const Stage& stage = stage_of(reconciler);
    REQUIRE_FALSE(stage.holds.empty());
    const Database database;
    auto db = database.connect();
    auto holder = database.connect();
    EngineFixture engine(database, reconciler);
    for (const Hold& hold : stage.holds) {
      CAPTURE(reconciler.name, hold.table, hold.where);
      const Seeded held = seed(db, reconciler);
      const Seeded free = seed(db, reconciler, {.count = 3});
      pg::Transaction transaction(holder);
      const auto locked =
          transaction.execute("SELECT FROM " + hold.table + " WHERE " + hold.where + " FOR NO KEY UPDATE",
                              pg::Params::of(to_string(held.seeds.at(0).id)));
      REQUIRE(locked.size() > 0);
      const auto rows = untouched(db, held);
      const TickReport report = engine->tick();
      CHECK(report.processed == 3);
      CHECK(report.error_count() == 0);
      CHECK(left_to_holders(reconciler, report) == 1);
      CHECK(untouched(db, stage.table, free) == 0);
      CHECK(untouched(db, held) == rows);
      transaction.rollback();
      CHECK(engine->tick().processed == 1);
      CHECK(untouched(db, stage.table, held) == 0);
    }
  }
}

TEST_CASE("every reconciler finds the one row that cannot be moved, sets it aside and moves all others") {
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    const Stage& stage = stage_of(reconciler);
    const Database database;
    auto db = database.connect();
    EngineFixture engine(database, reconciler);
    const Seeded spoiled = seed(db, reconciler, {.partitions = "{3}", .due_ago_ms = 59'990});
    const auto rows = untouched(db, spoiled);
    const auto key = engine->tick({.dry_run = true, .list_moves = true}).moves.at(0).key;
    const Seeded sound = seed(db, reconciler, {.count = 20});
    poison(db, stage, spoiled.seeds.at(0).id);

    const LogCapture log;
    const TickReport report = engine->tick();
    CHECK(report.processed == 20);
    CHECK(report.errors == decltype(report.errors){{"P0", 1}});
    CHECK(report.quarantined == 1);
    CHECK_FALSE(report.failure);
    CHECK(untouched(db, stage.table, sound) == 0);
    CHECK(untouched(db, spoiled) == rows);
    const TickReport again = engine->tick();
    CHECK(again.skipped == decltype(again.skipped){{Skip::quarantined, 1}});
    CHECK(again.error_count() == 0);

    // Told once, with everything that names the row.
    REQUIRE(log.lines().size() == 1);
    std::string named = "partition_key=3";
    for (std::size_t i = 0; i < key.columns.size(); ++i)
      named += " " + std::string(reconciler.key[i].name) + "=" + key.columns[i];
    CHECK(log.lines()[0].find(named) != std::string::npos);
    CHECK(log.lines()[0].find("P0001") != std::string::npos);
  }
}

TEST_CASE("every reconciler that knows executions moves the rows of a single one, if they are due") {
  int tried = 0;
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    if (reconciler.execution_column.empty()) continue;
    CAPTURE(reconciler.name);
    ++tried;
    const Stage& stage = stage_of(reconciler);
    const Database database;
    auto db = database.connect();
    const Seeded due = seed(db, reconciler);
    const Seeded neighbours = seed(db, reconciler, {.count = 5});
    const Seeded later = seed_later(db, reconciler);
    const auto rows = untouched(db, neighbours) + untouched(db, later);
    EngineFixture engine(database, reconciler);
    const auto one = [&](const Seeded& seeded) {
      return engine->tick_one({seeded.seeds.at(0).partition, seeded.seeds.at(0).id});
    };
    CHECK(one(due).processed == 1);
    CHECK(untouched(db, stage.table, due) == 0);
    CHECK(one(due).processed == 0);
    if (stage.may_wait) CHECK(one(later).skipped == std::map<Skip, std::int64_t>{{Skip::no_longer_due, 1}});
    CHECK(untouched(db, neighbours) + untouched(db, later) == rows);
  }
  CHECK(tried > 0);
}

TEST_CASE("two engines of every reconciler at once over 200 rows each move every row exactly once") {
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    const Database database;
    auto db = database.connect();
    std::vector<Seeded> all;
    for (const char* partitions : {"{0,1,2,3,4,5,6,7}", "{3,9}"})
      all.push_back(seed(db, reconciler, {.count = 200, .partitions = partitions}));
    EngineFixture first(database, reconciler, {.batch_size = 37});
    EngineFixture second(database, reconciler, {.batch_size = 37});
    std::array<TickReport, 3> reports;
    {
      std::barrier together(2);
      const auto tick = [&](EngineFixture& engine, TickReport& report) {
        together.arrive_and_wait();
        report = engine->tick({.list_moves = true});
      };
      std::thread one([&] { tick(first, reports[0]); });
      std::thread two([&] { tick(second, reports[1]); });
      one.join();
      two.join();
    }
    reports[2] = first->tick({.list_moves = true});  // what each saw in the other's hands
    std::multiset<reconcile::RowKey> moved;
    for (const TickReport& report : reports) {
      CHECK(report.error_count() == 0);
      for (const Move& move : report.moves) moved.insert(move.key);
    }
    CHECK(moved.size() == 400);
    CHECK(std::set(moved.begin(), moved.end()).size() == 400);
    for (const Seeded& seeded : all) CHECK(untouched(db, stage_of(reconciler).table, seeded) == 0);
    CHECK(number(db, "SELECT count(*) - count(DISTINCT execution_id) FROM ff_completion_event") == 0);
    CHECK(number(db, "SELECT count(*) - count(DISTINCT execution_id) FROM ff_lease_event") == 0);
  }
}
