// Hearing that something was announced, and knowing when nothing was.
#include "supervisor/notifications.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "pg/server.hpp"
#include "support/database.hpp"
#include "support/engine.hpp"
#include "support/log_capture.hpp"

using namespace ff;
using namespace std::chrono_literals;
using supervisor::Notifications;

namespace {

constexpr auto kNews = "ff_lease_event";
constexpr auto kOther = "ff_completion";

SteadyTime now() {
  return Clock::system().now();
}

bool becomes_true(const std::function<bool()>& condition) {
  const SteadyTime deadline = now() + 30s;
  while (!condition()) {
    if (now() > deadline) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// A notifications of a database of its own, which listens.
struct Stage {
  Stage() {
    notifications.start();
    REQUIRE(listens());
  }
  bool listens() const {
    return becomes_true([&] { return notifications.none_since(kOther, now()); });
  }
  bool hears_since(SteadyTime since) const {
    return becomes_true([&] { return !notifications.none_since(kNews, since); });
  }
  void announce() { db.execute("NOTIFY ff_lease_event"); }
  void break_sessions() {
    db.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()");
  }
  std::int64_t sessions() {
    return test::number(db,
                        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                        " AND pid <> pg_backend_pid()");
  }

  test::Database database;
  pg::Connection db = database.connect();
  Notifications notifications{database.connector(), {kNews, kOther}};
};

}  // namespace

TEST_CASE("nothing came on a channel since it was last heard, others do not matter") {
  Stage stage;
  const SteadyTime before = now();
  CHECK(stage.notifications.none_since(kNews, before));
  stage.announce();
  CHECK(stage.hears_since(before));
  CHECK(stage.notifications.none_since(kNews, now()));
  CHECK(stage.notifications.none_since(kOther, before));
  const SteadyTime later = now();
  stage.announce();
  CHECK(stage.hears_since(later));
}

TEST_CASE("who wants to be told of a channel that is heard is told, and of no other") {
  const test::Database database;
  pg::Connection db = database.connect();
  std::mutex mutex;
  std::vector<std::string> told;
  Notifications notifications(database.connector(), {kNews, kOther}, [&](std::string_view channel) {
    const std::lock_guard lock(mutex);
    told.emplace_back(channel);
  });
  const auto are_told = [&](std::size_t times) {
    return becomes_true([&] {
      const std::lock_guard lock(mutex);
      return told.size() >= times;
    });
  };
  notifications.start();
  REQUIRE(becomes_true([&] { return notifications.none_since(kOther, now()); }));
  db.execute("NOTIFY elsewhere");
  db.execute("NOTIFY ff_lease_event");
  REQUIRE(are_told(1));
  db.execute("NOTIFY ff_completion");
  REQUIRE(are_told(2));
  notifications.stop();
  CHECK(told == std::vector<std::string>{kNews, kOther});
}

TEST_CASE("a real lease event is heard") {
  Stage stage;
  const SteadyTime before = now();
  stage.db.execute(
      "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, partition_key)"
      " VALUES ('6e8bc430-9c3a-11d9-9669-0800200c9a66', 'acquired', 1, 3)");
  CHECK(stage.hears_since(before));
}

TEST_CASE("a notification in the wake of a storm is heard, too") {
  Stage stage;
  for (int i = 0; i < 500; ++i) stage.announce();
  // The storm is over for us as well once nothing came for a while.
  CHECK(becomes_true([&] { return stage.notifications.none_since(kNews, now() - 500ms); }));
  const SteadyTime before = now();
  stage.announce();
  CHECK(stage.hears_since(before));
}

TEST_CASE("nothing is believed before it listens, or while it does not") {
  const test::Database database;
  Notifications notifications(database.connector(), {kNews});
  CHECK_FALSE(notifications.none_since(kNews, now()));
  const SteadyTime before = now();
  notifications.start();
  CHECK(becomes_true([&] { return notifications.none_since(kNews, now()); }));
  CHECK_FALSE(notifications.none_since(kNews, before));
}

TEST_CASE("a session that breaks is replaced, and its silence is not believed") {
  Stage stage;
  const SteadyTime before = now();
  stage.break_sessions();
  CHECK(stage.hears_since(before));
  CHECK(stage.listens());
  CHECK_FALSE(stage.notifications.none_since(kNews, before));
}

TEST_CASE("a session that breaks now and then is replaced as fast the tenth time as the first") {
  Stage stage;
  const SteadyTime before = now();
  for (int i = 0; i < 10; ++i) {
    const SteadyTime broken = now();
    stage.break_sessions();
    CHECK(stage.hears_since(broken));
    REQUIRE(stage.listens());
  }
  // Each pause is at most the first: twice as long each time would come to minutes.
  CHECK(now() - before < 30s);
}

TEST_CASE("a limit on idle sessions does not end the one that listens") {
  const test::Database database;
  pg::Connection db = database.connect();  // has none itself
  db.execute("ALTER DATABASE " + database.name() + " SET idle_session_timeout = '1s'");
  Notifications notifications(database.connector(), {kNews, kOther});
  notifications.start();
  REQUIRE(becomes_true([&] { return notifications.none_since(kNews, now()); }));
  const SteadyTime since = now();
  // It has said nothing for longer than that, and is there.
  CHECK(becomes_true([&] {
    return test::number(
               db,
               "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle'"
               "   AND pid <> pg_backend_pid() AND clock_timestamp() - state_change > interval '2 s'") == 1;
  }));
  CHECK(notifications.none_since(kNews, since));
  db.execute("NOTIFY ff_lease_event");
  CHECK(becomes_true([&] { return !notifications.none_since(kNews, since); }));
  CHECK(notifications.none_since(kOther, since));
}

TEST_CASE("where the server may be another one, a new session listens before silence is believed again") {
  Stage stage;
  const SteadyTime before = now();
  stage.notifications.renew();
  CHECK_FALSE(stage.notifications.none_since(kNews, before));
  CHECK(stage.listens());
  CHECK_FALSE(stage.notifications.none_since(kNews, before));
  CHECK(becomes_true([&] { return stage.sessions() == 1; }));
  const SteadyTime later = now();
  stage.announce();
  CHECK(stage.hears_since(later));
}

TEST_CASE(
    "who listens to another server than the one that is meant is deaf, and tries again until it is that "
    "one") {
  Stage stage;
  const UnixMillis started = pg::server_info(stage.db).started_at;
  const SteadyTime before = now();
  stage.notifications.server_is(started);
  CHECK(stage.notifications.none_since(kNews, before));
  const test::LogCapture log;
  stage.notifications.server_is(started + 1ms);
  CHECK_FALSE(stage.notifications.none_since(kNews, now()));
  REQUIRE(becomes_true([&] { return !log.lines().empty(); }));
  CHECK_THAT(log.lines().front(), Catch::EndsWith("is another server than the reconcilers'"));
  CHECK_FALSE(stage.notifications.none_since(kNews, now()));
  stage.notifications.server_is(started);
  CHECK(stage.listens());
  CHECK_FALSE(stage.notifications.none_since(kNews, before));
}

TEST_CASE("it stops at once, whatever it is doing") {
  Stage stage;
  const SteadyTime asked = now();
  stage.notifications.stop();
  CHECK(now() - asked < 5s);
  const pg::Connector nowhere({.conninfo = "host=/nowhere"});
  Notifications lost(nowhere, {kNews});
  lost.start();
  CHECK_FALSE(lost.none_since(kNews, now()));
  lost.stop();
}
