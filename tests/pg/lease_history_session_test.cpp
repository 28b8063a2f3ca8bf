// The library class over time: lost sessions, consumers that sleep, the end, and what it costs while nothing
// happens.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "pg/lease_outbox.hpp"
#include "support/engine.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using lease::CaughtUp;
using lease::Event;
using lease::StreamDisconnected;

namespace {

constexpr auto kNever = 1h;

std::int64_t listening_sessions(Outbox& outbox) {
  return number(outbox.db,
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid()");
}

void end_other_sessions(Outbox& outbox) {
  outbox.db.execute(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
      " AND pid <> pg_backend_pid()");
}

struct Reconnects final : lease::HistoryObserver {
  void lease_history_reconnected() noexcept override { ++count; }
  std::atomic<int> count{0};
};

}  // namespace

TEST_CASE("a lost session is told to each consumer with its cursor, and nothing is lost or repeated") {
  Outbox outbox;
  Reconnects reconnects;
  lease::History history(outbox.database.connector(), {.observer = &reconnects});
  auto three = history.subscribe({.partition = {{3}}});
  auto four = history.subscribe({.partition = {{4}}});
  for (int round = 1; round <= 3; ++round) {
    const auto before = outbox.add({});
    CHECK(take(three, 1) == std::vector{before});
    end_other_sessions(outbox);
    const auto notice = next_notice<StreamDisconnected>(three);
    REQUIRE(notice);
    CHECK(notice->cursor.event_id == before);
    CHECK(next_notice<StreamDisconnected>(four));
    const auto meanwhile = outbox.add({});
    const auto elsewhere = outbox.add({.partition = 4});
    CHECK(take(three, 1) == std::vector{meanwhile});
    CHECK(take(four, 1) == std::vector{elsewhere});
    // Counted beside the delivery, so maybe a moment later.
    CHECK(test::wait_until([&] { return reconnects.count == round; }));
  }
}

TEST_CASE(
    "a consumer is told once of a reader that fails at the same page again and again, with the reason") {
  pg::Wake wake;
  lease::HistoryObserver deaf;
  lease::Stream stream(PartitionKey{3}, lease::Cursor{0}, ScannerFilter{}, wake, deaf);
  const auto fail = [&] {
    stream.fail(std::make_exception_ptr(pg::Error(pg::Error::Kind::timeout, "too slow")));
  };
  fail();
  CHECK_THROWS_WITH(stream.wait_until_begun(), "too slow");
  stream.begin(7);
  stream.wait_until_begun();
  for (int i = 0; i < 3; ++i) {
    REQUIRE(stream.stretch(7));
    fail();
    const auto notice = stream.next(SteadyTime::min());
    CHECK(notice.has_value() == (i == 0));
    if (notice)
      CHECK_THROWS_WITH(std::rethrow_exception(std::get<StreamDisconnected>(*notice).reason), "too slow");
  }
  stream.add({}, 7);
  CHECK(std::holds_alternative<lease::CaughtUp>(stream.next(SteadyTime::min()).value()));
  fail();
  CHECK(std::holds_alternative<StreamDisconnected>(stream.next(SteadyTime::min()).value()));
}

TEST_CASE("a consumer that sleeps slows only its own reading, and then gets everything") {
  Outbox outbox;
  constexpr int kMany = 5000;
  outbox.add_many(kMany);
  pg::Wake wake;
  lease::HistoryObserver deaf;
  lease::HistoryReader reader(10s, deaf, Clock::system());
  auto asleep =
      std::make_shared<lease::Stream>(PartitionKey{3}, lease::Cursor{0}, ScannerFilter{}, wake, deaf);
  auto awake =
      std::make_shared<lease::Stream>(PartitionKey{3}, lease::Cursor{0}, ScannerFilter{}, wake, deaf);
  const auto drain = [](lease::Stream& stream, std::vector<std::int64_t>& ids) {
    std::size_t events = 0;
    while (const auto delivery = stream.next(SteadyTime::min()))
      if (const auto* event = std::get_if<Event>(&*delivery)) {
        ids.push_back(occurrence(*event).cursor.event_id);
        ++events;
      }
    return events;
  };
  std::vector<std::int64_t> of_awake;
  std::vector<std::int64_t> of_asleep;
  for (int i = 0; i < 30; ++i) {
    reader.pass(outbox.db, {asleep, awake});
    drain(*awake, of_awake);
  }
  CHECK(of_awake == outbox.ids());
  CHECK_FALSE(wake.take());
  CHECK(drain(*asleep, of_asleep) == lease::Stream::kMostWaiting);
  CHECK(wake.take());
  for (int i = 0; i < 30; ++i) {
    reader.pass(outbox.db, {asleep, awake});
    CHECK(drain(*asleep, of_asleep) <= lease::Stream::kMostRows);
  }
  CHECK(of_asleep == of_awake);
}

TEST_CASE("a subscription that fell behind goes on by itself when its consumer takes events again") {
  Outbox outbox;
  outbox.add_many(3000);
  lease::History history(outbox.database.connector(), {.poll_interval = kNever});
  auto subscription = history.subscribe({.partition = {{3}}, .after = after(0)});
  CHECK(take(subscription, 3000) == outbox.ids());
}

TEST_CASE("destroying the last subscription ends the connection, and the history its thread, promptly") {
  Outbox outbox;
  auto history = std::make_unique<lease::History>(outbox.database.connector());
  {
    auto one = history->subscribe({.partition = {{3}}});
    auto two = history->subscribe({.partition = {{4}}});
    CHECK(listening_sessions(outbox) == 1);
  }
  CHECK(wait_until([&] { return listening_sessions(outbox) == 0; }, 2s));
  auto again = std::make_unique<lease::Subscription>(history->subscribe({.partition = {{3}}}));
  const auto id = outbox.add({});
  CHECK(take(*again, 1) == std::vector{id});
  again.reset();
  const SteadyTime start = Clock::system().now();
  history.reset();
  CHECK(Clock::system().now() - start < 1s);
}

TEST_CASE("a statement that hangs does not keep the history from ending") {
  Outbox outbox;
  lease::History history(outbox.database.connector(), {.poll_interval = 10ms});
  auto subscription = history.subscribe({.partition = {{3}}});
  outbox.db.execute_script("BEGIN; LOCK TABLE ff_lease_event");
  pg::Connection watching = outbox.database.connect();
  REQUIRE(wait_until([&] {
    return number(watching, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == 1;
  }));
  // Both end with the scope: their destructors are what is under test, with the time limit of the suite.
}

TEST_CASE("close ends a wait in another thread") {
  Outbox outbox;
  lease::History history(outbox.database.connector());
  auto subscription = history.subscribe({.partition = {{3}}});
  CHECK(next_notice<CaughtUp>(subscription));
  std::jthread closer([&] { subscription.close(); });
  CHECK_FALSE(subscription.next(in(20s)));
  CHECK(subscription.closed());
}

TEST_CASE("many partitions share one connection, and an idle one does no more than its polls") {
  Outbox outbox;
  outbox.add_many(10);
  lease::History history(outbox.database.connector(), {.poll_interval = 200ms});
  std::vector<lease::Subscription> all;
  for (std::int16_t key = 0; key < 64; ++key)
    all.push_back(history.subscribe({.partition = {{key}}, .after = after(0)}));
  for (auto& subscription : all) REQUIRE(next_notice<CaughtUp>(subscription));
  CHECK(listening_sessions(outbox) == 1);
  const auto next_id = [&] {
    return number(outbox.db, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8");
  };
  const auto commits = [&] {
    return number(outbox.db, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()");
  };
  constexpr Milliseconds kUntold = 1s;  // sessions tell at most once a second what they have done
  std::this_thread::sleep_for(kUntold);
  outbox.db.execute("SELECT pg_stat_force_next_flush()");
  const auto transactions_before = next_id();
  const auto commits_before = commits();
  const SteadyTime began = Clock::system().now();
  std::this_thread::sleep_for(2s);  // the subject is what happens while nothing does
  const auto done = commits() - commits_before;
  const auto polls = (Clock::system().now() - began + kUntold) / 200ms;
  CHECK(done >= 1);
  CHECK(done <= polls + 6);                     // and our own questions
  CHECK(next_id() - transactions_before <= 2);  // not one for each poll; autovacuum may take some
}
