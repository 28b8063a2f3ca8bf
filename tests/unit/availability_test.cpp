#include "supervisor/availability.hpp"

#include <catch2/catch.hpp>

using namespace ff;
using namespace ff::supervisor;
using namespace std::chrono_literals;
using Found = Observation::Found;

namespace {

constexpr SteadyTime kNow = SteadyTime{} + std::chrono::hours{1000};
constexpr Milliseconds kGrace = 15s;
constexpr UnixMillis kServer = unix_millis(1'700'000'000'000);

Observation writable(Milliseconds uptime, UnixMillis started_at = kServer) {
  Observation seen;
  seen.found = Found::writable;
  seen.server_started_at = started_at;
  seen.server_uptime = uptime;
  return seen;
}

Observation bad(Found found, const std::string& reason = "why") {
  Observation seen;
  seen.found = found;
  seen.reason = reason;
  return seen;
}

Observation locked(const std::string& table, bool all) {
  Observation seen = writable(1h);
  seen.locked = table;
  seen.all_locked = all;
  return seen;
}

/// Everything a caller can ask, at one moment.
struct Answers {
  State state;
  bool may_run;
  bool may_take_leases;
  bool operator==(const Answers&) const = default;
};
Answers ask(const Availability& availability, SteadyTime now) {
  return {availability.state(now), availability.may_run(), availability.may_take_leases(now)};
}
constexpr Answers kReady{State::ready, true, true};
constexpr Answers kRecovering{State::recovering, true, false};

}  // namespace

namespace Catch {
template <>
struct StringMaker<Answers> {
  static std::string convert(const Answers& a) {
    return std::string(name(a.state)) + (a.may_run ? ", may run" : "") +
           (a.may_take_leases ? ", may take leases" : "");
  }
};
}  // namespace Catch

TEST_CASE("before the first check nothing may run") {
  const Availability availability(kGrace);
  CHECK(ask(availability, kNow) == Answers{State::starting, false, false});
}

TEST_CASE("a server that has been up for long is trusted at once") {
  Availability availability(kGrace);
  availability.observe(writable(1h), kNow);
  CHECK(ask(availability, kNow) == kReady);
}

TEST_CASE("a server that has just started gets the rest of the recovery grace") {
  Availability availability(kGrace);
  availability.observe(writable(5s), kNow);
  CHECK(ask(availability, kNow) == kRecovering);
  availability.observe(writable(10s), kNow + 5s);
  CHECK(ask(availability, kNow + 9'999ms) == kRecovering);
  CHECK(ask(availability, kNow + 10s) == kReady);
}

TEST_CASE("recovering ends when the last server that was started is old enough") {
  Availability availability(kGrace);
  CHECK_FALSE(availability.recovering_until());
  availability.observe(writable(5s), kNow);
  CHECK(availability.recovering_until() == kNow + kGrace - 5s);
  availability.observe(writable(1s, kServer + 7s), kNow + 8s);
  CHECK(availability.recovering_until() == kNow + kGrace + 8s);
  availability.observe(bad(Found::unreachable), kNow + 9s);
  CHECK_FALSE(availability.recovering_until());
  availability.observe(writable(1h), kNow + 60s);
  CHECK(availability.recovering_until() == kNow + 60s + kGrace);
  availability.observe(writable(1h), kNow + 60s + kGrace);
  CHECK_FALSE(availability.recovering_until());
}

TEST_CASE("after an outage the recovery grace starts when the server is seen again") {
  Availability availability(kGrace);
  availability.observe(writable(1h), kNow);
  availability.observe(bad(GENERATE(Found::unreachable, Found::read_only)), kNow + 10s);
  CHECK_FALSE(availability.may_run());
  availability.observe(writable(1h), kNow + 60s);
  CHECK(ask(availability, kNow + 60s) == kRecovering);
  availability.observe(writable(1h), kNow + 70s);
  CHECK(ask(availability, kNow + 75s - 1ms) == kRecovering);
  CHECK(ask(availability, kNow + 75s) == kReady);
}

TEST_CASE("an outage at the start of the daemon counts as well") {
  Availability availability(kGrace);
  availability.observe(bad(Found::unreachable), kNow);
  CHECK(ask(availability, kNow) == Answers{State::unreachable, false, false});
  availability.observe(writable(1h), kNow + 1s);
  CHECK(ask(availability, kNow + 1s) == kRecovering);
  availability.observe(writable(1h), kNow + 10s);
  CHECK(ask(availability, kNow + 16s) == kReady);
}

TEST_CASE("another server than before is an outage that nobody saw") {
  Availability availability(kGrace);
  availability.observe(writable(1h), kNow);
  availability.observe(writable(24h, kServer + 1ms), kNow + 10s);
  CHECK(ask(availability, kNow + 10s) == kRecovering);
  availability.observe(writable(24h, kServer + 1ms), kNow + 20s);
  CHECK(ask(availability, kNow + 25s) == kReady);
}

TEST_CASE("a server whose clock was set forward gives workers the recovery grace") {
  Availability availability(kGrace);
  availability.observe(writable(1h), kNow);
  Observation set = writable(2h);
  set.clock_was_set = true;
  availability.observe(set, kNow + 12s);
  CHECK(ask(availability, kNow + 12s) == kRecovering);
  availability.observe(writable(2h + 10s), kNow + 22s);
  CHECK(ask(availability, kNow + 27s - 1ms) == kRecovering);
  CHECK(ask(availability, kNow + 27s) == kReady);
}

TEST_CASE("a server whose clock was set back to before its start is trusted as before") {
  Availability availability(kGrace);
  availability.observe(writable(20s), kNow);
  availability.observe(writable(22s - 1h), kNow + 2s);
  CHECK(ask(availability, kNow + 2s) == kReady);
  Availability late(kGrace);
  late.observe(writable(-1h), kNow);
  CHECK(ask(late, kNow + kGrace - 1ms) == kRecovering);
  late.observe(writable(-1h + kGrace), kNow + kGrace);
  CHECK(ask(late, kNow + kGrace) == kReady);
}

TEST_CASE("the same server seen again changes nothing") {
  Availability availability(kGrace);
  availability.observe(writable(5s), kNow);
  availability.observe(writable(8s), kNow + 3s);
  CHECK(ask(availability, kNow + 9'999ms) == kRecovering);
  CHECK(ask(availability, kNow + 10s) == kReady);
  availability.observe(writable(20s), kNow + 15s);
  CHECK(ask(availability, kNow + 15s) == kReady);
}

TEST_CASE("a second outage during recovery starts the grace again") {
  Availability availability(kGrace);
  availability.observe(bad(Found::unreachable), kNow);
  availability.observe(writable(1h), kNow + 1s);
  availability.observe(bad(Found::unreachable), kNow + 5s);
  availability.observe(writable(1h), kNow + 10s);
  CHECK(ask(availability, kNow + 16s) == kRecovering);
  availability.observe(writable(1h), kNow + 20s);
  CHECK(ask(availability, kNow + 25s) == kReady);
}

TEST_CASE("without recovery grace leases are taken at once") {
  Availability availability(0ms);
  availability.observe(bad(Found::unreachable), kNow);
  availability.observe(writable(0ms, kServer + 5s), kNow + 1s);
  CHECK(ask(availability, kNow + 1s) == kReady);
}

TEST_CASE("an outdated schema stops everything, but it is no outage") {
  Availability availability(kGrace);
  auto outdated = writable(1h);
  outdated.found = Found::schema_outdated;
  outdated.reason = "ff_attempt is missing";
  availability.observe(outdated, kNow);
  CHECK(ask(availability, kNow) == Answers{State::schema_outdated, false, false});
  availability.observe(writable(1h), kNow + 30s);
  CHECK(ask(availability, kNow + 30s) == kReady);
}

TEST_CASE("a schema that was fit, was not and is again gives workers the recovery grace") {
  Availability availability(kGrace);
  availability.observe(writable(1h), kNow);
  Observation outdated = writable(1h);
  outdated.found = Found::schema_outdated;
  availability.observe(outdated, kNow + 2s);
  availability.observe(outdated, kNow + 32s);
  availability.observe(writable(1h), kNow + 38s);
  CHECK(ask(availability, kNow + 38s) == kRecovering);
  CHECK(availability.why_recovering() == "the server had a schema that was not fit");
  availability.observe(writable(1h), kNow + 50s);
  CHECK(ask(availability, kNow + 53s - 1ms) == kRecovering);
  CHECK(ask(availability, kNow + 53s) == kReady);
}

TEST_CASE("who has met a locked table gives workers the recovery grace") {
  Availability availability(kGrace);
  availability.observe(writable(1h), kNow);
  availability.met_lock(kNow + 1s);
  CHECK(ask(availability, kNow + 1s) == kRecovering);
  CHECK(availability.why_recovering() == "a table was locked");
  availability.observe(writable(1h), kNow + 15s);
  CHECK(ask(availability, kNow + 16s - 1ms) == kRecovering);
  CHECK(ask(availability, kNow + 16s) == kReady);
}

TEST_CASE("however long a disk is full, workers get the recovery grace once there is room again") {
  Availability availability(kGrace);
  availability.observe(writable(1h), kNow);
  CHECK(availability.found_room(kNow));
  SteadyTime now = kNow;
  for (; now < kNow + 1h; now += 6s) {
    CHECK(availability.may_take_leases(now));
    availability.met_full_disk(now);
    CHECK_FALSE(availability.may_take_leases(now));
    CHECK(availability.next_check(now, 0) > now);
    availability.observe(writable(1h), now + 5s);
    CHECK(availability.state(now + 5s) == State::recovering);
    CHECK(availability.next_check(now + 5s, 0) > now + 5s);
  }
  CHECK(availability.why_recovering() == "the server has no room on its disk");
  CHECK_FALSE(availability.found_room(now));
  CHECK(availability.found_room(now));
  CHECK(availability.why_recovering() == "the server had no room on its disk");
  availability.observe(writable(1h), now + kGrace - 1ms);
  CHECK(ask(availability, now + kGrace - 1ms) == kRecovering);
  CHECK(ask(availability, now + kGrace) == kReady);
}

TEST_CASE("a crumb of room does not keep a disk from being full") {
  Availability availability(kGrace);
  availability.observe(writable(1h), kNow);
  CHECK(availability.met_full_disk(kNow));
  CHECK_FALSE(availability.met_full_disk(kNow + 1s));
  CHECK_FALSE(availability.found_room(kNow + 2s));
  CHECK(availability.met_full_disk(kNow + 2s + kGrace));
  const SteadyTime room = kNow + 3s + 2 * kGrace;
  CHECK_FALSE(availability.found_room(room));
  availability.observe(writable(1h), room + kGrace - 1ms);
  CHECK(ask(availability, room + kGrace - 1ms) == kRecovering);
}

TEST_CASE("where some rows find room and others do not, leases are held for four graces more at most") {
  Availability availability(kGrace);
  availability.observe(writable(1h), kNow);
  SteadyTime now = kNow;
  const auto meets = [&] {
    availability.observe(writable(1h), now);
    availability.met_full_disk(now);
    return !availability.found_room(now);
  };
  for (; now <= kNow + 4 * kGrace; now += 10s) CHECK(meets());
  for (now = kNow + 5 * kGrace + 10s; now < kNow + 1h; now += 10s) {
    CHECK_FALSE(meets());
    CHECK(ask(availability, now) == kReady);
  }
  // Once there has been none for as long, one counts again.
  now += 4 * kGrace;
  CHECK(meets());
}

TEST_CASE("a disk of which nobody has heard for four graces is taken for one with room") {
  Availability availability(kGrace);
  availability.observe(writable(1h), kNow);
  availability.met_full_disk(kNow);
  availability.observe(writable(1h), kNow + 4 * kGrace);
  CHECK(availability.state(kNow + 4 * kGrace) == State::recovering);
  CHECK(ask(availability, kNow + 4 * kGrace + 1ms) == kReady);
  CHECK(availability.found_room(kNow + 4 * kGrace + 1ms));
}

TEST_CASE("another server has a disk of its own") {
  Availability availability(kGrace);
  availability.observe(writable(1h), kNow);
  availability.met_full_disk(kNow);
  Observation another = writable(1h);
  another.server_started_at = *another.server_started_at + 1h;
  availability.observe(another, kNow + 1s);
  CHECK(availability.found_room(kNow + 2s));
}

TEST_CASE("the recovery grace after a lock begins with the first check that finds it gone") {
  Availability availability(kGrace);
  availability.observe(writable(1h), kNow);
  availability.met_lock(kNow + 1s);
  const bool all = GENERATE(false, true);
  for (SteadyTime now = kNow + 1s; now < kNow + 14s; now += 2s) {
    availability.observe(locked("ff_attempt", all), now);
    CHECK(ask(availability, now) == kRecovering);
  }
  CHECK(availability.why_recovering() == "ff_attempt was locked");
  availability.observe(writable(1h), kNow + 15s);
  availability.observe(writable(1h), kNow + 29s);
  CHECK(ask(availability, kNow + 30s - 1ms) == kRecovering);
  CHECK(availability.why_recovering() == "ff_attempt was locked");
  CHECK(ask(availability, kNow + 30s) == kReady);
}

TEST_CASE("a hash child that is locked for ever, or again and again, holds leases for four graces at most") {
  Availability availability(kGrace);
  availability.observe(writable(1h), kNow);
  const bool for_ever = GENERATE(true, false);
  const auto seen = [&](SteadyTime now) {
    availability.met_lock(now);
    availability.observe(for_ever ? locked("ff_attempt", false) : writable(1h), now);
    return ask(availability, now);
  };
  const Milliseconds each = for_ever ? 2s : 10s;
  SteadyTime now = kNow;
  for (; now < kNow + 4 * kGrace; now += each) CHECK(seen(now) == kRecovering);
  for (; now < kNow + 1h; now += each) CHECK(seen(now) == kReady);
  // Once it has been quiet for as long, a lock counts again.
  for (const SteadyTime last = now; now <= last + 4 * kGrace; now += 2s)
    availability.observe(writable(1h), now);
  CHECK(seen(now) == kRecovering);
}

TEST_CASE("however long all of a table is locked, afterwards workers get the recovery grace") {
  Availability availability(kGrace);
  availability.observe(writable(1h), kNow);
  SteadyTime now = kNow;
  for (; now < kNow + 1h; now += 2s) {
    availability.observe(locked("ff_exec_core", true), now);
    CHECK(ask(availability, now) == kRecovering);
  }
  availability.observe(writable(1h), now);
  availability.observe(writable(1h), now + kGrace - 1ms);
  CHECK(ask(availability, now + kGrace - 1ms) == kRecovering);
  CHECK(ask(availability, now + kGrace) == kReady);
}

TEST_CASE("a server that takes no writes is told from one that is away") {
  Availability availability(kGrace);
  availability.observe(bad(Found::read_only, "a standby"), kNow);
  CHECK(ask(availability, kNow) == Answers{State::read_only, false, false});
}

TEST_CASE("leases are taken only as long as the last good check is recent") {
  Availability availability(kGrace);
  availability.observe(writable(1h), kNow);
  CHECK(ask(availability, kNow + Availability::kRecent) == kReady);
  const SteadyTime late = kNow + Availability::kRecent + 1ms;
  CHECK(ask(availability, late) == Answers{State::ready, true, false});
  CHECK_FALSE(availability.is_recent(late));
  availability.observe(writable(1h), late);
  CHECK(ask(availability, late) == kReady);
}

TEST_CASE("while all is well the next check is two seconds away") {
  Availability availability(kGrace);
  availability.observe(writable(1h), kNow);
  CHECK(availability.next_check(kNow, 0.0) == kNow + 2s);
  CHECK(availability.next_check(kNow, 1.0) == kNow + 2s);
}

TEST_CASE("the end of the recovery grace is looked at, not slept through") {
  Availability availability(kGrace);
  availability.observe(writable(14s), kNow);
  CHECK(availability.next_check(kNow, 1.0) == kNow + 1s);
  availability.observe(writable(14'400ms), kNow + 400ms);
  CHECK(availability.next_check(kNow + 400ms, 1.0) == kNow + 1s);
}

TEST_CASE("an outdated schema is checked again every half minute") {
  Availability availability(kGrace);
  availability.observe(bad(Found::schema_outdated), kNow);
  CHECK(availability.next_check(kNow, 0.5) == kNow + 30s);
}

TEST_CASE("an absent server is looked for every second in the end, and again soon after it was there") {
  Availability availability(kGrace);
  const auto pauses = [&](bool refused = false) {
    Observation seen = bad(Found::unreachable);
    seen.authentication = refused;
    availability.observe(seen, kNow);
    return availability.next_check(kNow, 1.0) - kNow;
  };
  CHECK(pauses() == 500ms);
  CHECK(pauses() == 1s);
  for (int i = 0; i < 20; ++i) pauses();
  CHECK(pauses() == 1s);
  CHECK(pauses(true) == 8s);
  availability.observe(writable(1h), kNow);
  CHECK(pauses() == 500ms);
}
