#include "support/still_stage.hpp"

#include <catch2/catch.hpp>

namespace ff::test {
namespace {

// Found before pg_catalog's by the sessions that begin from now on.
pg::Connection connect_with_clock_stopped(const Database& database) {
  auto db = database.connect();
  db.execute_script(
      "CREATE SCHEMA still; CREATE FUNCTION still.clock_timestamp() RETURNS timestamptz LANGUAGE sql"
      " AS 'SELECT to_timestamp(" +
      std::to_string(kNow / 1000) + ")'; ALTER DATABASE " + database.name() +
      " SET search_path = still, pg_catalog, public");
  return database.connect();
}

}  // namespace

StillStage::StillStage(const reconcile::Reconciler& reconciler)
    : db(connect_with_clock_stopped(database)), reconciler_(reconciler) {}

void StillStage::set_clock(Milliseconds since) {
  since_ = since;
  db.execute_script(
      "CREATE OR REPLACE FUNCTION still.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT "
      "to_timestamp(" +
      std::to_string(kNow + since.count()) + "::numeric / 1000)'");
}

void StillStage::advance(EngineFixture& engine, Milliseconds by) {
  set_clock(since_ + by);
  engine.clock().advance(by);
}

reconcile::TickReport StillStage::tick(const EngineOptions& options) {
  EngineFixture engine(database, reconciler_, options);
  reconcile::TickOptions tick =
      options.before_acting ? stepping_in(options.before_acting) : reconcile::TickOptions{};
  tick.scan_ahead = Milliseconds{60'000};
  reconcile::TickReport report = engine->tick(tick);
  CHECK_FALSE(report.failure);
  CHECK(report.error_count() == 0);
  return report;
}

void StillStage::check_left_alone_after(const std::string& sql, const pg::Params& params) {
  std::vector<std::string> after;
  const auto step_in = [&] {
    db.execute(sql, params);
    after = snapshot(db);
  };
  using reconcile::Skip;
  CHECK(tick({.before_acting = step_in}).skipped == std::map<Skip, std::int64_t>{{Skip::no_longer_due, 1}});
  CHECK(diff(after, snapshot(db)).empty());
}

}  // namespace ff::test
