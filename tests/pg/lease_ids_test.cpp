// Where ids do not rise as they should, or nobody can tell: it is said, or refused.
#include <catch2/catch.hpp>
#include <fstream>
#include <limits>

#include "migrate/migrate.hpp"
#include "pg/lease_stepped.hpp"
#include "support/log_capture.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

TEST_CASE("a sequence that stocks ids for its sessions is told of, for nobody can follow their order") {
  Outbox outbox;
  CHECK_FALSE(lease::means(outbox.db).ids_are_stocked);
  outbox.db.execute("ALTER SEQUENCE ff_lease_event_event_id_seq CACHE 20");
  CHECK(lease::means(outbox.db).ids_are_stocked);
}

TEST_CASE(
    "a sequence that has jumped back is told of, before and after it has overtaken what was delivered") {
  Outbox outbox;
  outbox.add_many(5);
  lease::HistoryObserver deaf;
  Stepped ours(outbox.database, deaf);
  const LogCapture log;
  ours.pass();
  // As after a failover to a standby that had received the first two.
  outbox.db.execute_script(
      "DELETE FROM ff_lease_event WHERE event_id > 2; SELECT setval('ff_lease_event_event_id_seq', 2)");
  outbox.add({});
  ours.pass();
  REQUIRE(log.lines().size() == 1);
  CHECK_THAT(log.lines().back(), Catch::Contains("stands at 3 and the cursor at 5: it has jumped back"));
  outbox.add_many(3);
  ours.pass();
  REQUIRE(log.lines().size() == 2);
  CHECK_THAT(log.lines().back(), Catch::Contains("has caught up with the cursor. Events with ids up to 5"));
  outbox.add_many(1);
  ours.pass();
  CHECK(log.lines().size() == 2);
  CHECK(ours.delivered == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("who finds that others have written since the sequence jumped back is told from which event on") {
  Outbox outbox;
  lease::HistoryObserver deaf;
  Stepped ours(outbox.database, deaf);
  for (int i = 0; i < 6; ++i) {
    outbox.add({});
    ours.pass();
  }
  outbox.db.execute_script(
      "DELETE FROM ff_lease_event WHERE event_id > 2; SELECT setval('ff_lease_event_event_id_seq', 2)");
  outbox.add_many(2);
  const LogCapture log;
  for (int i = 0; i < 5; ++i) ours.pass();
  REQUIRE(log.lines().size() == 2);
  CHECK_THAT(log.lines()[0], Catch::Contains("stands at 4 and the cursor at 6") &&
                                 Catch::Contains("the lowest place at which the sequence was seen (4)"));
  CHECK_THAT(log.lines()[1],
             Catch::Contains("stands at 4 and the cursor at 6") &&
                 Catch::Contains("lease-events --after 020000000000000002, the cursor of event 2"));
  Stepped after(outbox.database, deaf, Clock::system(), 2);
  after.pass();
  CHECK(after.delivered == std::vector<std::int64_t>{3, 4});
}

TEST_CASE("a sequence that has overtaken what was delivered before anybody looked is told of by the event") {
  Outbox outbox;
  lease::HistoryObserver deaf;
  Stepped ours(outbox.database, deaf);
  for (int i = 0; i < 3; ++i) {
    outbox.add({});
    ours.pass();
  }
  const LogCapture log;
  outbox.db.execute_script(
      "DELETE FROM ff_lease_event WHERE event_id > 1; SELECT setval('ff_lease_event_event_id_seq', 1)");
  outbox.add_many(3);
  for (int i = 0; i < 5; ++i) ours.pass();
  REQUIRE(log.lines().size() == 2);
  CHECK_THAT(log.lines()[0], Catch::Contains("lease event 3 is another than the one that had this id"));
  CHECK_THAT(log.lines()[1], Catch::Contains("the cursor of event 1: "));
}

TEST_CASE("a cursor from before the sequence jumped back is told of") {
  Outbox outbox;
  outbox.add_many(5);
  lease::HistoryObserver deaf;
  Stepped ours(outbox.database, deaf, Clock::system(), 7);
  const LogCapture log;
  ours.pass();
  ours.pass();
  REQUIRE(log.lines().size() == 1);
  CHECK_THAT(log.lines().back(),
             Catch::Contains("the cursor 020000000000000007 (7) is beyond every lease event id "
                             "that this database has handed out, up to 5"));
}

TEST_CASE(
    "a cursor that is of another database changes nothing of what is said to those who have the right one") {
  Outbox outbox;
  lease::HistoryObserver deaf;
  Stepped ours(outbox.database, deaf);
  const auto foreign =
      std::make_shared<lease::Stream>(std::nullopt, lease::Cursor{1000}, ScannerFilter{}, ours.wake, deaf);
  const LogCapture log;
  for (int i = 0; i < 6; ++i) {
    outbox.add({});
    ours.pass({foreign});
  }
  REQUIRE(log.lines().size() == 1);
  CHECK_THAT(log.lines()[0], Catch::Contains("(1000) is beyond every lease event id"));
  outbox.db.execute_script(
      "DELETE FROM ff_lease_event WHERE event_id > 2; SELECT setval('ff_lease_event_event_id_seq', 2)");
  for (int i = 0; i < 5; ++i) ours.pass({foreign});
  REQUIRE(log.lines().size() == 3);
  CHECK_THAT(log.lines()[1], Catch::Contains("stands at 2 and the cursor at 6"));
  CHECK_THAT(log.lines()[2],
             Catch::Contains("set it to 6 with setval()") &&
                 Catch::Contains("lease-events --after 020000000000000002, the cursor of event 2"));
}

TEST_CASE("a cursor that cannot be of this database is refused, and its neighbours are served") {
  Outbox outbox;
  outbox.add_many(3);
  lease::History history(outbox.database.connector());
  auto refused = history.subscribe({.after = after(std::numeric_limits<std::int64_t>::max())});
  auto served = history.subscribe({.after = after(0)});
  CHECK(take(served, 3) == outbox.ids());
  const auto notice = next_notice<lease::CursorRefused>(refused);
  REQUIRE(notice);
  CHECK_THAT(notice->reason, Catch::Contains("(9223372036854775807) is beyond every lease event id"));
  outbox.add({});
  CHECK(take(served, 1).size() == 1);
  CHECK_FALSE(refused.next(in(50ms)));
}

TEST_CASE("a standby, which does not know who writes, is refused") {
  testserver::PrivateServer server;
  const pg::Connector connector({.conninfo = server.conninfo() + " target_session_attrs=any"});
  {
    pg::Connection db = connector.connect(in(10s));
    migrate::up(db, Database::kFanOut);
    Outbox::add(db, {});
  }
  server.stop();
  std::ofstream(server.directory() / "data" / "standby.signal").close();
  server.start();
  lease::HistoryObserver deaf;
  Stepped ours(connector.connect(in(10s)), deaf);
  CHECK_THROWS_WITH(ours.pass(), Catch::Contains("is a standby, which does not know who is writing"));
  CHECK(ours.delivered.empty());
}
