// A server whose clock is set forward, as when its machine was asleep: by it every lease has lapsed.
#include <catch2/catch.hpp>

#include "support/database.hpp"
#include "support/engine.hpp"
#include "support/holders.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

constexpr int kWorkers = 8;

// For every session of this database, at once.
constexpr const char* kSettable = R"sql(
SET allow_system_table_mods = on;
CREATE TABLE public.clock (set_by interval);
INSERT INTO public.clock VALUES ('0');
GRANT SELECT ON public.clock TO PUBLIC;
ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO real_clock_timestamp;
CREATE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
  AS 'SELECT pg_catalog.real_clock_timestamp() OPERATOR(pg_catalog.+) set_by FROM public.clock')sql";

}  // namespace

TEST_CASE("no lease is taken by a clock that was set forward before its worker could renew it") {
  const Database database;
  auto db = database.connect();
  simulation::create(db, {}, {{2}}, kWorkers);
  db.execute_script(kSettable);
  RunningDaemon daemon({.conninfo = database.conninfo(),
                        .config = "partitions: 0-3\nrecovery_grace: 3s\nreconcilers:\n"
                                  "  lease_expiry: {interval: 20ms}\n  attempt_timeout: {interval: 20ms}\n"});
  REQUIRE(wait_until([&] { return daemon.state() == "ready"; }));
  const pg::Connector connector({.conninfo = database.conninfo(), .application_name = "ff-test"});
  Holders workers(connector, kWorkers, {2}, 6s);
  REQUIRE(wait_until([&] { return workers.holding() == kWorkers; }));

  db.execute("UPDATE public.clock SET set_by = '1 h'");
  const std::int64_t set_at = now_ms(db);
  CHECK(wait_until([&] { return daemon.state() == "recovering"; }));
  REQUIRE(wait_until([&] {
    return number(db, "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms > $1",
                  pg::Params::of(set_at)) +
               workers.refused() ==
           kWorkers;
  }));
  CHECK(wait_until([&] { return daemon.state() == "ready"; }));
  CHECK(workers.refused() == 0);
  CHECK(number(db, "SELECT count(*) FROM ff_lease_event WHERE event_type IN ('expired', 'reclaimed')") == 0);

  workers.stop();  // from here on nobody renews
  CHECK(wait_until(
      [&] { return number(db, "SELECT count(*) FROM ff_exec_core WHERE lifecycle_phase = 'active'") == 0; }));
  CHECK(daemon.stop() == 0);
}
