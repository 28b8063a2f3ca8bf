// The library class: what a subscription delivers, and when.
#include "lease/history.hpp"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <sstream>

#include "pg/lease_outbox.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using lease::CaughtUp;
using lease::Event;

namespace {

constexpr auto kNever = 1h;

/// The next event itself; fails the test when there is none.
Event next_event(lease::Subscription& subscription) {
  const SteadyTime deadline = in(20s);
  while (const auto delivery = subscription.next(deadline))
    if (const auto* event = std::get_if<Event>(&*delivery)) return *event;
  throw std::runtime_error("no event came");
}

}  // namespace

TEST_CASE("a subscription delivers what lies behind its cursor, by rising id, of its partition only") {
  Outbox outbox;
  outbox.add_many(5);
  const auto third = outbox.ids()[2];
  outbox.add_many(3, 4);
  outbox.add_many(1000);
  lease::History history(outbox.database.connector());
  auto of_three = history.subscribe({.partition = {{3}}, .after = after(third)});
  auto of_four = history.subscribe({.partition = {{4}}, .after = after(0)});
  auto of_all = history.subscribe({.after = after(third)});
  auto expected = outbox.ids(3);
  expected.erase(expected.begin(), expected.begin() + 3);
  CHECK(take(of_three, 1002) == expected);
  CHECK(take(of_four, 3) == outbox.ids(4));
  expected = outbox.ids();
  expected.erase(expected.begin(), expected.begin() + 3);
  CHECK(take(of_all, 1005) == expected);
  CHECK(take(of_three, 1, 50ms).empty());
}

TEST_CASE("an empty cursor begins behind the newest event at the moment of subscribing") {
  Outbox outbox;
  outbox.add_many(3);
  lease::History history(outbox.database.connector());
  auto subscription = history.subscribe({.partition = {{3}}});
  CHECK(subscription.cursor().event_id == outbox.ids().back());
  const auto id = outbox.add({});
  CHECK(take(subscription, 1) == std::vector{id});
}

TEST_CASE("a cursor that is none is refused before the subscription starts") {
  const pg::Connector nowhere({.conninfo = "host=/nonexistent"});
  lease::History history(nowhere);
  CHECK_THROWS_AS(history.subscribe({.after = "\x01"}), lease::InvalidCursor);
}

TEST_CASE("without a cursor a database that is away is an error, with one it is waited for") {
  const pg::Connector nowhere({.conninfo = "host=/nonexistent"});
  lease::History history(nowhere);
  CHECK_THROWS_AS(history.subscribe({}), pg::Error);
  auto subscription = history.subscribe({.after = after(7)});
  CHECK(subscription.cursor().event_id == 7);
  CHECK_FALSE(subscription.next(in(10ms)));
}

TEST_CASE("a notification wakes the reader long before the next poll") {
  Outbox outbox;
  lease::History history(outbox.database.connector(), {.poll_interval = kNever});
  auto subscription = history.subscribe({.partition = {{3}}});
  for (int i = 0; i < 3; ++i) {
    const auto id = outbox.add({});
    CHECK(take(subscription, 1) == std::vector{id});
  }
}

TEST_CASE("without any notification events arrive within the poll interval") {
  Outbox outbox;
  outbox.db.execute("DROP TRIGGER ff_lease_event_notify_trg ON ff_lease_event");
  lease::History history(outbox.database.connector(), {.poll_interval = 500ms});
  auto subscription = history.subscribe({.partition = {{3}}});
  for (int i = 0; i < 2; ++i) {
    const auto id = outbox.add({});
    CHECK(take(subscription, 1, 1500ms) == std::vector{id});
  }
}

TEST_CASE("each type of event is a type with everything that the row says") {
  Outbox outbox;
  const Uuid execution = new_uuid();
  for (const char* type : {"acquired", "renewed", "expired", "reclaimed", "revoked"})
    outbox.add({.type = type,
                .execution = to_string(execution),
                .name_space = "tenant-a",
                .instance_tag = "i-1",
                .lease_id = "0b5e7a4e-8f0e-4b57-9a39-3f3c1d0e9d11",
                .at_ms = 1'700'000'000'123});
  lease::History history(outbox.database.connector());
  auto subscription = history.subscribe({.partition = {{3}}, .after = after(0)});
  const auto ids = outbox.ids();
  std::vector<Event> events;
  for (const std::int64_t id : ids) {
    events.push_back(next_event(subscription));
    const lease::Occurrence& what = occurrence(events.back());
    CHECK(what.cursor.event_id == id);
    CHECK(to_string(what.execution) == "{fp:3}:" + to_string(execution));
    CHECK(what.lease_id == "0b5e7a4e-8f0e-4b57-9a39-3f3c1d0e9d11");
    CHECK(what.at == unix_millis(1'700'000'000'123));
    CHECK(what.name_space == "tenant-a");
    CHECK(what.instance_tag == "i-1");
  }
  CHECK(std::holds_alternative<lease::Acquired>(events[0]));
  CHECK(std::holds_alternative<lease::Renewed>(events[1]));
  CHECK(std::holds_alternative<lease::Expired>(events[2]));
  CHECK(std::holds_alternative<lease::Reclaimed>(events[3]));
  CHECK(std::get<lease::Revoked>(events[4]).revoked_by == "operator");
  CHECK(type_of(events[3]) == lease::EventType::reclaimed);
  outbox.add({});
  CHECK_FALSE(occurrence(next_event(subscription)).lease_id);
}

TEST_CASE("filters compare namespace and tag value, refuse nulls, and let the cursor pass") {
  Outbox outbox;
  const auto both = outbox.add({.name_space = "a", .instance_tag = "1"});
  const auto other_tag = outbox.add({.name_space = "a", .instance_tag = "2"});
  const auto other_name = outbox.add({.name_space = "b", .instance_tag = "1"});
  outbox.add({.name_space = "a"});
  outbox.add({.instance_tag = "1"});
  const auto last = outbox.add({});
  lease::History history(outbox.database.connector());
  const auto matching = [&](const ScannerFilter& filter, std::size_t count) {
    auto subscription = history.subscribe({.partition = {{3}}, .after = after(0), .filter = filter});
    const auto ids = take(subscription, count);
    CHECK(next_notice<CaughtUp>(subscription)->cursor.event_id == last);
    CHECK(subscription.cursor().event_id == last);
    return ids;
  };
  CHECK(matching({.name_space = "a", .instance_tag = {{"any.key", "1"}}}, 1) == std::vector{both});
  CHECK(matching({.name_space = "a", .instance_tag = {}}, 3) == std::vector{both, other_tag, both + 3});
  CHECK(matching({.name_space = {}, .instance_tag = {{"k", "1"}}}, 3) ==
        std::vector{both, other_name, both + 4});
  CHECK(matching({.name_space = "c", .instance_tag = {}}, 0).empty());
}

TEST_CASE("a row with an unknown type or a broken uuid is skipped with a warning") {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  Outbox outbox;
  const auto unknown = outbox.add({.type = "stolen"});
  const auto broken = outbox.add({.execution = "no-uuid"});
  const auto sound = outbox.add({});
  {
    lease::History history(outbox.database.connector());
    auto subscription = history.subscribe({.partition = {{3}}, .after = after(0)});
    CHECK(take(subscription, 1) == std::vector{sound});
    CHECK(next_notice<CaughtUp>(subscription));
  }
  spdlog::set_default_logger(before);
  CHECK_THAT(log.str(), Catch::Contains("lease event " + std::to_string(unknown) +
                                        " has the unknown type \"stolen\": skipped"));
  CHECK_THAT(log.str(), Catch::Contains("lease event " + std::to_string(broken) +
                                        " has the execution id \"no-uuid\", which is no uuid: skipped"));
}

TEST_CASE("a consumer learns once when everything from before its beginning has been delivered") {
  Outbox outbox;
  outbox.add_many(300);
  lease::History history(outbox.database.connector());
  auto subscription = history.subscribe({.partition = {{3}}, .after = after(0)});
  std::size_t events = 0;
  for (;;) {
    const auto delivery = subscription.next(in(20s));
    REQUIRE(delivery);
    if (std::holds_alternative<CaughtUp>(*delivery)) break;
    ++events;
  }
  CHECK(events == 300);
  outbox.add({});
  CHECK(take(subscription, 1).size() == 1);
  CHECK_FALSE(subscription.next(in(50ms)));
}

TEST_CASE("the example in the header works") {
  Outbox outbox;
  outbox.add_many(2, 7);
  const pg::Connector& connector = outbox.database.connector();
  const std::string saved_cursor_bytes = after(0);
  std::vector<std::string> lines;

  lease::History history(connector);
  auto subscription = history.subscribe({.partition = {{7}}, .after = saved_cursor_bytes});
  while (auto delivery = subscription.next(Clock::system().now() + 10s)) {
    if (const auto* event = std::get_if<lease::Event>(&*delivery))
      lines.push_back(to_hex(occurrence(*event).cursor));
    else if (std::holds_alternative<lease::CaughtUp>(*delivery))
      break;
  }
  CHECK(lines == std::vector<std::string>{"020000000000000001", "020000000000000002"});
}

TEST_CASE("reading a quiet partition does not touch the events of the busy ones") {
  Outbox outbox;
  for (int partition = 1; partition <= 20; ++partition) outbox.add_many(1000, partition);
  outbox.add_many(10, 40);
  outbox.db.execute_script("ANALYZE ff_lease_event");
  const auto newest = outbox.ids(40).back();
  pg::Connection session = outbox.database.connect();  // which has touched nothing yet
  session.execute_script("BEGIN");
  const auto rows = lease::read(session, {{PartitionKey{40}, 0}}, newest, 256);
  const auto touched = session
                           .execute(
                               "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables"
                               " WHERE relname = 'ff_lease_event'")
                           .one()
                           .get<std::int64_t>(0);
  CHECK(rows[0].size() == 10);
  CHECK(touched == 10);
}
