// A server that is another than before: which one is meant, and who may go on.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "database_probe.hpp"
#include "pg/server.hpp"
#include "support/database.hpp"
#include "support/log_capture.hpp"
#include "support/process.hpp"

using namespace ff;
using namespace std::chrono_literals;
using test::Database;

TEST_CASE(
    "a new session on another server than the one that is meant is given to whoever looks, and to nobody "
    "else") {
  const Database database;
  struct Counts : pg::PoolObserver {
    void connected(const pg::Error* failure) override { failed += failure != nullptr ? 1 : 0; }
    void server_in_doubt() override { ++doubts; }
    int failed = 0;
    int doubts = 0;
  } counts;
  pg::Pool pool(database.connector(), 3, 5s, nullptr, &counts);
  auto held = pool.acquire();
  const UnixMillis started = pg::server_info(*held).started_at;
  CHECK(held->server_started_at() == started);
  { const auto idle = pool.acquire(); }
  pool.keep_to(started + 1ms);
  const auto taken = pool.acquire();  // as it was made before
  { const auto first = pool.acquire_first(); }
  CHECK(pool.state().idle == 1);
  CHECK(counts.doubts == 0);
  pool.discard_all();

  CHECK_THROWS_WITH(pool.acquire(), Catch::EndsWith("is another server than the one that was checked last"));
  CHECK(counts.doubts == 1);
  CHECK(counts.failed == 1);
  CHECK(pool.state().in_use == 2);
  pool.keep_to(started);
  CHECK_NOTHROW(pool.acquire());
}

TEST_CASE("a check that meets another server names it, and tells those who listen to the one before") {
  testserver::PrivateServer one;
  testserver::PrivateServer other;  // started a second later
  const test::TemporaryDirectory directory;
  const auto host = directory.path() / "server";
  std::filesystem::create_directory_symlink(one.socket_directory(), host);
  const pg::Connector connector({.conninfo = one.conninfo() + " host=" + host.string()});
  pg::Pool pool(connector, 2, Milliseconds{5'000});
  int doubts = 0;
  std::vector<UnixMillis> met;
  daemon::DatabaseProbe probe{pool,
                              AllPartitions{},
                              [](const pg::Error&) {},
                              [&] { ++doubts; },
                              [](const Coverage&) {},
                              {},
                              [&](UnixMillis started_at) { met.push_back(started_at); }};
  probe();
  probe();
  REQUIRE(met.size() == 2);
  CHECK(met[0] == met[1]);
  CHECK(doubts == 0);

  // The one before lives and takes writes: only the pool's sessions end.
  std::filesystem::remove(host);
  std::filesystem::create_directory_symlink(other.socket_directory(), host);
  pg::Connector({.conninfo = one.conninfo()})
      .connect(Clock::system().now() + std::chrono::seconds(10))
      .execute(
          "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
          " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
  const test::LogCapture log;
  const auto seen = probe();
  CHECK(doubts == 1);
  REQUIRE(met.size() == 3);
  CHECK(met[2] != met[0]);
  CHECK_THAT(seen.server, Catch::StartsWith(host.string()));
  CHECK(std::ranges::any_of(log.lines(), [](const std::string& line) {
    return line.starts_with("warning the server is another than before");
  }));
  // Of the two this one is meant from now on.
  CHECK_NOTHROW(pool.acquire());
}
