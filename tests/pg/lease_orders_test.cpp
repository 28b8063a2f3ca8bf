// Ids are handed out at INSERT and transactions commit in another order: whatever the order, every event that
// is committed is delivered once, by rising id.

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "pg/lease_stepped.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace ff::test;

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

/// Ours where pg_locks may not be read.
struct ByMarks {
  void pass(pg::Connection& session) {
    lease::Sighting seen{lease::read_head(session, {}, 0).newest};
    seen.writers = lease::read_marks(session, frontier.awaited(), frontier.is_new(seen.newest.event_id));
    frontier.note(seen, SteadyTime{});
    const auto settled = frontier.settled().event_id;
    delivered += lease::read(session, {{std::nullopt, read_to}}, settled, 100)[0].size();
    read_to = settled;
  }
  lease::Frontier frontier;
  std::int64_t read_to = 0;
  std::size_t delivered = 0;
};

/// Whether a transaction has an id of its own before it draws an event's: it has when it wrote something else first.
enum class Before { written, nothing };

struct Writers {
  Writers(Database& database, Before before) : before_(before) {
    for (int i = 0; i < kWriters; ++i) sessions_.push_back(database.connect());
  }
  void begin(int writer) {
    session(writer).execute_script(before_ == Before::written ? "BEGIN; SELECT pg_current_xact_id()"
                                                              : "BEGIN");
  }
  // What an INSERT does, in steps: it locks the table, draws the id, and writes.
  void draw(int writer) {
    session(writer).execute_script("LOCK TABLE ff_lease_event IN ROW EXCLUSIVE MODE");
    drawn_[at(writer)] =
        session(writer).execute("SELECT nextval('ff_lease_event_event_id_seq')").one().get<std::int64_t>(0);
  }
  void end(int writer, bool commit) {
    session(writer).execute(
        "INSERT INTO ff_lease_event (event_id, execution_id, event_type, occurred_at_ms, partition_key)"
        " VALUES ($1, gen_random_uuid(), 'renewed', 1, 3)",
        pg::Params::of(drawn_[at(writer)]));
    session(writer).execute_script(commit ? "COMMIT" : "ROLLBACK");
  }

 private:
  static std::size_t at(int writer) { return static_cast<std::size_t>(writer); }
  pg::Connection& session(int writer) { return sessions_[at(writer)]; }

  const Before before_;
  std::vector<pg::Connection> sessions_;
  std::array<std::int64_t, kWriters> drawn_{};
};

struct Lost {
  std::size_t by_seed = 0;
  std::size_t by_marks = 0;
};

/// Plays every order of beginnings, commits and rollbacks; fails the test where ours is wrong.
Lost play_every_order(Before before) {
  Outbox outbox;
  Writers writers(outbox.database, before);
  lease::HistoryObserver deaf;
  pg::Connection watching = outbox.database.connect();
  Lost lost;
  for (const Order& begins : every_order()) {
    for (const Order& ends : every_order()) {
      for (int rolled_back = -1; rolled_back < kWriters; ++rolled_back) {
        outbox.db.execute("DELETE FROM ff_lease_event");
        Stepped ours(outbox.database, deaf);
        SeedQuery seed;
        ByMarks by_marks;
        const auto poll = [&] {
          seed.pass(watching);
          by_marks.pass(watching);
          ours.pass();
        };
        for (const int writer : begins) writers.begin(writer);
        for (int writer = 0; writer < kWriters; ++writer) writers.draw(writer);
        for (const int writer : ends) {
          writers.end(writer, writer != rolled_back);
          poll();
        }
        poll();
        // Anybody's transaction is in its way, the server's own among them.
        REQUIRE(wait_until([&] {
          by_marks.pass(watching);
          return !by_marks.frontier.held_since();
        }));
        const auto committed = outbox.ids();
        INFO("begun in the order " << begins[0] << begins[1] << begins[2] << ", ended in the order "
                                   << ends[0] << ends[1] << ends[2] << ", rolled back: " << rolled_back);
        REQUIRE(ours.delivered == committed);
        lost.by_seed += committed.size() - seed.delivered;
        lost.by_marks += committed.size() - by_marks.delivered;
      }
    }
  }
  return lost;
}

}  // namespace

TEST_CASE("events are delivered once and in order whatever the order of transactions, ids and commits") {
  const Lost lost = play_every_order(Before::written);
  CHECK(lost.by_seed > 0);
  CHECK(lost.by_marks == 0);
}

TEST_CASE("they are where the event is the first that its transaction writes") {
  const Lost lost = play_every_order(Before::nothing);
  CHECK(lost.by_seed > 0);
  CHECK(lost.by_marks > 0);
}
