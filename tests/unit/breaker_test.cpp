#include "reconcile/breaker.hpp"

#include <catch2/catch.hpp>

using namespace ff;
using namespace ff::reconcile;
using namespace std::chrono_literals;
using State = Breaker::State;

namespace {

constexpr SteadyTime kStart = SteadyTime{} + std::chrono::hours{1000};
constexpr UnixMillis kThen = unix_millis(1'700'000'000'000);

/// So many leases each of so many instances.
LeasesOf leases(int holders, int each, int first = 0) {
  LeasesOf all;
  for (int i = first; i < first + holders; ++i) all["w" + std::to_string(i)] = each;
  return all;
}

/// Once somebody has taken all that it can.
bool has_closed(Breaker& breaker, const std::string& who, SteadyTime now) {
  breaker.drained({who});
  return breaker.close_if_drained(now);
}

/// 200 workers with five leases each.
Breaker of_two_hundred(Milliseconds lease = 30s, const Breaker::Settings& settings = {}) {
  Breaker breaker(settings);
  breaker.learn_fleet({.leases = 1000, .holders = 200, .lease_length = lease});
  return breaker;
}

}  // namespace

TEST_CASE("the breaker opens when many leases of many instances have lapsed") {
  Breaker breaker = of_two_hundred();
  CHECK_FALSE(breaker.judge(leases(39, 1), kStart));   // 39 of 1000: too few
  CHECK_FALSE(breaker.judge(leases(7, 5), kStart));    // 7 of 200 instances: too few
  CHECK_FALSE(breaker.judge(leases(1, 999), kStart));  // one worker has died with all its leases
  CHECK(breaker.state() == State::closed);
  CHECK(breaker.judge(leases(8, 5), kStart));
  CHECK(breaker.state() == State::open);
  CHECK(breaker.held_after() == UnixMillis::min());
  CHECK(breaker.leases_lapsed_share() == Approx(0.04));
  CHECK(breaker.holders_lapsed_share() == Approx(0.04));
}

TEST_CASE("of few leases twenty of three instances have to lapse") {
  Breaker breaker{Breaker::Settings{}};
  breaker.learn_fleet({.leases = 60, .holders = 6});
  CHECK_FALSE(breaker.judge(leases(6, 3), kStart));
  CHECK_FALSE(breaker.judge(leases(2, 10), kStart));
  CHECK(breaker.judge(leases(4, 5), kStart));
}

TEST_CASE("a lease that never ends does not have the breaker count for ever, nor forget at once") {
  Breaker breaker = of_two_hundred(Milliseconds::max());
  breaker.taken(leases(7, 5), kStart);
  CHECK_FALSE(breaker.judge(leases(7, 5, 100), kStart + Breaker::kLongestWindow + 1ms));
  breaker.taken(leases(7, 5), kStart + 2h);
  CHECK(breaker.judge(leases(1, 5, 7), kStart + 2h + 10min));
}

TEST_CASE("what was taken within the window counts, with those who had it") {
  Breaker breaker = of_two_hundred();
  for (int i = 0; i < 7; ++i) {
    breaker.taken(leases(1, 5, i), kStart + i * 1s);
    CHECK_FALSE(breaker.judge({}, kStart + i * 1s));
  }
  CHECK(breaker.judge(leases(1, 5, 7), kStart + 8s));
  Breaker slower = of_two_hundred();
  for (int i = 0; i < 200; ++i) {
    // By ones and twos, two seconds apart.
    CHECK_FALSE(slower.judge(leases(1, 5, i), kStart + i * 2s));
    slower.taken(leases(1, 5, i), kStart + i * 2s);
  }
}

TEST_CASE("the window is a twentieth of a long lease, and ten seconds at least") {
  CHECK(of_two_hundred(30s).window() == 10s);
  CHECK(of_two_hundred(30min).window() == 90s);
  // Leases of half an hour, lapsing evenly after the network has died: it opens before one in twenty is taken.
  Breaker breaker = of_two_hundred(30min);
  int taken = 0;
  for (SteadyTime now = kStart;; now += 1800ms, ++taken) {
    if (breaker.judge(leases(1, 1, taken % 200), now)) break;
    breaker.taken(leases(1, 1, taken % 200), now);
    REQUIRE(taken < 50);
  }
  CHECK(taken == 39);
}

TEST_CASE("it asks to have them counted only when they could be too many, and not too often") {
  Breaker breaker = of_two_hundred();
  CHECK_FALSE(breaker.could_trip(19, kStart));
  CHECK(breaker.could_trip(20, kStart));
  breaker.taken(leases(3, 5), kStart);
  CHECK(breaker.could_trip(5, kStart));
  CHECK_FALSE(breaker.could_trip(0, kStart));
  CHECK_FALSE(breaker.judge(leases(1, 500, 9), kStart, 100ms));
  CHECK_FALSE(breaker.could_trip(500, kStart + 999ms));
  CHECK(breaker.could_trip(520, kStart + 999ms));
  CHECK(breaker.could_trip(500, kStart + 1s));
}

TEST_CASE("an open breaker lets all go after its hold, and closes when who was held is done") {
  Breaker breaker = of_two_hundred();
  REQUIRE(breaker.judge(leases(200, 5), kStart));
  breaker.held({"lease_expiry"}, kStart);
  breaker.held({"attempt_timeout"}, kStart + 1s);
  CHECK(breaker.open_for(kStart + 10s) == 20s);
  CHECK_FALSE(breaker.advance(kStart + 29'999ms, kThen));
  CHECK_FALSE(has_closed(breaker, "lease_expiry", kStart + 29s));
  CHECK(breaker.advance(kStart + 30s, kThen));
  CHECK(breaker.state() == State::draining);
  CHECK_FALSE(breaker.held_after());
  CHECK(breaker.counts_after() == kThen);
  CHECK_FALSE(has_closed(breaker, "lease_expiry", kStart + 40s));
  CHECK(has_closed(breaker, "attempt_timeout", kStart + 41s));
  CHECK(breaker.state() == State::closed);
}

TEST_CASE("a draining breaker opens again only by what has lapsed since, and holds no more than that") {
  Breaker breaker = of_two_hundred();
  REQUIRE(breaker.judge(leases(200, 5), kStart));
  breaker.held({"lease_expiry"}, kStart);
  REQUIRE(breaker.advance(kStart + 30s, kThen));
  CHECK_FALSE(breaker.judge({}, kStart + 31s));
  CHECK(breaker.judge(leases(10, 5), kStart + 35s));
  CHECK(breaker.held_after() == kThen);
  CHECK(breaker.advance(kStart + 65s, kThen + 35s));
  CHECK(breaker.counts_after() == kThen + 35s);
}

TEST_CASE("who was held and does not come back is not waited for") {
  Breaker breaker = of_two_hundred();
  REQUIRE(breaker.judge(leases(200, 5), kStart));
  breaker.held({"attempt_timeout"}, kStart);
  breaker.held({"lease_expiry"}, kStart);
  REQUIRE(breaker.advance(kStart + 30s, kThen));
  CHECK_FALSE(has_closed(breaker, "lease_expiry", kStart + 60s));
  CHECK(has_closed(breaker, "lease_expiry", kStart + 91s));
}

TEST_CASE("who was held when a long hold began is waited for at its end") {
  Breaker breaker = of_two_hundred(30s, {.hold = 2min});
  REQUIRE(breaker.judge(leases(200, 5), kStart));
  breaker.held({"lease_expiry"}, kStart);
  CHECK_FALSE(breaker.close_if_drained(kStart + 110s));  // nobody could ask: the database was away
  REQUIRE(breaker.advance(kStart + 120s, kThen));
  CHECK_FALSE(breaker.close_if_drained(kStart + 121s));
}

TEST_CASE("a reconciler that is switched off is not waited for, nor are its companions") {
  Breaker breaker = of_two_hundred();
  REQUIRE(breaker.judge(leases(200, 5), kStart));
  for (const Asker& who : {Asker{"lease_expiry"}, Asker{"lease_expiry", 1}, Asker{"attempt_timeout"}})
    breaker.held(who, kStart);
  REQUIRE(breaker.advance(kStart + 30s, kThen));
  CHECK_FALSE(has_closed(breaker, "attempt_timeout", kStart + 31s));
  breaker.forget("lease_expiry");
  CHECK(breaker.close_if_drained(kStart + 32s));
}

TEST_CASE("a clock that was ahead and is set back lets what lapses count again") {
  Breaker breaker = of_two_hundred();
  REQUIRE(breaker.judge(leases(200, 5), kStart));
  REQUIRE(breaker.advance(kStart + 30s, kThen + 1h));
  CHECK(breaker.counts_after() == kThen + 1h);
  breaker.advance(kStart + 31s, kThen + 1h - 30s);  // as an older reading may say
  CHECK(breaker.counts_after() == kThen + 1h);
  breaker.advance(kStart + 32s, kThen);
  CHECK(breaker.counts_after() == kThen);
  REQUIRE(breaker.judge(leases(200, 5), kStart + 33s));
  CHECK(breaker.held_after() == kThen);
}

TEST_CASE("a breaker that is switched off is closed, and stays so") {
  Breaker breaker = of_two_hundred();
  REQUIRE(breaker.judge(leases(200, 5), kStart));
  breaker.configure({.on = false});
  CHECK(breaker.state() == State::closed);
  CHECK_FALSE(breaker.held_after());
  CHECK_FALSE(breaker.could_trip(1000, kStart));
  CHECK_FALSE(breaker.judge(leases(200, 5), kStart));
}

TEST_CASE("share and hold are as configured") {
  Breaker breaker = of_two_hundred(30s, {.share = 0.5, .hold = 5s});
  CHECK_FALSE(breaker.judge(leases(99, 5), kStart));
  CHECK(breaker.judge(leases(100, 5), kStart));
  CHECK(breaker.advance(kStart + 5s, kThen));
}

TEST_CASE("shares are none where nothing is known, and never more than all") {
  Breaker breaker{Breaker::Settings{}};
  CHECK(breaker.leases_lapsed_share() == 0);
  breaker.judge(leases(2, 1), kStart);
  CHECK(breaker.leases_lapsed_share() == 1);
  CHECK(breaker.holders_lapsed_share() == 1);
}
