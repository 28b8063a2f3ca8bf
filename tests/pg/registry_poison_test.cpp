// Rows that raise whatever an error can be called, in every reconciler: each stands alone, and all others are moved.

#include <catch2/catch.hpp>

#include "support/engine.hpp"
#include "support/log_capture.hpp"
#include "support/stages.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Reconciler;
using reconcile::TickReport;

namespace {

/// One for each class of PostgreSQL's (its documentation, appendix A) that an error may have, and those that mean something
/// to us: a conflict, a lock or a time limit, a session that ends, a server without room or rights, a pooler in between.
const std::vector<std::string> kStates{
    "01000", "02000", "03000", "08000", "09000", "0A000", "0B000", "0F000", "0L000", "0P000", "0Z000",
    "20000", "21000", "22000", "23000", "24000", "25000", "26000", "27000", "28000", "2B000", "2D000",
    "2F000", "34000", "38000", "39000", "3B000", "3D000", "3F000", "40000", "42000", "44000", "53000",
    "54000", "55000", "57000", "58000", "72000", "F0000", "HV000", "P0000", "XX000", "08006", "23505",
    "25006", "25P02", "28P01", "40001", "40P01", "42501", "42703", "42P05", "53100", "53200", "53300",
    "53400", "55P03", "57014", "57P01", "58030", "XX001", "ZZ999"};
constexpr int kSound = 80;
constexpr int kTicks = 8;  // a time limit ends the ways that a batch can be split for now

/// Raises this at every change of the row with this id.
void poison(pg::Connection& db, const Stage& stage, const Seeded& rows) {
  db.execute_script("CREATE TABLE poison (id text PRIMARY KEY, state text)");
  for (std::size_t i = 0; i < kStates.size(); ++i)
    db.execute("INSERT INTO poison VALUES ($1, $2)",
               pg::Params::of(to_string(rows.seeds.at(i).id), kStates[i]));
  db.execute_script(
      "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE raised text; BEGIN "
      "SELECT p.state INTO raised FROM public.poison p WHERE p.id = OLD." +
      stage.id +
      "::text; IF FOUND THEN RAISE EXCEPTION 'spoiled' USING ERRCODE = raised; END IF; "
      "IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$; "
      "CREATE TRIGGER poison BEFORE UPDATE OR DELETE ON " +
      stage.table + " FOR EACH ROW EXECUTE FUNCTION poison()");
}

}  // namespace

TEST_CASE(
    "rows that raise an error of any class are set aside by every reconciler, and all others are moved") {
  for (const Reconciler& reconciler : reconcile::all_pairs()) {
    CAPTURE(reconciler.name);
    const Stage& stage = stage_of(reconciler);
    const Database database;
    auto db = database.connect();
    EngineFixture engine(database, reconciler);
    const Seeded spoiled =
        seed(db, reconciler,
             {.count = static_cast<int>(kStates.size()), .partitions = "{3}", .due_ago_ms = 59'990});
    const auto rows = untouched(db, spoiled);
    const Seeded sound = seed(db, reconciler, {.count = kSound});
    poison(db, stage, spoiled);

    const LogCapture log;
    std::int64_t processed = 0;
    TickReport report;
    for (int tick = 0; tick < kTicks && (tick == 0 || report.quarantined < kStates.size()); ++tick) {
      report = engine->tick();
      processed += report.processed;
    }
    CHECK_FALSE(report.failure);
    CHECK(processed == kSound);
    CHECK(report.quarantined == kStates.size());
    CHECK(untouched(db, stage.table, sound) == 0);
    CHECK(untouched(db, spoiled) == rows);
    CHECK(log.lines().size() == kStates.size());
  }
}
