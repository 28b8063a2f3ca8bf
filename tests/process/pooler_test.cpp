// Through PgBouncer, whose sessions go from one client to the next.
#include <catch2/catch.hpp>
#include <set>

#include "support/database.hpp"
#include "support/pooler.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

constexpr auto kConfig =
    "database: {pool_size: 4}\nthreads: 3\nrecovery_grace: 0s\n"
    "reconcilers:\n  attempt_timeout: {interval: 50ms}\n  lease_expiry: {interval: 50ms}\n"
    "  delayed_promoter: {interval: 50ms}\n  dependency: {interval: 50ms}\n";

Uuid insert_lapsed(pg::Connection& db, std::int16_t partition) {
  const Uuid id = insert_core(db, {.partition = {partition}, .policy = max_retries(3)});
  insert_attempt(db, {.partition = {partition}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
  return id;
}

bool moved(pg::Connection& db, const Uuid& id) {
  return core(db, id)["lifecycle_phase"] == "runnable";
}

// What somebody else finds in the sessions that the daemon has used.
std::string left_behind(const std::string& conninfo) {
  auto stranger = pg::Connector({.conninfo = conninfo}).connect(Clock::system().now() + 10s);
  std::set<std::string> found;
  for (int i = 0; i < 20; ++i)
    found.insert(
        stranger
            .execute("SELECT format('path %s, row security %s, %s prepared, plans %s',"
                     " current_setting('search_path'), current_setting('row_security'),"
                     " (SELECT count(*) FROM pg_prepared_statements), current_setting('plan_cache_mode'))")
            .one()
            .get<std::string>(0));
  std::string all;
  for (const std::string& one : found) all += one + "\n";
  return all;
}

}  // namespace

TEST_CASE("the daemon works through PgBouncer in session and in transaction mode") {
  const std::string mode = GENERATE("session", "transaction");
  CAPTURE(mode);
  const Database database;
  auto db = database.connect();
  const Pooler pooler(Database::server(), mode);
  std::vector<Uuid> lapsed;
  for (std::int16_t partition = 0; partition < 256; ++partition)
    lapsed.push_back(insert_lapsed(db, partition));
  RunningDaemon daemon({.conninfo = database.conninfo() + pooler.detour(), .config = kConfig});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  for (const Uuid& id : lapsed) CHECK(wait_until([&] { return moved(db, id); }));
  for (int i = 0; i < 20; ++i) {
    const Uuid id = insert_lapsed(db, static_cast<std::int16_t>(i));
    CHECK(wait_until([&] { return moved(db, id); }));
  }
  const auto polls = [&] { return daemon.process().err_has("pooler in transaction mode"); };
  if (mode == "transaction") CHECK(wait_until(polls));
  CHECK(left_behind(database.conninfo() + pooler.detour()) ==
        "path \"$user\", public, row security on, 0 prepared, plans auto\n");
  CHECK(daemon.stop() == 0);
  CHECK_FALSE(daemon.process().err_has("failed"));
  CHECK(polls() == (mode == "transaction"));
}

TEST_CASE("a command by hand works behind others in PgBouncer's transaction mode") {
  const Database database;
  auto db = database.connect();
  const Pooler pooler(Database::server(), "transaction");
  for (int i = 0; i < 3; ++i) {
    const Uuid id = insert_lapsed(db, 7);
    const Ended done = run_binary({"tick", "all", "--database-url", database.conninfo() + pooler.detour()},
                                  over_one_group({}));
    CAPTURE(done.err);
    CHECK(done.code == 0);
    CHECK(moved(db, id));
  }
}

TEST_CASE("PgBouncer's statement mode is refused with the line to change") {
  const Database database;
  const Pooler pooler(Database::server(), "statement");
  const Ended done = run_binary({"tick", "all", "--database-url", database.conninfo() + pooler.detour()});
  CHECK(done.code == 69);
  CHECK_THAT(done.err, Catch::Contains("it needs pool_mode = session or transaction"));
}
