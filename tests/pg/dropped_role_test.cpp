// A role that is dropped and made anew leaves sessions behind that may do nothing any more.
#include <algorithm>
#include <catch2/catch.hpp>

#include "database_probe.hpp"
#include "pg/server.hpp"
#include "support/database.hpp"
#include "support/engine.hpp"
#include "support/log_capture.hpp"

using namespace ff;
using namespace std::chrono_literals;
using Found = supervisor::Observation::Found;

namespace {

/// A role that may read the tables, and how who deploys makes it anew.
struct Stage {
  explicit Stage(std::string its_role) : role(std::move(its_role)) { make(); }
  ~Stage() {
    pool.discard_all();
    database.connect().execute_script("DROP OWNED BY " + role + "; DROP ROLE " + role);
  }
  void make() {
    db.execute_script("CREATE ROLE " + role + " LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO " +
                      role);
  }
  void drop() { db.execute_script("DROP OWNED BY " + role + "; DROP ROLE " + role); }
  pg::Connection connect(const std::string& application) const {
    return pg::Connector({.conninfo = database.conninfo() + " user=" + role, .application_name = application})
        .connect(Clock::system().now() + test::kConnectTime);
  }
  std::int64_t sessions(const std::string& application) {
    return test::number(db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1",
                        pg::Params::of(application));
  }

  const std::string role;
  const test::Database database;
  pg::Connection db = database.connect();
  const pg::Connector connector{
      {.conninfo = database.conninfo() + " user=" + role, .relation = "ff_exec_core"}};
  pg::Pool pool{connector, 3, Milliseconds{5'000}};
  int renewed = 0;
  daemon::DatabaseProbe probe{pool, AllPartitions{}, [](const pg::Error&) {}, [this] { ++renewed; },
                              [](const Coverage&) {}};
};

}  // namespace

TEST_CASE("a session says whether its role is there, and not whether another of that name is") {
  Stage stage("asked");
  auto session = stage.connect("asking");
  CHECK(pg::server_info(session).role_exists);
  stage.drop();
  CHECK_FALSE(pg::server_info(session).role_exists);
  stage.make();
  CHECK_FALSE(pg::server_info(session).role_exists);
  auto another = stage.connect("asking");
  CHECK(pg::server_info(another).role_exists);
}

TEST_CASE("a session that acts as another role says whether that is there") {
  Stage stage("acting");
  stage.db.execute_script("CREATE ROLE acted; GRANT acted TO acting; ALTER ROLE acting SET role = acted");
  auto session = stage.connect("acting");
  CHECK(pg::server_info(session).role_exists);
  stage.db.execute_script("DROP ROLE acted; CREATE ROLE acted; GRANT acted TO acting");
  CHECK_FALSE(pg::server_info(session).role_exists);
  auto another = stage.connect("acting");
  CHECK(pg::server_info(another).role_exists);
  stage.db.execute_script("ALTER ROLE acting RESET role; DROP ROLE acted");
}

TEST_CASE("the check replaces all sessions of a role that was dropped and made anew, and says so once") {
  Stage stage("renewed");
  CHECK(stage.probe().found == Found::writable);
  const auto read = [&] { stage.pool.acquire()->execute("SELECT FROM {schema}.ff_attempt"); };
  auto on_loan = std::optional(stage.pool.acquire());
  CHECK_NOTHROW(read());
  stage.drop();
  stage.make();
  CHECK_THROWS_WITH(read(), Catch::Contains("permission denied"));
  const test::LogCapture log;
  for (int i = 0; i < 2; ++i) {
    const auto seen = stage.probe();
    CHECK(seen.found == Found::writable);
    CHECK(seen.reason.empty());
  }
  on_loan.reset();
  for (int i = 0; i < 2; ++i) CHECK_NOTHROW(read());
  CHECK(stage.renewed == 1);
  REQUIRE(log.lines().size() == 1);
  CHECK_THAT(log.lines()[0], Catch::StartsWith("warning the role of the sessions has been dropped"));
}

TEST_CASE("a role that is dropped and not made anew is an outage until it is") {
  Stage stage("gone");
  CHECK(stage.probe().found == Found::writable);
  stage.drop();
  const auto unreachable = stage.probe();
  CHECK(unreachable.found == Found::unreachable);
  CHECK(unreachable.authentication);
  CHECK_THAT(unreachable.reason, Catch::Contains("role \"gone\" does not exist"));
  stage.make();
  CHECK(stage.probe().found == Found::writable);
}

TEST_CASE("of a role that was dropped all sessions of one kind are ended at once, and no others") {
  Stage stage("ended");
  auto one = stage.connect("kind");
  auto other = stage.connect("kind");
  auto stranger = stage.connect("another kind");
  const auto soon = [] { return Clock::system().now() + 5s; };
  pg::end_sessions_of_dropped_role(one, soon());
  CHECK(stage.sessions("kind") == 2);
  stage.drop();
  stage.make();
  auto anew = stage.connect("kind");
  pg::end_sessions_of_dropped_role(anew, soon());
  CHECK(stage.sessions("kind") == 3);
  pg::end_sessions_of_dropped_role(one, soon());
  CHECK(one.lost());
  CHECK_THROWS_AS(other.execute("SELECT"), pg::Error);
  CHECK_NOTHROW(stranger.execute("SELECT"));
  CHECK_NOTHROW(anew.execute("SELECT"));
}
