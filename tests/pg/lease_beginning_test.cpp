// Where a subscription begins that has no cursor: with all that is committed from then on, also below the newest id.
#include <catch2/catch.hpp>

#include "pg/lease_stepped.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

/// Transactions that have each drawn an id and are open, every second id between events that are committed.
struct Opens {
  explicit Opens(Outbox& outbox, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      before.push_back(outbox.add({}));
      sessions.push_back(outbox.database.connect());
      sessions.back().execute_script("BEGIN");
      open.push_back(Outbox::add(sessions.back(), {.partition = 7}));
    }
    before.push_back(outbox.add({}));
  }
  std::vector<pg::Connection> sessions;
  std::vector<std::int64_t> before;
  std::vector<std::int64_t> open;
};

}  // namespace

TEST_CASE("a subscription without a cursor delivers what is committed after it, also below the newest id") {
  Outbox outbox;
  lease::HistoryObserver deaf;
  Opens opens(outbox, 3);
  Stepped ours(outbox.database, deaf, Clock::system(), std::nullopt);
  ours.pass();
  const auto later = outbox.add({});
  ours.pass();
  CHECK(ours.delivered.empty());
  opens.sessions[2].execute_script("COMMIT");
  opens.sessions[1].execute_script("ROLLBACK");
  opens.sessions[0].execute_script("COMMIT");
  ours.pass();
  ours.pass();
  CHECK(ours.delivered == std::vector{opens.open[0], opens.open[2], later});
  CHECK(ours.stream->cursor().event_id == later);
}

TEST_CASE("of one partition it does so, too, beside a process that has long been reading") {
  Outbox outbox;
  lease::History history(outbox.database.connector());
  auto reading = history.subscribe({.after = after(0)});
  const auto settled = outbox.add({});
  CHECK(take(reading, 1) == std::vector{settled});
  Opens opens(outbox, 1);
  auto seven = history.subscribe({.partition = {{7}}});
  auto three = history.subscribe({.partition = {{3}}});
  CHECK(seven.cursor().event_id < opens.open[0]);
  CHECK(seven.cursor().event_id >= settled);
  opens.sessions[0].execute_script("COMMIT");
  CHECK(take(seven, 1) == opens.open);
  const auto last = outbox.add({});
  CHECK(take(three, 1) == std::vector{last});
}

TEST_CASE("who goes on from the cursor of a beginning misses nothing that was open then") {
  Outbox outbox;
  lease::HistoryObserver deaf;
  Opens opens(outbox, 2);
  Stepped first(outbox.database, deaf, Clock::system(), std::nullopt);
  first.pass();
  const auto cursor = first.stream->cursor().event_id;
  for (auto& session : opens.sessions) session.execute_script("COMMIT");
  Stepped second(outbox.database, deaf, Clock::system(), cursor);
  second.pass();
  for (const auto id : opens.open) CHECK(std::ranges::count(second.delivered, id) == 1);
}

TEST_CASE("a subscription without a cursor has caught up at once, whoever is writing") {
  Outbox outbox;
  lease::HistoryObserver deaf;
  const Opens opens(outbox, 1);
  lease::History history(outbox.database.connector());
  auto subscription = history.subscribe({});
  CHECK(next_notice<lease::CaughtUp>(subscription));
}

TEST_CASE("ids that no visible event has are told as ranges, up to the last one asked for") {
  Outbox outbox;
  outbox.add_many(12);
  outbox.db.execute_script("DELETE FROM ff_lease_event WHERE event_id IN (1, 2, 5, 8, 9, 12)");
  const auto absent = [&](std::int64_t after, std::int64_t up_to) {
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    for (const auto& range : lease::read_absent(outbox.db, after, up_to))
      ranges.emplace_back(range.first, range.last);
    return ranges;
  };
  using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;
  CHECK(absent(0, 12) == Ranges{{1, 2}, {5, 5}, {8, 9}, {12, 12}});
  CHECK(absent(5, 8) == Ranges{{8, 8}});
  CHECK(absent(5, 7).empty());
}
