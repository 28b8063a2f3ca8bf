#include "support/lapsed_race.hpp"

#include <catch2/catch.hpp>

#include "pg/transaction.hpp"

namespace ff::test {

using reconcile::Skip;
using reconcile::TickReport;

void check_renewed_is_left(std::string_view reconciler, std::string_view lifecycle_phase) {
  const Database database;
  auto db = database.connect();
  const Uuid renewed = insert_lapsed(db, {.partition = {3}});
  const Uuid lapsed = insert_lapsed(db, {.partition = {4}});
  const auto step_in = [&] {
    db.execute(
        "UPDATE ff_attempt SET lease_expires_at_ms = lease_expires_at_ms + 600000"
        " WHERE execution_id = $1",
        pg::Params::of(renewed));
  };
  EngineFixture engine(database, reconciler);
  const TickReport report = engine->tick(stepping_in(step_in));
  CHECK(report.scanned == 2);
  CHECK(report.processed == 1);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::no_longer_due, 1}});
  CHECK(attempt(db, renewed)["lease_epoch"] == 1);
  CHECK(core(db, renewed)["lifecycle_phase"] == "active");
  CHECK(core(db, lapsed)["lifecycle_phase"] == lifecycle_phase);
}

void check_referred_to_is_taken(std::string_view reconciler) {
  const Database database;
  auto db = database.connect();
  auto other = database.connect();
  insert_lapsed(db, {.partition = {3}});
  EngineFixture engine(database, reconciler);
  pg::Transaction referring(other);
  referring.execute("SELECT FROM ff_exec_core FOR KEY SHARE");
  referring.execute("SELECT FROM ff_attempt FOR KEY SHARE");
  CHECK(engine->tick().processed == 1);
}

HeldBesideFree::HeldBesideFree(std::string_view reconciler, const CoreRow& of_held, const CoreRow& of_free)
    : held(insert_lapsed(db, of_held)), free(insert_lapsed(db, of_free)), engine(database, reconciler) {}

void HeldBesideFree::tick_while_held(const std::string& table) {
  const Json core_before = core(db, held);
  const Json attempt_before = attempt(db, held);
  auto other = database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM " + table + " WHERE execution_id = $1 FOR UPDATE", pg::Params::of(held));
  const TickReport report = engine->tick();
  CHECK(report.processed == 1);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(core(db, held) == core_before);
  CHECK(attempt(db, held) == attempt_before);
  CHECK(lease_events(db).size() == 1);
  holding.rollback();
}

}  // namespace ff::test
