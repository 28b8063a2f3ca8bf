// A server that stands still and goes on: nobody was told, the workers' renewals hung in it as our statements did,
// and every lease is lapsed when it goes on.
#include <catch2/catch.hpp>
#include <csignal>
#include <set>
#include <thread>

#include "migrate/migrate.hpp"
#include "support/database.hpp"
#include "support/engine.hpp"
#include "support/holders.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"
#include "support/standstill.hpp"
#include "testserver/private_server.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using testserver::PrivateServer;

namespace {

constexpr int kWorkers = 8;
constexpr Milliseconds kLease = 6s;

// Those that take leases, and the others as well or not.
std::string config(bool all) {
  std::string text = "partitions: 0-3\nrecovery_grace: 6s\nreconcilers:\n";
  for (const auto& reconciler : reconcile::registry())
    text += "  " + std::string(reconciler.name) +
            ": {enabled: " + (all || reconciler.takes_leases ? "true" : "false") + ", interval: 20ms}\n";
  return text;
}

std::set<pid_t> sessions_of_workers(pg::Connection& db) {
  std::set<pid_t> pids;
  for (const pg::Row row : db.execute("SELECT pid FROM pg_stat_activity"
                                      " WHERE application_name = 'ff-test' AND pid <> pg_backend_pid()"))
    pids.insert(row.get<std::int32_t>(0));
  return pids;
}

}  // namespace

TEST_CASE("no lease that lapsed while the server stood still is taken before its worker could renew it") {
  PrivateServer server;
  server.create_database("flow");
  const pg::Connector connector({.conninfo = server.conninfo("flow"), .application_name = "ff-test"});
  auto db = connector.connect(Clock::system().now() + 10s);
  migrate::up(db, Database::kFanOut);
  simulation::create(db, {}, {{2}}, kWorkers);
  RunningDaemon daemon({.conninfo = server.conninfo("flow"), .config = config(true)});
  // Where a new connection had to be made, its failure would tell: so there are more than will be needed at a time.
  const auto connections = [&](const std::string& state) {
    return daemon.metric("ff_reconciler_db_connections{state=\"" + state + "\"}");
  };
  REQUIRE(wait_until(
      [&] { return daemon.state() == "ready" && connections("idle") + connections("in_use") >= 4; }));
  daemon.rewrite_config(config(false));
  daemon.process().signal(SIGHUP);
  REQUIRE(wait_until([&] { return daemon.process().err_has("configuration reloaded"); }));

  Holders workers(connector, kWorkers, {2}, kLease);
  REQUIRE(wait_until([&] { return workers.holding() == kWorkers; }));
  {
    const Standstill standstill(server, sessions_of_workers(db));
    std::this_thread::sleep_for(10s);
    CHECK(daemon.get("/livez").status == 200);
  }
  // Everybody is heard of again, or refused; then the daemon may take leases again.
  const std::int64_t thawed = now_ms(db);
  REQUIRE(wait_until([&] {
    return number(db, "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms > $1",
                  pg::Params::of(thawed)) +
               workers.refused() ==
           kWorkers;
  }));
  REQUIRE(wait_until([&] { return daemon.state() == "ready"; }));
  CHECK(workers.refused() == 0);
  CHECK(number(db, "SELECT count(*) FROM ff_lease_event WHERE event_type IN ('expired', 'reclaimed')") == 0);

  workers.stop();  // from here on nobody renews
  CHECK(wait_until(
      [&] { return number(db, "SELECT count(*) FROM ff_exec_core WHERE lifecycle_phase = 'active'") == 0; }));
  CHECK(daemon.stop() == 0);
}
