// Connections that are ended, refused, or may not be made any more.
#include <fmt/format.h>

#include <thread>

#include "faults/faults.hpp"
#include "faults/world.hpp"

namespace ff::faults {
namespace {

using namespace std::chrono_literals;

Heal terminate(World& world) {
  auto db = world.connect();
  const SteadyTime end = Clock::system().now() + world.length(60s, 5s);
  while (Clock::system().now() < end) {
    db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1",
               pg::Params::of(std::string(kRole)));
    std::this_thread::sleep_for(50ms);
  }
  return [] {};
}

Heal limit_connections(World& world) {
  world.connect().execute(fmt::format("ALTER ROLE {} CONNECTION LIMIT 2", kRole));
  world.terminate_sessions();
  std::this_thread::sleep_for(world.length(15s, 3s));
  return [&world] { world.connect().execute(fmt::format("ALTER ROLE {} CONNECTION LIMIT -1", kRole)); };
}

Heal rotate_password(World& world) {
  constexpr const char* kNext = "the next one";
  world.connect().execute(fmt::format("ALTER ROLE {} PASSWORD '{}'", kRole, kNext));
  world.terminate_sessions();
  std::this_thread::sleep_for(world.length(15s, 3s));
  return [&world] { world.write_password(kNext); };
}

}  // namespace

Fault terminated_sessions() {
  return {.name = "terminated",
          .what = "all sessions of the daemons terminated every 50 ms, for a minute",
          .repetitions = 1,
          .in_short = 1,
          .wanted = 5s,
          .inject = terminate};
}

Fault connection_limit() {
  return {.name = "connection limit",
          .what = "two connections for three replicas, for 15 s",
          .repetitions = 1,
          .in_short = 1,
          .wanted = 10s,
          .inject = limit_connections};
}

Fault password_rotated() {
  return {.name = "password",
          .what = "another password on the server, and 15 s later in the file",
          .repetitions = 1,
          .in_short = 1,
          .wanted = 10s,
          .inject = rotate_password};
}

}  // namespace ff::faults
