// What a role that may do little sees of those who write, and what is said where it sees nothing.
#include <catch2/catch.hpp>

#include "pg/lease_stepped.hpp"
#include "support/log_capture.hpp"
#include "support/manual_clock.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

/// The history as a role reads it that may read the outbox and nothing else; it goes before the database.
struct Plain {
  explicit Plain(const std::string& taken_away = "") {
    outbox.db.execute_script(
        "CREATE ROLE plain; GRANT SELECT ON ff_lease_event TO plain;"
        "GRANT USAGE ON SEQUENCE ff_lease_event_event_id_seq TO plain;" +
        taken_away);
    history.session.execute_script("SET ROLE plain");
  }
  ~Plain() { outbox.db.execute_script("DROP OWNED BY plain; DROP ROLE plain"); }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;

  Outbox outbox;
  lease::HistoryObserver deaf;
  ManualClock clock;
  Stepped history{outbox.database, deaf, clock};
};

}  // namespace

TEST_CASE("an ordinary role sees who writes, and names it without its age") {
  Plain plain;
  auto& [outbox, deaf, clock, ours] = plain;
  pg::Connection late = outbox.database.connect();
  late.execute_script("SET application_name = 'slow importer'; BEGIN");
  const auto low = Outbox::add(late, {});
  const auto high = outbox.add({});
  const LogCapture log;
  ours.pass();
  clock.advance(11s);
  ours.pass();
  CHECK(ours.delivered.empty());
  const auto pid = late.execute("SELECT pg_backend_pid()").one().get<std::int32_t>(0);
  REQUIRE(log.lines().size() == 1);
  CHECK_THAT(log.lines().front(),
             Catch::Contains("of pid " + std::to_string(pid) + " (application_name slow importer, database " +
                             outbox.database.name() + ", ?) may still add one"));
  late.execute_script("COMMIT");
  ours.pass();
  CHECK(ours.delivered == std::vector{low, high});
}

TEST_CASE("where pg_locks may not be read any writer is waited for, and that is said once") {
  Plain plain("REVOKE SELECT ON pg_locks FROM PUBLIC");
  auto& [outbox, deaf, clock, ours] = plain;
  pg::Connection late = outbox.database.connect();
  late.execute_script("BEGIN; CREATE TABLE theirs (); SELECT pg_current_xact_id()");
  const auto id = outbox.add({});
  const LogCapture log;
  ours.pass();
  ours.reader.connection_changed();
  ours.pass();
  CHECK(ours.delivered.empty());
  REQUIRE(log.lines().size() == 1);
  CHECK_THAT(log.lines().front(), Catch::Contains("pg_locks may not be read"));
  clock.advance(11s);
  ours.pass();
  REQUIRE(log.lines().size() == 2);
  CHECK_THAT(log.lines().back(), Catch::Contains("have been held back for 11.0 s, because transaction "));
  late.execute_script("COMMIT");
  // The server's own transactions count, too.
  REQUIRE(wait_until([&] {
    ours.pass();
    return !ours.delivered.empty();
  }));
  CHECK(ours.delivered == std::vector{id});
}

TEST_CASE("what may not be read of the sequence is said once") {
  Plain plain("REVOKE ALL ON SEQUENCE ff_lease_event_event_id_seq FROM plain");
  auto& [outbox, deaf, clock, ours] = plain;
  const LogCapture log;
  const auto id = outbox.add({});
  ours.pass();
  ours.pass();
  CHECK(ours.delivered == std::vector{id});
  REQUIRE(log.lines().size() == 1);
  CHECK_THAT(log.lines().front(), Catch::Contains("the sequence of ff_lease_event.event_id may not be read"));
}
