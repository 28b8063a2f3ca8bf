// Ids are handed out at INSERT and transactions commit in another order: whatever the order, every event that
// is committed is delivered once, by rising id.

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "metrics/metrics.hpp"
#include "migrate/migrate.hpp"
#include "pg/lease_outbox.hpp"
#include "support/log_capture.hpp"
#include "support/manual_clock.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

constexpr int kWriters = 3;
using Order = std::array<int, kWriters>;

std::vector<Order> every_order() {
  Order order{0, 1, 2};
  std::vector<Order> all;
  do all.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));
  return all;
}

/// The reader, stepped by hand, with one stream over all partitions.
struct Stepped {
  explicit Stepped(Database& database, lease::HistoryObserver& observer, const Clock& clock = Clock::system(),
                   std::int64_t start = 0)
      : session(database.connect()),
        stream(std::make_shared<lease::Stream>(std::nullopt, lease::Cursor{start}, ScannerFilter{}, wake,
                                               observer)),
        reader(10s, observer, clock) {}

  void pass() {
    reader.pass(session, {stream});
    while (const auto delivery = stream->next(SteadyTime::min()))
      if (const auto* event = std::get_if<lease::Event>(&*delivery))
        delivered.push_back(occurrence(*event).cursor.event_id);
  }

  pg::Connection session;
  pg::Wake wake;
  std::shared_ptr<lease::Stream> stream;
  lease::HistoryReader reader;
  std::vector<std::int64_t> delivered;
};

/// What FlowFabric does: everything visible above the last id that was seen.
struct SeedQuery {
  void pass(pg::Connection& session) {
    for (const pg::Row& row :
         session.execute("SELECT event_id FROM ff_lease_event WHERE event_id > $1 ORDER BY event_id",
                         pg::Params::of(last_seen))) {
      last_seen = row.get<std::int64_t>(0);
      ++delivered;
    }
  }
  std::int64_t last_seen = 0;
  std::size_t delivered = 0;
};

/// Ours with pg_snapshot_xmax for a mark: the end of the last transaction that has ended, not of those that
/// began.
struct MarkedByXmax {
  void pass(pg::Connection& session) {
    const auto result = session.execute(
        "SELECT coalesce(max(event_id), 0), pg_snapshot_xmin(pg_current_snapshot())::text::bigint,"
        " pg_snapshot_xmax(pg_current_snapshot())::text::bigint FROM ff_lease_event");
    lease::Sighting seen{result.one().get<std::int64_t>(0), result.one().get<std::int64_t>(1), {}};
    if (seen.newest > frontier.marks_above()) seen.mark = result.one().get<std::int64_t>(2);
    frontier.note(seen, SteadyTime{});
    const auto rows = lease::read(session, {{std::nullopt, read_to}}, frontier.settled(), 100);
    delivered += rows[0].size();
    read_to = frontier.settled();
  }
  lease::Frontier frontier;
  std::int64_t read_to = 0;
  std::size_t delivered = 0;
};

struct Writers {
  explicit Writers(Database& database) {
    for (int i = 0; i < kWriters; ++i) sessions.push_back(database.connect());
  }
  void begin(int writer) { sessions[at(writer)].execute_script("BEGIN; SELECT pg_current_xact_id()"); }
  void draw(int writer) { Outbox::add(sessions[at(writer)], {}); }
  void end(int writer, bool commit) { sessions[at(writer)].execute_script(commit ? "COMMIT" : "ROLLBACK"); }
  static std::size_t at(int writer) { return static_cast<std::size_t>(writer); }
  std::vector<pg::Connection> sessions;
};

}  // namespace

TEST_CASE("events are delivered once and in order whatever the order of transactions, ids and commits") {
  Outbox outbox;
  Writers writers(outbox.database);
  lease::HistoryObserver deaf;
  pg::Connection watching = outbox.database.connect();
  std::size_t lost_by_seed = 0;
  std::size_t lost_by_xmax = 0;
  for (const Order& begins : every_order()) {
    for (const Order& ends : every_order()) {
      for (int rolled_back = -1; rolled_back < kWriters; ++rolled_back) {
        outbox.db.execute("DELETE FROM ff_lease_event");
        Stepped ours(outbox.database, deaf);
        SeedQuery seed;
        MarkedByXmax by_xmax;
        const auto look = [&] {
          seed.pass(watching);
          by_xmax.pass(watching);  // before ours, whose marks are transactions that end
          ours.pass();
        };
        for (const int writer : begins) writers.begin(writer);
        for (int writer = 0; writer < kWriters; ++writer) writers.draw(writer);
        for (const int writer : ends) {
          writers.end(writer, writer != rolled_back);
          look();
        }
        look();
        const auto committed = outbox.ids();
        INFO("begun in the order " << begins[0] << begins[1] << begins[2] << ", ended in the order "
                                   << ends[0] << ends[1] << ends[2] << ", rolled back: " << rolled_back);
        REQUIRE(ours.delivered == committed);
        lost_by_seed += committed.size() - seed.delivered;
        lost_by_xmax += committed.size() - by_xmax.delivered;
      }
    }
  }
  CHECK(lost_by_seed > 0);
  CHECK(lost_by_xmax > 0);
}

TEST_CASE("an event waits for an open transaction that drew a lower id, and for no longer") {
  Outbox outbox;
  lease::HistoryObserver deaf;
  Stepped ours(outbox.database, deaf);
  pg::Connection late = outbox.database.connect();
  late.execute_script("BEGIN; SELECT pg_current_xact_id()");
  const auto low = Outbox::add(late, {});
  const auto high = outbox.add({});
  for (int i = 0; i < 3; ++i) ours.pass();
  CHECK(ours.delivered.empty());
  late.execute_script("COMMIT");
  ours.pass();
  CHECK(ours.delivered == std::vector{low, high});
}

TEST_CASE("an event seen before a transaction began does not wait for it") {
  Outbox outbox;
  lease::HistoryObserver deaf;
  Stepped ours(outbox.database, deaf);
  pg::Connection first = outbox.database.connect();
  pg::Connection second = outbox.database.connect();
  first.execute_script("BEGIN; SELECT pg_current_xact_id()");
  const auto early = outbox.add({});
  ours.pass();
  CHECK(ours.delivered.empty());
  second.execute_script("BEGIN; SELECT pg_current_xact_id()");
  outbox.add({});
  ours.pass();
  first.execute_script("COMMIT");
  ours.pass();
  CHECK(ours.delivered == std::vector{early});
  second.execute_script("ROLLBACK");
  ours.pass();
  CHECK(ours.delivered == outbox.ids());
}

TEST_CASE("an id that was rolled back holds nothing up") {
  Outbox outbox;
  lease::HistoryObserver deaf;
  Stepped ours(outbox.database, deaf);
  pg::Connection late = outbox.database.connect();
  late.execute_script("BEGIN; SELECT pg_current_xact_id()");
  Outbox::add(late, {});
  late.execute_script("ROLLBACK");
  const auto id = outbox.add({});
  ours.pass();
  CHECK(ours.delivered == std::vector{id});
}

TEST_CASE("a resumed subscription does not run ahead of a transaction that was open before it") {
  Outbox outbox;
  lease::HistoryObserver deaf;
  const auto first = outbox.add({});
  pg::Connection late = outbox.database.connect();
  late.execute_script("BEGIN; SELECT pg_current_xact_id()");
  const auto low = Outbox::add(late, {});
  const auto high = outbox.add({});
  Stepped ours(outbox.database, deaf, Clock::system(), first);
  ours.pass();
  late.execute_script("COMMIT");
  ours.pass();
  CHECK(ours.delivered == std::vector{low, high});
}

TEST_CASE("the transaction in the way is named in the log, and the hold is a metric") {
  Outbox outbox;
  metrics::Metrics metrics({});
  ManualClock clock;
  Stepped ours(outbox.database, metrics, clock);
  pg::Connection late = outbox.database.connect();
  late.execute_script("SET application_name = 'slow importer'; BEGIN; SELECT pg_current_xact_id()");
  const auto pid = late.execute("SELECT pg_backend_pid()").one().get<std::int32_t>(0);
  outbox.add({});

  const LogCapture log;
  ours.pass();
  clock.advance(10s);
  ours.pass();
  CHECK(log.lines().empty());
  clock.advance(1s);
  ours.pass();
  ours.pass();

  REQUIRE(log.lines().size() == 1);
  const std::string said = log.lines().front();
  CAPTURE(said);
  CHECK_THAT(said, Catch::Contains("have been held back for 11.0 s"));
  CHECK_THAT(said,
             Catch::Contains("of pid " + std::to_string(pid) + " (application_name slow importer, database " +
                             outbox.database.name() + ", idle in transaction, "));
  CHECK_THAT(metrics.scrape(), Catch::Contains("\nff_reconciler_lease_history_held_back_seconds 11\n"));
  late.execute_script("COMMIT");
  ours.pass();
  CHECK_THAT(metrics.scrape(), Catch::Contains("\nff_reconciler_lease_history_held_back_seconds 0\n"));
  CHECK_THAT(metrics.scrape(), Catch::Contains("\nff_reconciler_lease_history_delivered_total 1\n"));
  CHECK_THAT(metrics.scrape(), Catch::Contains("\nff_reconciler_lease_history_reconnects_total 0\n"));
}

TEST_CASE("a prepared transaction is waited for like any other, and named by what it was prepared as") {
  sandbox::PrivateServer server({.settings = {{"max_prepared_transactions", "1"}}});
  const pg::Connector connector({.conninfo = server.conninfo()});
  pg::Connection db = connector.connect(in(10s));
  migrate::up(db, Database::kFanOut);
  // It cannot hold an event itself, because PostgreSQL prepares no transaction that has notified.
  db.execute_script("BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'half done'");
  const auto id = Outbox::add(db, {});
  lease::Frontier frontier;
  const lease::Sighting seen = lease::look(db, 0);
  frontier.note(seen, SteadyTime{});
  CHECK(frontier.settled() == 0);
  CHECK_THAT(lease::describe_transaction(db, seen.oldest_running),
             Catch::Contains(" (prepared as half done in database postgres, "));
  db.execute_script("COMMIT PREPARED 'half done'");
  frontier.note(lease::look(db, id), SteadyTime{});
  CHECK(frontier.settled() == id);
}

TEST_CASE("a sequence that stocks ids for its sessions is told of, for nobody can follow their order") {
  Outbox outbox;
  CHECK_FALSE(lease::ids_are_stocked(outbox.db));
  outbox.db.execute("ALTER SEQUENCE ff_lease_event_event_id_seq CACHE 20");
  CHECK(lease::ids_are_stocked(outbox.db));
}

TEST_CASE("a transaction that stays open for a while delays its neighbours and loses none") {
  Outbox outbox;
  lease::History history(outbox.database.connector());
  auto subscription = history.subscribe({.after = after(0)});
  pg::Connection late = outbox.database.connect();
  late.execute_script("BEGIN; SELECT pg_current_xact_id()");
  const auto low = Outbox::add(late, {});
  const auto high = outbox.add({});
  CHECK(take(subscription, 1, 1s).empty());
  late.execute_script("COMMIT");
  CHECK(take(subscription, 2) == std::vector{low, high});
}
