// What a probe of the database finds, and what of it is told: here the partitions.
#include "database_probe.hpp"

#include <catch2/catch.hpp>
#include <future>

#include "pg/transaction.hpp"
#include "support/database.hpp"
#include "support/log_capture.hpp"
#include "support/proxy.hpp"

using namespace ff;
using Found = supervisor::Observation::Found;

namespace {

struct Stage {
  explicit Stage(PartitionChoice choice) : partitions(std::move(choice)) {}
  void set_partitions(int count) {
    db.execute("UPDATE ff_partition_config SET num_flow_partitions = $1",
               pg::Params::of(std::int32_t{count}));
  }

  const PartitionChoice partitions;
  const test::Database database{};
  pg::Connection db = database.connect();
  pg::Pool pool{database.connector(), 1, Milliseconds{5'000}};
  std::vector<Coverage> told;
  daemon::DatabaseProbe probe{pool, partitions, [](const pg::Error&) {}, [] {},
                              [this](const Coverage& coverage) { told.push_back(coverage); }};
};

/// A probe as a role of its own, which has no privilege yet and is gone afterwards.
struct OfRole {
  explicit OfRole(std::string its_name, const std::string& options = {}) : role(std::move(its_name)) {
    db.execute_script("CREATE ROLE " + role + " LOGIN " + options);
  }
  ~OfRole() {
    pool.discard_all();
    database.connect().execute_script("DROP OWNED BY " + role + "; DROP ROLE " + role);
  }
  void grant() { db.execute_script("GRANT SELECT ON ALL TABLES IN SCHEMA public TO " + role); }

  const std::string role;
  const test::Database database;
  pg::Connection db = database.connect();
  const pg::Connector connector{
      {.conninfo = database.conninfo() + " user=" + role, .relation = "ff_exec_core"}};
  pg::Pool pool{connector, 4, Milliseconds{20'000}};
  int errors = 0;
  daemon::DatabaseProbe probe{pool, AllPartitions{}, [this](const pg::Error&) { ++errors; }, [] {},
                              [](const Coverage&) {}};
};

}  // namespace

TEST_CASE("what is covered is told at the first check and when it changes") {
  Stage stage(PartitionShard{0, 2});
  CHECK(stage.probe().found == Found::writable);
  CHECK(stage.probe().found == Found::writable);
  REQUIRE(stage.told.size() == 1);
  CHECK(stage.told[0] == cover(PartitionShard{0, 2}, 256));

  stage.set_partitions(1024);
  CHECK(stage.probe().found == Found::writable);
  REQUIRE(stage.told.size() == 2);
  CHECK(stage.told[1].covered.back() == PartitionKey{1022});
}

TEST_CASE("partitions that are not there make the schema unfit until they are") {
  Stage stage(partition_range({254}, {257}));
  const auto unfit = stage.probe();
  CHECK(unfit.found == Found::schema_outdated);
  CHECK(unfit.reason == "partitions 256-257 are not there: ff_partition_config has 256 (0-255)");

  stage.set_partitions(258);
  const auto fit = stage.probe();
  CHECK(fit.found == Found::writable);
  CHECK(fit.reason.empty());

  stage.set_partitions(255);
  CHECK(stage.probe().reason == "partitions 255-257 are not there: ff_partition_config has 255 (0-254)");
  CHECK(stage.told.size() == 3);
}

TEST_CASE("a partition configuration that goes while the daemon runs is noticed and comes back") {
  Stage stage(AllPartitions{});
  CHECK(stage.probe().found == Found::writable);
  stage.db.execute("DELETE FROM ff_partition_config");
  CHECK(stage.probe().found == Found::schema_outdated);
  CHECK(stage.probe().reason == "table ff_partition_config has no row");
  stage.db.execute(
      "INSERT INTO ff_partition_config (num_flow_partitions, num_budget_partitions, num_quota_partitions, "
      "ff_version) VALUES (8, 8, 8, 'x')");
  CHECK(stage.probe().found == Found::writable);
  CHECK(stage.told.back().covered == partition_range({0}, {7}));
}

TEST_CASE("a number of partitions that keys cannot tell apart makes the schema unfit until it is another") {
  Stage stage(AllPartitions{});
  CHECK(stage.probe().found == Found::writable);
  for (const char* column : {"num_flow_partitions", "num_budget_partitions"}) {
    // As a key, 65792 would be 256.
    for (const char* count : {"40000", "65792", "0", "-1"}) {
      stage.db.execute(std::string("UPDATE ff_partition_config SET ") + column + " = " + count);
      for (int i = 0; i < 2; ++i) {
        const auto unfit = stage.probe();
        CHECK(unfit.found == Found::schema_outdated);
        CHECK_THAT(unfit.reason, Catch::Contains(count) && Catch::EndsWith("1 to 32768 are possible"));
      }
    }
    stage.db.execute(std::string("UPDATE ff_partition_config SET ") + column + " = 256");
    CHECK(stage.probe().found == Found::writable);
  }
  CHECK(stage.told.size() == 1);
}

TEST_CASE("who may not count the partitions any more goes on with the last count and says so") {
  const test::Database database;
  auto db = database.connect();
  db.execute_script("CREATE ROLE counter LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO counter");
  const pg::Connector connector(
      {.conninfo = database.conninfo() + " user=counter", .relation = "ff_exec_core"});
  pg::Pool pool{connector, 1, Milliseconds{5'000}};
  std::vector<Coverage> told;
  daemon::DatabaseProbe probe{pool, AllPartitions{}, [](const pg::Error&) {}, [] {},
                              [&](const Coverage& coverage) { told.push_back(coverage); }};
  CHECK(probe().reason.empty());
  db.execute("REVOKE SELECT ON ff_partition_config FROM counter");
  for (int i = 0; i < 2; ++i) {
    const auto kept = probe();
    CHECK(kept.found == Found::writable);
    CHECK_THAT(kept.reason, Catch::StartsWith("the partitions are not counted any more: permission denied") &&
                                Catch::EndsWith("ff-reconcilerd migrate grants --role NAME"));
  }
  db.execute("GRANT SELECT ON ff_partition_config TO counter");
  CHECK(probe().reason.empty());
  CHECK(told.size() == 1);
  db.execute("ALTER TABLE ff_partition_config RENAME TO gone");
  CHECK(probe().found == Found::schema_outdated);
  db.execute("ALTER TABLE gone RENAME TO ff_partition_config");
  CHECK(probe().found == Found::writable);
}

TEST_CASE("a hash child that goes while the daemon runs is noticed when the schema is verified anew") {
  Stage stage(AllPartitions{});
  daemon::DatabaseProbe anew{stage.pool, AllPartitions{},        [](const pg::Error&) {},
                             [] {},      [](const Coverage&) {}, {},
                             {},         Milliseconds{0}};
  stage.db.execute("DROP INDEX ff_attempt_lease_expiry_idx");
  const test::LogCapture log;
  CHECK(stage.probe().found == Found::writable);
  CHECK(log.lines().size() == 1);
  CHECK(anew().found == Found::writable);
  const auto bound = stage.db
                         .execute(
                             "SELECT pg_get_expr(relpartbound, oid) FROM pg_class"
                             " WHERE oid = 'public.ff_edge_p1'::regclass")
                         .one()
                         .get<std::string>(0);
  stage.db.execute("ALTER TABLE ff_edge DETACH PARTITION ff_edge_p1");
  CHECK(stage.probe().found == Found::writable);  // its time has not come
  for (int i = 0; i < 2; ++i) {
    const auto unfit = anew();
    CHECK(unfit.found == Found::schema_outdated);
    CHECK(unfit.reason == "table ff_edge lacks some of its hash children");
  }
  stage.db.execute("ALTER TABLE ff_edge ATTACH PARTITION ff_edge_p1 " + bound);
  CHECK(anew().found == Found::writable);
  const auto said = log.lines().size();
  CHECK(anew().found == Found::writable);
  CHECK(log.lines().size() == said);  // what was told is not told at each verification
}

TEST_CASE(
    "a hash child with leases that goes is noticed at the next check, and workers have their grace behind "
    "it") {
  Stage stage(AllPartitions{});
  const std::string table = GENERATE("ff_attempt", "ff_exec_core");
  const auto bound = stage.db
                         .execute(
                             "SELECT pg_get_expr(relpartbound, oid) FROM pg_class"
                             " WHERE oid = to_regclass($1)",
                             pg::Params::of(table + "_p1"))
                         .one()
                         .get<std::string>(0);
  supervisor::Availability availability(Milliseconds{60'000});
  const auto check = [&] {
    const auto seen = stage.probe();
    availability.observe(seen, Clock::system().now());
    return seen;
  };
  CHECK(check().found == Found::writable);
  CHECK(check().found == Found::writable);
  stage.db.execute("ALTER TABLE " + table + " DETACH PARTITION " + table + "_p1");
  const auto unfit = check();
  CHECK(unfit.found == Found::schema_outdated);
  CHECK(unfit.reason == "table " + table + " lacks some of its hash children");
  stage.db.execute("ALTER TABLE " + table + " ATTACH PARTITION " + table + "_p1 " + bound);
  CHECK(check().found == Found::writable);
  CHECK_FALSE(availability.may_take_leases(Clock::system().now()));
  CHECK_THAT(availability.why_recovering(), Catch::EndsWith("had a schema that was not fit"));
}

TEST_CASE("children that cannot be counted are no outage") {
  OfRole stage("uncounted");
  stage.grant();
  CHECK(stage.probe().found == Found::writable);
  stage.db.execute("REVOKE SELECT ON pg_catalog.pg_inherits FROM PUBLIC");
  CHECK(stage.probe().found == Found::writable);
  CHECK(stage.errors > 0);
}

TEST_CASE("a schema that cannot be verified anew, for a lock or a privilege, is no outage") {
  OfRole stage("verifier");
  stage.grant();
  daemon::DatabaseProbe anew{stage.pool, AllPartitions{},        [&](const pg::Error&) { ++stage.errors; },
                             [] {},      [](const Coverage&) {}, {},
                             {},         Milliseconds{0}};
  CHECK(anew().found == Found::writable);
  {
    pg::Transaction locking(stage.db);
    locking.execute("LOCK TABLE ff_reconciler_migration IN ACCESS EXCLUSIVE MODE");
    CHECK(anew().found == Found::writable);
    CHECK(stage.errors == 1);
  }
  stage.db.execute("REVOKE SELECT ON ff_reconciler_migration FROM verifier");
  CHECK(anew().found == Found::writable);
  CHECK(stage.errors == 2);
}

TEST_CASE("a lock on the partition configuration is no outage, and the last count stands") {
  Stage stage(AllPartitions{});
  CHECK(stage.probe().reason.empty());
  const test::LogCapture log;
  {
    pg::Transaction locking(stage.db);
    locking.execute("LOCK TABLE ff_partition_config IN ACCESS EXCLUSIVE MODE");
    for (int i = 0; i < 2; ++i) {
      const auto kept = stage.probe();
      CHECK(kept.found == Found::writable);
      CHECK_THAT(kept.reason, Catch::Contains("ff_partition_config is locked"));
    }
  }
  CHECK(stage.probe().reason.empty());
  CHECK(stage.told.size() == 1);
  REQUIRE(log.lines().size() == 1);
  CHECK_THAT(log.lines()[0], Catch::StartsWith("warning ") && Catch::Contains("ff_partition_config"));
}

TEST_CASE("a lock on another table of the schema is no outage to who may not count the partitions any more") {
  OfRole stage("hindered");
  stage.grant();
  CHECK(stage.probe().found == Found::writable);
  stage.db.execute("REVOKE SELECT ON ff_partition_config FROM hindered");
  pg::Transaction locking(stage.db);
  locking.execute("LOCK TABLE ff_reconciler_migration IN ACCESS EXCLUSIVE MODE");
  CHECK(stage.probe().found == Found::writable);
}

TEST_CASE("a privilege that is missing from the beginning is no refused login, and says what grants it") {
  OfRole stage("unprivileged");
  const auto unfit = stage.probe();
  CHECK(unfit.found == Found::schema_outdated);
  CHECK_FALSE(unfit.authentication);
  CHECK(unfit.server_started_at.has_value());
  CHECK_THAT(unfit.reason, Catch::StartsWith("permission denied for table ") &&
                               Catch::EndsWith("ff-reconcilerd migrate grants --role NAME"));
  CHECK(stage.errors == 1);
  stage.grant();
  CHECK(stage.probe().found == Found::writable);
}

TEST_CASE("row-level security is no missing privilege, and no line that grants is named against it") {
  OfRole stage("policed");
  stage.grant();
  stage.db.execute("ALTER TABLE ff_partition_config ENABLE ROW LEVEL SECURITY");
  const auto unfit = stage.probe();
  CHECK(unfit.found == Found::schema_outdated);
  CHECK_THAT(unfit.reason,
             Catch::Contains("row-level security policy") &&
                 Catch::EndsWith("ff-reconcilerd check-db names the tables with row-level security"));
  stage.db.execute("ALTER ROLE policed BYPASSRLS");
  CHECK(stage.probe().found == Found::writable);
}

TEST_CASE("a check that finds all sessions of its role busy waits for one, and is no outage") {
  OfRole stage("narrow", "CONNECTION LIMIT 1");
  stage.grant();
  std::promise<void> begun;
  auto statement = std::async(std::launch::async, [&] {
    auto connection = stage.pool.acquire();
    begun.set_value();
    connection->execute("SELECT pg_sleep(1)");
  });
  begun.get_future().wait();
  CHECK(stage.probe().found == Found::writable);
  CHECK_NOTHROW(statement.get());
}

TEST_CASE("a connection that cannot be made is told by the pool, and not once more by the check") {
  struct Counts : pg::PoolObserver {
    void connected(const pg::Error* failure) override { failed += failure != nullptr ? 1 : 0; }
    int failed = 0;
  } counts;
  const pg::Connector nowhere({.conninfo = "host=/nonexistent"});
  pg::Pool pool(nowhere, 1, Milliseconds{1'000}, nullptr, &counts);
  int errors = 0;
  daemon::DatabaseProbe probe{pool, AllPartitions{}, [&](const pg::Error&) { ++errors; }, [] {},
                              [](const Coverage&) {}};
  CHECK(probe().found == Found::unreachable);
  CHECK(counts.failed == 1);
  CHECK(errors == 0);
}

TEST_CASE("once a server does not answer the check, no statement that it was sent is waited for") {
  const bool has_idle = GENERATE(false, true);
  CAPTURE(has_idle);
  const test::Database database;
  test::Proxy proxy(database.server().socket_directory());
  const pg::Connector connector(
      {.conninfo = database.conninfo() + proxy.detour(), .relation = "ff_exec_core"});
  pg::Pool pool{connector, 2, Milliseconds{1'000}};
  daemon::DatabaseProbe probe{pool, AllPartitions{}, [](const pg::Error&) {}, [] {}, [](const Coverage&) {}};
  {
    const auto one = pool.acquire();
    if (has_idle) const auto another = pool.acquire();
  }
  std::promise<void> begun;
  auto statement = std::async(std::launch::async, [&] {
    auto connection = pool.acquire();
    begun.set_value();
    connection->execute("SELECT pg_sleep(25)");
  });
  begun.get_future().wait();
  proxy.silence(test::Proxy::Silence::both);
  CHECK(probe().found == Found::unreachable);
  REQUIRE(statement.wait_for(std::chrono::seconds(2)) == std::future_status::ready);
  CHECK_THROWS_WITH(statement.get(), Catch::StartsWith("the server stands still, or is another now"));
  proxy.silence(test::Proxy::Silence::none);
  CHECK(probe().found == Found::writable);
}

TEST_CASE("a session of the check that somebody ends costs nobody else what is under way") {
  const test::Database database;
  auto admin = database.connect();
  pg::Pool pool{database.connector(), 2, Milliseconds{5'000}};
  daemon::DatabaseProbe probe{pool, AllPartitions{}, [](const pg::Error&) {}, [] {}, [](const Coverage&) {}};
  CHECK(probe().found == Found::writable);
  auto connection = pool.acquire();
  const auto pid = connection->execute("SELECT pg_backend_pid()").one().get<std::int32_t>(0);
  auto statement = std::async(std::launch::async, [&] { connection->execute("SELECT pg_sleep(2)"); });
  CHECK(probe().found == Found::writable);
  admin.execute(
      "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
      " WHERE datname = current_database() AND pid NOT IN (pg_backend_pid(), $1)",
      pg::Params::of(pid));
  CHECK(probe().found == Found::writable);
  CHECK_NOTHROW(statement.get());
}

TEST_CASE("a check looks for locks only when they are doubted, and then until none is there") {
  Stage stage(AllPartitions{});
  CHECK(stage.probe().locked.empty());
  stage.db.execute_script("BEGIN; LOCK TABLE ff_attempt");
  CHECK(stage.probe().locked.empty());
  stage.probe.doubt_locks();
  for (int i = 0; i < 2; ++i) {
    const auto seen = stage.probe();
    CHECK(seen.found == Found::writable);
    CHECK(seen.locked == "ff_attempt");
    CHECK(seen.all_locked);
  }
  stage.db.execute_script("ROLLBACK");
  CHECK(stage.probe().locked.empty());
  stage.db.execute_script("BEGIN; LOCK TABLE ff_attempt");
  CHECK(stage.probe().locked.empty());
}
