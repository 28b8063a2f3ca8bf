// The table of pauses, and how a daemon reads it beside its checks of the database.
#include "pause/pause.hpp"

#include <catch2/catch.hpp>

#include "base/moment.hpp"
#include "pause_watch.hpp"
#include "pg/listener.hpp"
#include "pg/transaction.hpp"
#include "support/database.hpp"
#include "support/log_capture.hpp"
#include "support/manual_clock.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Table = pause::Reading::Table;

namespace {

pause::Wish wish(const std::string& reconciler, std::optional<Milliseconds> lasting = {}) {
  return {.reconcilers = {reconciler}, .by = "anna@bastion", .reason = "why not", .lasting = lasting};
}

std::vector<std::string> names(const std::vector<pause::Pause>& pauses) {
  std::vector<std::string> all;
  for (const pause::Pause& each : pauses) all.push_back(each.reconciler);
  return all;
}
using Names = std::vector<std::string>;

/// A daemon's part in it: what it knows, and how often it was told of a change.
struct Watch {
  bool holds(const std::string& name) const { return pauses.hold(name); }
  std::size_t lines_with(const std::string& text) const {
    std::size_t found = 0;
    for (const std::string& line : log.lines()) found += line.find(text) != std::string::npos ? 1 : 0;
    return found;
  }

  LogCapture log;
  ManualClock clock;
  supervisor::Pauses pauses{clock};
  int changes = 0;
  int releases = 0;
  std::vector<std::string> unread;
  daemon::PauseWatch watch{pauses,
                           clock,
                           {.changed = [this](const auto&) { ++changes; },
                            .released = [this] { ++releases; },
                            .unread = [this](const std::string& why) { unread.push_back(why); }}};
};

}  // namespace

TEST_CASE(
    "a pause is kept with who, why and until when, replaced by the next, and lifted by its own name only") {
  const Database database;
  auto db = database.connect();
  CHECK(pause::read(db).table == Table::readable);
  CHECK(pause::read(db).in_force.empty());

  REQUIRE(pause::pause(db, wish("lease_expiry")));
  REQUIRE(pause::pause(db, wish("*", 1h)));
  pause::Reading reading = pause::read(db);
  REQUIRE(names(reading.in_force) == Names{"*", "lease_expiry"});
  CHECK_THAT(reading.in_force[0].by, Contains("anna@bastion, database role "));
  CHECK(reading.in_force[0].reason == "why not");
  CHECK(reading.in_force[0].until == reading.in_force[0].since + 1h);
  CHECK_FALSE(reading.in_force[1].until);

  REQUIRE(pause::pause(db, wish("lease_expiry", 2h)));
  reading = pause::read(db);
  REQUIRE(reading.in_force.size() == 2);
  CHECK(reading.in_force[1].until);
  CHECK(pause::resume(db, {"*", "dependency"}) == Names{"*"});
  CHECK(names(pause::read(db).in_force) == Names{"lease_expiry"});
  CHECK(pause::resume(db, {"lease_expiry"}) == Names{"lease_expiry"});
  CHECK(pause::read(db).in_force.empty());
}

TEST_CASE(
    "a pause whose end is over by the clock of the database is none, and its row goes with the next resume") {
  const Database database;
  auto db = database.connect();
  pause::Wish over = wish("lease_expiry");
  over.until = unix_millis(now_ms(db) - 1);
  CHECK_FALSE(pause::pause(db, over));
  CHECK(row(db, "SELECT count(*) AS n FROM ff_reconciler_pause")["n"] == 0);
  over.until = unix_millis(now_ms(db) + 3'600'000);
  REQUIRE(pause::pause(db, over));
  CHECK(names(pause::read(db).in_force) == Names{"lease_expiry"});
  db.execute("UPDATE ff_reconciler_pause SET until_ms = 1");
  CHECK(pause::read(db).in_force.empty());
  CHECK(pause::resume(db, {"lease_expiry"}).empty());
  CHECK(row(db, "SELECT count(*) AS n FROM ff_reconciler_pause")["n"] == 0);
}

TEST_CASE("a row that was written by hand with times that no clock shows can be read") {
  const Database database;
  auto db = database.connect();
  db.execute(
      "INSERT INTO ff_reconciler_pause VALUES ('*', '', E'a\\nb', -9223372036854775808, "
      "9223372036854775807)");
  const pause::Reading reading = pause::read(db);
  REQUIRE(names(reading.in_force) == Names{"*"});
  CHECK(reading.in_force[0].reason == "a b");
  CHECK(reading.in_force == pause::read(db).in_force);  // whenever it is read: it is no change
  CHECK(format_moment(*reading.in_force[0].until) == "9999-12-31T23:59:59Z");
}

TEST_CASE("every change of the table is announced") {
  const Database database;
  auto db = database.connect();
  pg::Listener listener(database.connect());
  listener.listen({std::string(pause::kChannel)});
  pg::Wake wake;
  const auto heard = [&] { return listener.wait(Clock::system().now() + 10s, wake).size() == 1; };
  pause::pause(db, wish("*"));
  CHECK(heard());
  pause::pause(db, wish("*", 1h));
  CHECK(heard());
  pause::resume(db, {"*"});
  CHECK(heard());
  db.execute("TRUNCATE ff_reconciler_pause");
  CHECK(heard());
}

TEST_CASE("a watch tells of each change once, in the log and to the daemon") {
  const Database database;
  auto db = database.connect();
  Watch its;
  its.watch.poll(db);
  CHECK(its.changes == 0);
  CHECK(its.log.lines().empty());
  pause::pause(db, wish("lease_expiry", 1h));
  its.watch.poll(db);
  its.watch.poll(db);
  CHECK(its.changes == 1);
  CHECK(its.holds("lease_expiry"));
  CHECK(its.lines_with("warning lease_expiry paused by anna@bastion") == 1);
  its.clock.advance(1h);
  CHECK(its.pauses.in_force().empty());
  pause::resume(db, {"lease_expiry"});
  its.watch.poll(db);
  its.watch.poll(db);
  CHECK(its.changes == 2);
  CHECK(its.log.lines().size() == 2);
  CHECK(its.lines_with("info the pause of lease_expiry is over") == 1);
}

TEST_CASE(
    "what keeps the table from being read neither lifts a pause that is known nor keeps one from ending") {
  const Database database;
  auto db = database.connect();
  Watch its;
  pause::pause(db, wish("lease_expiry"));
  pause::pause(db, wish("dependency", 1h));
  its.watch.poll(db);
  auto other = database.connect();
  std::optional<pg::Transaction> lock;
  SECTION("its privilege is gone") {
    db.execute_script("CREATE ROLE sees_no_pauses; SET ROLE sees_no_pauses");
  }
  SECTION("it is gone itself") {
    db.execute("ALTER TABLE ff_reconciler_pause RENAME TO elsewhere");
  }
  SECTION("it is another one") {
    db.execute("ALTER TABLE ff_reconciler_pause DROP COLUMN reason");
  }
  SECTION("somebody has locked it") {
    lock.emplace(other);
    lock->execute("LOCK TABLE {schema}.ff_reconciler_pause");
  }
  for (int i = 0; i < supervisor::Pauses::kFailuresHeldFor; ++i) its.watch.poll(db);
  CHECK(its.holds("lease_expiry"));
  CHECK(its.holds("dependency"));
  CHECK(its.lines_with("warning pauses cannot be read") == 1);
  CHECK(db.idle());
  its.clock.advance(1h);
  CHECK(its.holds("lease_expiry"));
  CHECK_FALSE(its.holds("dependency"));
  its.watch.poll(db);
  CHECK(its.lines_with("the pause of dependency is over") == 1);
  CHECK(its.unread.size() == 1);
  lock.reset();
  db.execute_script("RESET ROLE; DROP ROLE IF EXISTS sees_no_pauses");
}

TEST_CASE(
    "a daemon that starts while the table is locked waits for a few readings, and then says that it goes "
    "on") {
  const Database database;
  auto db = database.connect();
  pause::pause(db, wish("lease_expiry"));
  auto other = database.connect();
  std::optional<pg::Transaction> lock(other);
  lock->execute("LOCK TABLE {schema}.ff_reconciler_pause");
  Watch its;
  its.watch.poll(db);
  CHECK(its.holds("dependency"));
  CHECK(its.releases == 0);
  SECTION("the table can be read in time") {
    lock.reset();
    its.watch.poll(db);
    CHECK(its.releases == 1);
    REQUIRE(its.unread.size() == 2);
    CHECK_FALSE(its.unread[0].empty());
    CHECK(its.unread[1].empty());
    CHECK(its.lines_with("error") == 0);
    CHECK(its.holds("lease_expiry"));
  }
  SECTION("it stays locked") {
    for (int i = 0; i < supervisor::Pauses::kFailuresHeldFor; ++i) its.watch.poll(db);
    CHECK(its.releases == 1);
    CHECK(its.lines_with("error pauses were not read 5 times in a row") == 1);
    CHECK_FALSE(its.holds("lease_expiry"));
    lock.reset();
    its.watch.poll(db);
    CHECK(its.releases == 1);
    CHECK(its.holds("lease_expiry"));
  }
  CHECK_FALSE(its.holds("dependency"));
}

TEST_CASE("a role that may not read the table is not held by its own first readings") {
  const Database database;
  auto db = database.connect();
  db.execute_script("CREATE ROLE sees_no_pauses; SET ROLE sees_no_pauses");
  Watch its;
  its.watch.poll(db);
  CHECK_FALSE(its.holds("lease_expiry"));
  CHECK(its.releases == 1);
  CHECK(its.lines_with("warning pauses cannot be read") == 1);
  db.execute_script("RESET ROLE; DROP ROLE sees_no_pauses");
}

TEST_CASE("without the table nothing is paused, and nobody is warned") {
  const Database database;
  auto db = database.connect();
  db.execute("DROP TABLE ff_reconciler_pause");
  CHECK(pause::read(db).table == Table::missing);
  Watch its;
  its.watch.poll(db);
  CHECK(its.changes == 0);
  CHECK(its.log.lines().empty());
}
