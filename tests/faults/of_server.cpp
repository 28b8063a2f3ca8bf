// A server that crashes, stands still, or has no room.
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include "demo/simulation/outage.hpp"
#include "faults/faults.hpp"
#include "faults/world.hpp"
#include "support/rows.hpp"
#include "support/standstill.hpp"

namespace ff::faults {
namespace {

using namespace std::chrono_literals;
using testserver::PrivateServer;

// What it takes to come up is the server's business.
Heal restart(World& world) {
  world.server().restart(PrivateServer::Stop::immediate);
  return [] {};
}

bool accepts_connections(const World& world) {
  try {
    world.connect();
    return true;
  } catch (const pg::Error& error) {
    if (!simulation::is_an_outage(error)) throw;
    return false;
  }
}

Heal kill_session(World& world) {
  auto db = world.connect();
  std::optional<pid_t> session;
  const bool found = test::wait_until([&] {
    const pg::Result sessions = db.execute(
        "SELECT pid FROM pg_stat_activity WHERE usename = $1 ORDER BY state = 'active' DESC, random() LIMIT "
        "1",
        pg::Params::of(std::string(kRole)));
    if (!sessions.empty()) session = sessions[0].get<std::int32_t>(0);
    return session.has_value();
  });
  if (!found) throw std::runtime_error("the daemons have no session");
  ::kill(*session, SIGKILL);
  return [&world] {
    if (!test::wait_until([&] { return accepts_connections(world); }))
      throw std::runtime_error("the server does not recover");
  };
}

// Sessions may die under libfaketime, which is not made for their signal handlers: then the server ends all, and recovers.
void set_clock(World& world, const std::string& offset, const std::function<bool(std::int64_t)>& is_right) {
  world.set_server_clock(offset);
  const auto moved = [&] {
    try {
      auto db = world.connect();
      return is_right(test::now_ms(db));
    } catch (const pg::Error& error) {
      if (!simulation::is_an_outage(error)) throw;
      return false;
    }
  };
  if (!test::wait_until(moved)) throw std::runtime_error("libfaketime does not move the clock of the server");
}

// By the later clock all leases lapsed an hour ago.
Heal set_clock_back_and_forward(World& world) {
  auto db = world.connect();
  const std::int64_t before = test::now_ms(db);
  set_clock(world, "-1h", [&](std::int64_t now) { return now < before; });
  std::this_thread::sleep_for(10s);
  set_clock(world, "+0", [&](std::int64_t now) { return now > before; });
  std::this_thread::sleep_for(15s);
  return [] {};
}

Heal stand_still(World& world) {
  auto standstill =
      std::make_shared<std::unique_ptr<test::Standstill>>(std::make_unique<test::Standstill>(world.server()));
  std::this_thread::sleep_for(10s);
  const int victim = static_cast<int>(world.random(0, kReplicas - 1));
  world.measured("SIGTERM in mid-fault to the end", world.replicas().stop(victim), kShutdownLimit);
  return [&world, standstill, victim] {
    standstill->reset();
    world.replicas().start(victim);
  };
}

}  // namespace

Fault immediate_restart() {
  return {.name = "restart",
          .what = "immediate restart of the server, which recovers from its log",
          .repetitions = 30,
          .in_short = 3,
          .wanted = 2s,
          .inject = restart};
}

Fault killed_session() {
  return {.name = "killed session",
          .what = "kill -9 of a session's process, upon which the server ends all and recovers",
          .repetitions = 10,
          .in_short = 0,
          .wanted = 2s,
          .inject = kill_session};
}

Fault standstill() {
  return {.name = "standstill",
          .what = "SIGSTOP of all processes of the server, for 10 s and the end of a replica",
          .repetitions = 10,
          .in_short = 0,  // standstill_test does it in CI
          .wanted = 10s,
          .inject = stand_still};
}

Fault clock_set() {
  return {.name = "clock set",
          .what = "the clock of the server set back by an hour, and after 10 s forward again (libfaketime)",
          .repetitions = 1,
          .in_short = 0,
          .wanted = 10s,
          .inject = set_clock_back_and_forward};
}

}  // namespace ff::faults
