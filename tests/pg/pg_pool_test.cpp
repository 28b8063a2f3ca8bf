// At most so many connections, shared by whoever asks.
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "pg/pool.hpp"
#include "pg/transaction.hpp"
#include "support/database.hpp"
#include "support/engine.hpp"
#include "support/log_capture.hpp"
#include "support/no_descriptors.hpp"

using namespace ff;
using pg::Pool;
using test::Database;
using namespace std::chrono_literals;

namespace {

std::int32_t pid_of(pg::PooledConnection& connection) {
  return connection->execute("SELECT pg_backend_pid()").one().get<std::int32_t>(0);
}

/// The session that the pool hands out next.
std::int32_t next_pid(Pool& pool) {
  auto connection = pool.acquire();
  return pid_of(connection);
}

SteadyTime in(Milliseconds time) {
  return Clock::system().now() + time;
}

void await_waiting(const Pool& pool, int waiting) {
  while (pool.state().waiting != waiting) std::this_thread::yield();
}

/// A database, and a role that may have so many sessions there. It goes with it.
struct Limited {
  explicit Limited(int sessions) {
    db.execute("CREATE ROLE limited LOGIN CONNECTION LIMIT " + std::to_string(sessions));
  }
  ~Limited() { db.execute("DROP ROLE limited"); }

  const Database database;
  pg::Connection db = database.connect();
  const pg::Connector connector{test::options_for(database.conninfo() + " user=limited")};
};

struct Counts : pg::PoolObserver {
  void waited(std::chrono::duration<double>) override { ++waits; }
  void acquire_timed_out() override { ++timeouts; }
  void connected(const pg::Error* failure) override { ++(failure == nullptr ? made : failed); }
  void server_in_doubt() override { ++doubts; }
  std::atomic<int> doubts = 0;
  std::atomic<int> waits = 0;
  std::atomic<int> timeouts = 0;
  std::atomic<int> made = 0;
  std::atomic<int> failed = 0;
};

}  // namespace

TEST_CASE("a pool makes connections when they are needed and hands them out again") {
  const Database database;
  Counts counts;
  Pool pool(database.connector(), 2, 5s, nullptr, &counts);
  CHECK(pool.state().size == 2);
  CHECK(pool.state().idle == 0);
  const auto first = next_pid(pool);
  CHECK(next_pid(pool) == first);
  CHECK(pool.state().idle == 1);
  {
    auto one = pool.acquire();
    auto other = pool.acquire();
    CHECK(pid_of(one) != pid_of(other));
    CHECK(pool.state().in_use == 2);
    CHECK(pool.state().idle == 0);
  }
  CHECK(pool.state().in_use == 0);
  CHECK(pool.state().idle == 2);
  CHECK(counts.made == 2);
  CHECK(counts.waits == 4);
}

TEST_CASE(
    "a user gets the connection that it had most often, if it is idle, and a new one that with the fewest "
    "users") {
  const Database database;
  Pool pool(database.connector(), 2, 5s);
  const auto pid_for = [&](const char* user) {
    auto connection = pool.acquire(user);
    return pid_of(connection);
  };
  std::int32_t first = 0;
  std::int32_t second = 0;
  {
    auto one = pool.acquire("a");
    auto other = pool.acquire("b");
    first = pid_of(one);
    second = pid_of(other);
  }
  for (int i = 0; i < 3; ++i) {
    CHECK(pid_for("a") == first);
    CHECK(pid_for("b") == second);
  }
  {
    // Its own is on loan: it takes the other, and goes back.
    const auto held = pool.acquire("a");
    CHECK(pid_for("a") == second);
  }
  CHECK(pid_for("a") == first);
  CHECK(pid_for("c") == first);
  CHECK(pid_for("c") == first);
}

TEST_CASE("a pool that is used up makes nobody wait beyond the deadline") {
  const Database database;
  Counts counts;
  Pool pool(database.connector(), 1, 5s, nullptr, &counts);
  const auto held = pool.acquire();
  try {
    pool.acquire(in(30ms));
    FAIL("there was another connection");
  } catch (const pg::Error& error) {
    CHECK(error.kind() == pg::Error::Kind::timeout);
    CHECK(error.error_class() == "timeout");
    CHECK_FALSE(error.connection_lost());
  }
  CHECK(counts.timeouts == 1);
  CHECK(pool.state().waiting == 0);
  CHECK(pool.state().in_use == 1);
}

TEST_CASE("who waits gets the connection that is given back") {
  const Database database;
  Pool pool(database.connector(), 1, 20s);
  std::optional<pg::PooledConnection> held(pool.acquire());
  const auto pid = pid_of(*held);
  std::int32_t got = 0;
  std::thread waiter([&] { got = next_pid(pool); });
  await_waiting(pool, 1);
  held.reset();
  waiter.join();
  CHECK(got == pid);
  CHECK(pool.state().waiting == 0);
}

TEST_CASE("who comes back for another connection at once does not pass those who wait") {
  const Database database;
  Pool pool(database.connector(), 1, 20s);
  std::optional<pg::PooledConnection> held(pool.acquire());
  std::atomic<int> served = 0;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back([&] {
      const auto connection = pool.acquire();
      ++served;
    });
    await_waiting(pool, i + 1);
  }
  held.reset();
  held.emplace(pool.acquire());
  CHECK(served == 3);
  for (auto& waiter : waiters) waiter.join();
}

TEST_CASE("where the server gives no further connection, one that is on loan is waited for") {
  const Limited limited(1);
  Counts counts;
  Pool pool(limited.connector, 3, 20s, nullptr, &counts);
  std::optional<pg::PooledConnection> held(pool.acquire());
  const auto pid = pid_of(*held);
  std::int32_t got = 0;
  std::thread waiter([&] { got = next_pid(pool); });
  while (counts.failed == 0) std::this_thread::yield();
  await_waiting(pool, 1);
  held.reset();
  waiter.join();
  CHECK(got == pid);
  CHECK(counts.failed == 1);
  CHECK(pool.state().in_use == 0);
}

TEST_CASE(
    "a wait for what the server does not give ends in time, says why, and asks no more than now and then") {
  const Limited limited(1);
  Counts counts;
  Pool pool(limited.connector, 3, 20s, nullptr, &counts);
  const auto held = pool.acquire();
  for (int i = 0; i < 3; ++i) {
    try {
      pool.acquire(in(i == 0 ? 1500ms : 100ms));
      FAIL("there was another connection");
    } catch (const pg::Error& error) {
      CHECK(error.kind() == pg::Error::Kind::timeout);
      CHECK(error.error_class() == "53");
      CHECK_THAT(error.what(), Catch::StartsWith("all 1 connections that the server gives are in use: ") &&
                                   Catch::Contains("too many connections"));
    }
  }
  CHECK(counts.failed == 1);
  CHECK(counts.timeouts == 3);
  CHECK(pool.state().in_use == 1);
  CHECK(pool.state().waiting == 0);
}

TEST_CASE("who waits for what the server does not give gets it once there is a place") {
  Limited limited(2);
  Counts counts;
  Pool pool(limited.connector, 3, 20s, nullptr, &counts);
  const auto kept = pool.acquire();
  std::optional<pg::PooledConnection> held(pool.acquire());
  std::thread waiter([&] { pool.acquire()->execute("SELECT 1"); });
  while (counts.failed == 0) std::this_thread::yield();
  await_waiting(pool, 1);
  SECTION("of one that was closed") {
    (*held)->close();
  }
  SECTION("that somebody has made") {
    limited.db.execute("ALTER ROLE limited CONNECTION LIMIT 3");
  }
  const bool is_given_back = (*held)->lost();
  if (is_given_back) held.reset();
  waiter.join();
  CHECK(counts.made == 3);
}

TEST_CASE("a server that gives no connection at all is not waited for") {
  const Limited limited(1);
  const auto other = limited.connector.connect(in(10s));
  Pool pool(limited.connector, 3, 60s);
  const auto before = Clock::system().now();
  try {
    pool.acquire();
    FAIL("there was a connection");
  } catch (const pg::Error& error) {
    CHECK(error.connection_lost());
    CHECK(error.too_many_connections());
  }
  CHECK(Clock::system().now() - before < 10s);
  CHECK(pool.state().in_use == 0);
}

TEST_CASE("a connection that broke, or was left inside a transaction, is not handed out again") {
  const Database database;
  auto admin = database.connect();
  Pool pool(database.connector(), 1, 5s);
  std::int32_t before = 0;
  SECTION("closed") {
    auto connection = pool.acquire();
    before = pid_of(connection);
    connection->close();
  }
  SECTION("inside a transaction") {
    auto connection = pool.acquire();
    before = pid_of(connection);
    connection->execute_script("BEGIN");
  }
  SECTION("broken while in use") {
    auto connection = pool.acquire();
    before = pid_of(connection);
    admin.execute("SELECT pg_terminate_backend($1, 5000)", pg::Params::of(before));
    CHECK_THROWS_AS(connection->execute("SELECT 1"), pg::Error);
  }
  CHECK(pool.state().idle == 0);
  CHECK(pool.state().in_use == 0);
  CHECK(next_pid(pool) != before);
}

TEST_CASE("sessions that the server has ended while they were idle are not handed out again") {
  const Database database;
  auto admin = database.connect();
  Counts counts;
  Pool pool(database.connector(), 3, 5s, nullptr, &counts);
  {
    const auto one = pool.acquire();
    const auto another = pool.acquire();
    const auto third = pool.acquire();
  }
  REQUIRE(pool.state().idle == 3);
  admin.execute(
      "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
      " WHERE datname = current_database() AND pid <> pg_backend_pid()");
  auto connection = pool.acquire();
  CHECK_NOTHROW(connection->execute("SELECT 1"));
  CHECK(pool.state().idle == 0);  // none of the three is kept
  CHECK(counts.made == 4);
  CHECK(counts.doubts == 1);
}

TEST_CASE("discard_all closes what is idle now and what is on loan as it comes back") {
  const Database database;
  Pool pool(database.connector(), 2, 5s);
  std::optional<pg::PooledConnection> lent(pool.acquire());
  const auto lent_pid = pid_of(*lent);
  const auto idle_pid = next_pid(pool);
  CHECK(pool.state().idle == 1);
  pool.discard_all();
  CHECK(pool.state().idle == 0);
  lent.reset();
  CHECK(pool.state().idle == 0);
  const auto next = next_pid(pool);
  CHECK(next != lent_pid);
  CHECK(next != idle_pid);
  CHECK(pool.state().idle == 1);
}

TEST_CASE("what was sent on connections that are abandoned is waited for no longer, and the pool goes on") {
  const Database database;
  Pool pool(database.connector(), 2, 5s);
  std::promise<void> begun;
  auto waited = std::async(std::launch::async, [&] {
    auto connection = pool.acquire();
    begun.set_value();
    try {
      connection->execute("SELECT pg_sleep(20)");
    } catch (const pg::Error& error) {
      return error.kind();
    }
    return pg::Error::Kind::internal;
  });
  begun.get_future().wait();
  pool.abandon_all();
  REQUIRE(waited.wait_for(5s) == std::future_status::ready);
  CHECK(waited.get() == pg::Error::Kind::connection);
  CHECK(pool.state().in_use == 0);
  CHECK_NOTHROW(pool.acquire()->execute("SELECT 1"));
  CHECK(pool.state().idle == 1);
}

TEST_CASE("that connections cannot be abandoned later is told once, until they can be again") {
  const pg::Connector nowhere({.conninfo = "host=/nonexistent"});
  Pool pool(nowhere, 1, 5s);
  const test::LogCapture log;
  for (std::size_t times = 1; times <= 2; ++times) {
    {
      const test::NoDescriptors none;
      for (int i = 0; i < 3; ++i) pool.abandon_all();
    }
    CHECK(log.lines().size() == times);
    pool.abandon_all();
    CHECK(log.lines().size() == times);
  }
  CHECK_THAT(log.lines().front(), Catch::Contains("will be waited for to the end: "));
}

TEST_CASE("an interrupt ends the wait for a connection") {
  const Database database;
  pg::Interrupt interrupt;
  Pool pool(database.connector(), 1, 60s, &interrupt);
  const auto held = pool.acquire();
  std::atomic<bool> interrupted = false;
  std::thread waiter([&] {
    try {
      pool.acquire();
    } catch (const pg::Error& error) {
      interrupted = error.interrupted();
    }
  });
  await_waiting(pool, 1);
  interrupt.raise();
  waiter.join();
  CHECK(interrupted);
  CHECK(pool.state().waiting == 0);
}

TEST_CASE("a connection that cannot be made leaves its place to the next") {
  const pg::Connector nowhere({.conninfo = "host=/nonexistent"});
  Counts counts;
  Pool pool(nowhere, 1, 5s, nullptr, &counts);
  for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(pool.acquire(), pg::Error);
  CHECK(counts.failed == 3);
  CHECK(pool.state().in_use == 0);
}

TEST_CASE("many threads share few connections without losing any") {
  const Database database;
  Counts counts;
  Pool pool(database.connector(), 3, 30s, nullptr, &counts);
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) {
        auto connection = pool.acquire();
        if (connection->execute("SELECT 1").size() == 1) ++done;
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(done == 400);
  CHECK(counts.made <= 3);
  CHECK(pool.state().in_use == 0);
  CHECK(pool.state().idle == counts.made);
}
