// A schema that was fit is verified anew: when somebody doubts it, and within the time of an answer.
#include <catch2/catch.hpp>

#include "database_probe.hpp"
#include "support/database.hpp"
#include "support/proxy.hpp"

using namespace ff;
using Found = supervisor::Observation::Found;

namespace {

struct Stage {
  const test::Database database{};
  pg::Connection db = database.connect();
  pg::Pool pool{database.connector(), 1, Milliseconds{5'000}};
  daemon::DatabaseProbe probe{pool, AllPartitions{}, [](const pg::Error&) {}, [] {}, [](const Coverage&) {}};
};

}  // namespace

TEST_CASE("a table that goes is noticed by the check that comes when a statement has failed over it") {
  Stage stage;
  CHECK(stage.probe().found == Found::writable);
  stage.db.execute("ALTER TABLE ff_edge RENAME TO gone");
  CHECK(stage.probe().found == Found::writable);  // nobody has met it
  CHECK(stage.probe.doubt_schema());
  const auto unfit = stage.probe();
  CHECK(unfit.found == Found::schema_outdated);
  CHECK_THAT(unfit.reason, Catch::Contains("ff_edge"));
  CHECK_FALSE(stage.probe.doubt_schema());  // not so soon
  stage.db.execute("ALTER TABLE gone RENAME TO ff_edge");
  CHECK(stage.probe().found == Found::writable);
}

TEST_CASE("a session that has planned for a column as it was is replaced once somebody doubts the schema") {
  Stage stage;
  stage.db.execute("CREATE TABLE t (n int)");
  CHECK(stage.probe().found == Found::writable);
  const auto read = [&] { stage.pool.acquire()->execute_prepared("SELECT n FROM public.t", {}); };
  for (int i = 0; i < 2; ++i) read();
  stage.db.execute("ALTER TABLE t ALTER COLUMN n TYPE bigint");
  CHECK_THROWS_WITH(read(), Catch::Contains("cached plan must not change result type"));
  CHECK(stage.probe.doubt_schema());
  CHECK(stage.probe().found == Found::writable);
  CHECK_NOTHROW(read());
}

TEST_CASE(
    "a schema that takes long to verify anew holds up a check no longer than one answer, and stays fit") {
  const test::Database database;
  test::Proxy proxy(database.server().socket_directory());
  const pg::Connector connector(
      {.conninfo = database.conninfo() + proxy.detour(), .relation = "ff_exec_core"});
  pg::Pool pool{connector, 1, Milliseconds{10'000}};
  daemon::DatabaseProbe probe{
      pool, AllPartitions{}, [](const pg::Error&) {}, [] {}, [](const Coverage&) {}, {}, {}, Milliseconds{0}};
  CHECK(probe().found == Found::writable);
  proxy.delay(std::chrono::milliseconds(900));
  const SteadyTime before = Clock::system().now();
  CHECK(probe().found == Found::writable);
  // The verification alone is some twenty round trips.
  CHECK(Clock::system().now() - before < std::chrono::seconds(11));
  proxy.delay({});
  CHECK(probe().found == Found::writable);
}
