// Replicas that die, freeze, or tell another time.
#include <cmath>
#include <csignal>
#include <stdexcept>
#include <thread>

#include "faults/faults.hpp"
#include "faults/world.hpp"
#include "support/engine.hpp"
#include "support/rows.hpp"

namespace ff::faults {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kBetweenKills = 300ms;
constexpr PartitionKey kFrozenPartition{5};
constexpr const char* kFrozenWorker = "frozen";
constexpr Milliseconds kLocksGone = 15s;

// What takes this lease is held up in the middle of it.
constexpr const char* kSlow = R"sql(
CREATE OR REPLACE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_catalog.pg_sleep(1); RETURN new; END $$;
CREATE OR REPLACE TRIGGER slow BEFORE UPDATE ON ff_attempt FOR EACH ROW WHEN (old.worker_id = 'frozen')
  EXECUTE FUNCTION public.slow())sql";

constexpr const char* kIsSlow =
    "SELECT count(*) FROM pg_trigger WHERE tgname = 'slow' AND tgrelid = 'ff_attempt'::regclass";

constexpr const char* kInMidAct =
    "SELECT right(application_name, 1)::integer FROM pg_stat_activity"
    " WHERE wait_event = 'PgSleep' AND application_name LIKE 'replica-%'";

Uuid insert_lapsed(pg::Connection& db) {
  const Uuid id = test::insert_core(db, {.partition = kFrozenPartition, .policy = test::max_retries(3)});
  const std::int64_t now = test::now_ms(db);
  test::insert(db, "ff_lease_event",
               {{"execution_id", to_string(id)},
                {"event_type", "acquired"},
                {"occurred_at_ms", now - 1000},
                {"partition_key", kFrozenPartition.value}});
  test::insert_attempt(db, {.partition = kFrozenPartition,
                            .execution = id,
                            .worker_id = kFrozenWorker,
                            .lease_expires_at_ms = now - 1});
  return id;
}

// The others wait for the row no longer than the server waits for the one that is frozen.
Heal freeze(World& world) {
  auto db = world.connect();
  // Once: whoever waits for the lock that this takes has others wait behind it, workers among them.
  if (test::number(db, kIsSlow) == 0) db.execute_script(kSlow);
  const Uuid id = insert_lapsed(db);
  int victim = -1;
  if (!test::wait_until([&] {
        const pg::Result found = db.execute(kInMidAct);
        if (!found.empty()) victim = found[0].get<std::int32_t>(0);
        return victim >= 0;
      }))
    throw std::runtime_error("nobody takes the lease that was to be taken");
  const pid_t pid = world.replicas().process(victim).pid();
  ::kill(pid, SIGSTOP);
  const SteadyTime frozen = Clock::system().now();
  const bool free = test::wait_until([&] {
    return test::number(db,
                        "SELECT count(*) FROM ff_attempt WHERE partition_key = $1 AND execution_id = $2"
                        " AND lease_expires_at_ms IS NOT NULL",
                        pg::Params::of(kFrozenPartition, id)) == 0;
  });
  if (!free) world.complain("a row that a frozen replica had locked was never moved by the others");
  world.measured("its row moved by another", Clock::system().now() - frozen, kLocksGone);
  return [pid] { ::kill(pid, SIGCONT); };
}

Heal kill_one(World& world) {
  std::this_thread::sleep_for(Milliseconds{world.random(0, kBetweenKills.count())});
  world.replicas().kill(static_cast<int>(world.random(0, kReplicas - 1)));
  return [] {};
}

// Where the library is missing, the loader only warns.
void expect_off(Replicas& replicas, int replica) {
  constexpr double kHalfAnHour = 1800;
  const bool ticks = test::wait_until([&] { return replicas.last_success(replica) > 0; });
  const double now = static_cast<double>(count(Clock::system().wall())) / 1000;
  if (!ticks || std::abs(replicas.last_success(replica) - now) < kHalfAnHour)
    throw std::runtime_error("libfaketime has not moved the clock of a replica");
}

Heal set_clocks_off(World& world) {
  const char* const offsets[] = {"+1h", "-1h"};
  for (int replica = 0; replica < 2; ++replica) {
    world.replicas().stop(replica);
    world.replicas().start(replica, {{"LD_PRELOAD", "/usr/$LIB/faketime/libfaketimeMT.so.1"},
                                     {"FAKETIME", offsets[replica]},
                                     {"FAKETIME_DONT_FAKE_MONOTONIC", "1"}});
  }
  world.replicas().wait_until_ready();
  for (int replica = 0; replica < 2; ++replica) expect_off(world.replicas(), replica);
  std::this_thread::sleep_for(world.length(20s, 5s));
  return [&world] {
    for (int replica = 0; replica < 2; ++replica) {
      world.replicas().stop(replica);
      world.replicas().start(replica);
    }
  };
}

}  // namespace

Fault kills() {
  return {.name = "kill",
          .what = "kill -9 of a random replica at a random moment, and another in its place",
          .repetitions = 200,
          .in_short = 10,
          .wanted = 10s,
          .inject = kill_one};
}

Fault frozen_replica() {
  return {.name = "frozen",
          .what = "SIGSTOP of a replica in the middle of an act, until another has moved its row",
          .repetitions = 10,
          .in_short = 1,
          .wanted = 10s,
          .inject = freeze};
}

Fault clocks_off() {
  return {.name = "clocks",
          .what = "the clock of one replica an hour ahead, that of another an hour behind (libfaketime)",
          .repetitions = 1,
          .in_short = 0,
          .wanted = 10s,
          .inject = set_clocks_off};
}

}  // namespace ff::faults
