// How the daemon ends when a statement is under way: in its own time, by the clock, or at once.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <thread>
#include <vector>

#include "demo/simulation/audit.hpp"
#include "pg/transaction.hpp"
#include "support/database.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

std::string config(const std::string& grace) {
  return "partitions: 0-3\nrecovery_grace: 0s\nreconcilers:\n  lease_expiry: {enabled: false}\n"
         "  attempt_timeout: {interval: 50ms}\nshutdown: {grace: " +
         grace + "}\n";
}

/// A lapsed lease, told of as the workers do.
Uuid insert_due(pg::Connection& db) {
  const Uuid id = insert_core(db, {.partition = {1}, .policy = max_retries(3)});
  insert_attempt(db, {.partition = {1}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
  insert(db, "ff_lease_event",
         {{"execution_id", to_string(id)},
          {"event_type", "acquired"},
          {"occurred_at_ms", 1},
          {"partition_key", 1}});
  return id;
}

/// Until a session of the daemon waits as `condition` on pg_stat_activity says.
bool daemon_waits(pg::Connection& db, const std::string& condition) {
  return wait_until([&] {
    return db.execute(
                 "SELECT 1 FROM pg_stat_activity WHERE application_name ^@ 'ff-reconcilerd ' AND state = "
                 "'active' "
                 "AND datname = current_database() AND " +
                 condition)
               .size() > 0;
  });
}

/// What moves a row takes `length` from now on.
void slow_down(pg::Connection& db, const std::string& length) {
  db.execute_script(
      "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(" + length +
      "); RETURN new; END $$; CREATE TRIGGER slow BEFORE UPDATE ON ff_attempt FOR EACH ROW EXECUTE "
      "FUNCTION slow()");
}

constexpr const char* kSleeps = "wait_event = 'PgSleep'";

}  // namespace

TEST_CASE("a batch under way is finished within the grace") {
  Database database;
  auto db = database.connect();
  const Uuid id = insert_due(db);
  slow_down(db, "2");
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = config("20s")});
  REQUIRE(daemon_waits(db, kSleeps));
  CHECK(daemon.stop() == 0);
  CHECK(core(db, id)["public_state"] == "waiting");
  CHECK_FALSE(daemon.process().err_has("did not finish"));
  CHECK(simulation::audit(db).empty());
}

TEST_CASE("a batch that outlasts the grace is cancelled and rolled back") {
  Database database;
  auto db = database.connect();
  insert_due(db);
  slow_down(db, "25");
  const auto before = snapshot(db);
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = config("500ms")});
  REQUIRE(daemon_waits(db, kSleeps));

  const SteadyTime asked = Clock::system().now();
  CHECK(daemon.stop() == 0);
  CHECK(Clock::system().now() - asked < 15s);
  CHECK(daemon.process().err_has("attempt_timeout did not finish within 0.5 s"));
  CHECK(wait_until([&] {
    return db
        .execute(
            "SELECT 1 FROM pg_stat_activity WHERE application_name ^@ 'ff-reconcilerd ' "
            "AND datname = current_database()")
        .empty();
  }));
  CHECK(diff(before, snapshot(db)).empty());
}

namespace {

/// From now on `process` gets no memory for the stack of another thread.
void leave_no_thread(pid_t process) {
  std::ifstream statm("/proc/" + std::to_string(process) + "/statm");
  rlim_t pages = 0;
  REQUIRE(statm >> pages);
  constexpr rlim_t kLess = 4U << 20U;  // than a stack takes
  const rlimit limit{pages * static_cast<rlim_t>(::getpagesize()) + kLess, RLIM_INFINITY};
  REQUIRE(::prlimit(process, RLIMIT_AS, &limit, nullptr) == 0);
}

}  // namespace

TEST_CASE("a daemon that gets no further thread ends as tidily, and as soon") {
  Database database;
  auto db = database.connect();
  insert_due(db);
  slow_down(db, "25");
  const auto before = snapshot(db);
  // Helpers that have ended would leave their stacks to the next thread.
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = config("500ms") + "helpers: 0\n"});
  REQUIRE(daemon_waits(db, kSleeps));
  leave_no_thread(daemon.process().pid());

  const SteadyTime asked = Clock::system().now();
  CHECK(daemon.stop() == 0);
  CHECK(Clock::system().now() - asked < 5500ms);
  CHECK(daemon.process().err_has("stopping on signal"));
  CHECK(diff(before, snapshot(db)).empty());
}

TEST_CASE("while it finishes the daemon is alive but not ready") {
  Database database;
  auto db = database.connect();
  insert_due(db);
  slow_down(db, "25");
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = config("60s")});
  REQUIRE(daemon_waits(db, kSleeps));
  daemon.process().signal(SIGTERM);
  CHECK(wait_until([&] { return daemon.state() == "stopping"; }));
  CHECK(daemon.get("/readyz").status == 503);
  CHECK(daemon.get("/livez").status == 200);
}

TEST_CASE("a second signal ends the daemon at once and leaves nothing half done") {
  Database database;
  auto db = database.connect();
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = config("60s")});
  REQUIRE(wait_until([&] { return daemon.state() == "ready"; }));
  const auto before = snapshot(db);
  auto other = database.connect();
  pg::Transaction blocker(other);
  blocker.execute("LOCK TABLE ff_attempt IN ACCESS EXCLUSIVE MODE");
  REQUIRE(daemon_waits(db, "wait_event_type = 'Lock'"));

  daemon.process().signal(SIGTERM);
  REQUIRE(wait_until([&] { return daemon.process().err_has("stopping on signal"); }));
  // The second signal counts once the first one has been taken; it is repeated, as somebody in a hurry would.
  const SteadyTime asked = Clock::system().now();
  REQUIRE(wait_until([&] {
    daemon.process().signal(SIGTERM);
    return !daemon.process().running();
  }));
  CHECK(Clock::system().now() - asked < 4s);
  CHECK(daemon.process().wait().value() == 128 + SIGTERM);
  blocker.rollback();
  CHECK(diff(before, snapshot(db)).empty());
}

TEST_CASE("a check of the database that hangs does not keep the daemon from stopping") {
  Database database;
  auto db = database.connect();
  auto other = database.connect();
  pg::Transaction blocker(other);
  blocker.execute("LOCK TABLE ff_attempt IN ACCESS EXCLUSIVE MODE");
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = config("60s")});
  REQUIRE(daemon_waits(db, "wait_event_type = 'Lock'"));
  const SteadyTime asked = Clock::system().now();
  CHECK(daemon.stop().value() == 0);
  CHECK(Clock::system().now() - asked < 4s);
  CHECK_FALSE(daemon.process().err_has("interrupted"));
}

namespace {

/// Takes whoever connects for a client that wants TLS, says yes, and nothing more.
class YesToTls {
 public:
  ~YesToTls() {
    io_.stop();
    thread_.join();
  }
  unsigned short port() const { return acceptor_.local_endpoint().port(); }

 private:
  using Tcp = boost::asio::ip::tcp;
  void accept() {
    acceptor_.async_accept([this](const boost::system::error_code& error, Tcp::socket client) {
      if (error) return;
      boost::system::error_code gone;
      std::array<char, 8> request{};
      boost::asio::read(client, boost::asio::buffer(request), gone);
      boost::asio::write(client, boost::asio::buffer("S", 1), gone);
      clients_.push_back(std::move(client));
      accept();
    });
  }

  boost::asio::io_context io_;
  Tcp::acceptor acceptor_{io_, {boost::asio::ip::address_v4::loopback(), 0}};
  std::vector<Tcp::socket> clients_;
  std::thread thread_{[this] {
    accept();
    io_.run();
  }};
};

}  // namespace

TEST_CASE("what libpq reads for ever keeps nobody waiting who asks the daemon to stop") {
  YesToTls server;
  const TemporaryDirectory home;
  std::filesystem::create_directory(home.path() / ".postgresql");
  // libpq's own default, which no setting names.
  const std::filesystem::path pipe = home.path() / ".postgresql" / "root.crt";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  RunningDaemon daemon(
      {.conninfo = "host=127.0.0.1 sslmode=verify-ca dbname=d user=u port=" + std::to_string(server.port()),
       .config = config("100ms"),
       .environment = {{"HOME", home.path().string()}}});
  // Only beside a reader there can be a writer, which writes nothing.
  int writer = -1;
  REQUIRE(wait_until([&] { return (writer = ::open(pipe.c_str(), O_WRONLY | O_NONBLOCK)) >= 0; }));
  const auto began = std::chrono::steady_clock::now();
  CHECK(daemon.stop() == 70);
  const auto took = std::chrono::steady_clock::now() - began;
  ::close(writer);
  CHECK(took > 4s);
  CHECK(took < 7s);
  CHECK(daemon.process().err_has("not stopped within 5.1 s"));
}
