// A server that stands still and goes on: nobody was told, the workers' renewals hung in it as our statements did,
// and every lease is lapsed when it goes on.
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "migrate/migrate.hpp"
#include "sandbox/private_server.hpp"
#include "sandbox/worker.hpp"
#include "support/database.hpp"
#include "support/engine.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;
using sandbox::PrivateServer;

namespace {

constexpr int kWorkers = 8;
constexpr Milliseconds kLease = 6s;

/// All processes of a server, stopped in the middle of whatever they do for as long as this lives. Those of `last`
/// go on a second after the others: somebody always comes last.
class Standstill {
 public:
  Standstill(PrivateServer& server, std::set<pid_t> last)
      : postmaster_(server.pid().value()), last_(std::move(last)) {
    ::kill(postmaster_, SIGSTOP);  // first: it starts no further ones
    std::ifstream list("/proc/" + std::to_string(postmaster_) + "/task/" + std::to_string(postmaster_) +
                       "/children");
    for (pid_t child; list >> child;) children_.push_back(child);
    REQUIRE(!children_.empty());
    for (const pid_t child : children_) ::kill(child, SIGSTOP);
  }
  ~Standstill() {
    ::kill(postmaster_, SIGCONT);
    for (const pid_t child : children_)
      if (!last_.contains(child)) ::kill(child, SIGCONT);
    std::this_thread::sleep_for(1s);
    for (const pid_t child : last_) ::kill(child, SIGCONT);
  }
  Standstill(const Standstill&) = delete;
  Standstill& operator=(const Standstill&) = delete;

 private:
  const pid_t postmaster_;
  const std::set<pid_t> last_;
  std::vector<pid_t> children_;
};

// Those that take leases, and the others as well or not.
std::string config(bool all) {
  std::string text = "partitions: 0-3\nrecovery_grace: 6s\nreconcilers:\n";
  for (const auto& reconciler : reconcile::registry())
    text += "  " + std::string(reconciler.name) +
            ": {enabled: " + (all || reconciler.takes_leases ? "true" : "false") + ", interval: 20ms}\n";
  return text;
}

pg::Connection connect(const PrivateServer& server) {
  return pg::Connector({.conninfo = server.conninfo("flow"), .application_name = "ff-test"})
      .connect(Clock::system().now() + 10s);
}

std::set<pid_t> sessions_of_workers(pg::Connection& db) {
  std::set<pid_t> pids;
  for (const pg::Row row : db.execute("SELECT pid FROM pg_stat_activity"
                                      " WHERE application_name = 'ff-test' AND pid <> pg_backend_pid()"))
    pids.insert(row.get<std::int32_t>(0));
  return pids;
}

/// Workers that renew their leases ten times as often as they must, each until it is refused, because somebody took
/// its lease.
class Workers {
 public:
  explicit Workers(const PrivateServer& server) {
    for (int i = 0; i < kWorkers; ++i)
      threads_.emplace_back([this, &server, i](const std::stop_token& stop) { work(server, i, stop); });
  }
  void stop() { threads_.clear(); }
  int holding() const { return holding_; }
  int refused() const { return refused_; }

 private:
  // The server gives up on transactions that were silent for long: then over another connection.
  void work(const PrivateServer& server, int number, const std::stop_token& stop) {
    std::optional<sandbox::Claim> claim;
    for (bool held = true; held && !stop.stop_requested();) {
      try {
        auto db = connect(server);
        sandbox::Worker worker(db, "w" + std::to_string(number), kLease);
        held = hold(worker, claim, stop);
      } catch (const pg::Error& error) {
        if (!error.connection_lost()) throw;
      }
    }
  }

  bool hold(sandbox::Worker& worker, std::optional<sandbox::Claim>& claim, const std::stop_token& stop) {
    if (!claim && (claim = worker.claim({{2}}))) ++holding_;
    while (claim && !stop.stop_requested()) {
      if (!worker.renew(*claim)) {
        ++refused_;
        return false;
      }
      std::this_thread::sleep_for(kLease / 10);
    }
    return true;
  }

  std::atomic<int> holding_ = 0;
  std::atomic<int> refused_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace

TEST_CASE("no lease that lapsed while the server stood still is taken before its worker could renew it") {
  PrivateServer server;
  server.create_database("flow");
  auto db = connect(server);
  migrate::up(db, Database::kFanOut);
  sandbox::create(db, {}, {{2}}, kWorkers);
  RunningDaemon daemon({.conninfo = server.conninfo("flow"), .config = config(true)});
  // Where a new connection had to be made, its failure would tell: so there are more than will be needed at a time.
  REQUIRE(wait_until([&] {
    return daemon.state() == "ready" && daemon.metric(R"(ff_reconciler_db_connections{state="idle"})") >= 4;
  }));
  daemon.rewrite_config(config(false));
  daemon.process().signal(SIGHUP);
  REQUIRE(wait_until([&] { return daemon.process().err_has("configuration reloaded"); }));

  Workers workers(server);
  REQUIRE(wait_until([&] { return workers.holding() == kWorkers; }));
  {
    const Standstill standstill(server, sessions_of_workers(db));
    std::this_thread::sleep_for(10s);
    CHECK(daemon.get("/livez").status == 200);
  }
  // Everybody is heard of again, or refused; then the daemon may take leases again.
  const std::int64_t thawed = now_ms(db);
  REQUIRE(wait_until([&] {
    return number(db, "SELECT count(*) FROM ff_attempt WHERE lease_expires_at_ms > $1",
                  pg::Params::of(thawed)) +
               workers.refused() ==
           kWorkers;
  }));
  REQUIRE(wait_until([&] { return daemon.state() == "ready"; }));
  CHECK(workers.refused() == 0);
  CHECK(number(db, "SELECT count(*) FROM ff_lease_event WHERE event_type IN ('expired', 'reclaimed')") == 0);

  workers.stop();  // from here on nobody renews
  CHECK(wait_until(
      [&] { return number(db, "SELECT count(*) FROM ff_exec_core WHERE lifecycle_phase = 'active'") == 0; }));
  CHECK(daemon.stop() == 0);
}
