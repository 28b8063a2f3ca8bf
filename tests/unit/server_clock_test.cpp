#include "reconcile/server_clock.hpp"

#include <catch2/catch.hpp>

using namespace ff;
using namespace std::chrono_literals;
using reconcile::ServerClock;

namespace {

constexpr SteadyTime kNow = SteadyTime{} + std::chrono::hours{1000};
constexpr UnixMillis kSaid = unix_millis(1'700'000'000'000);

}  // namespace

TEST_CASE("a database's clock that goes on as ours does was not set") {
  ServerClock clock;
  CHECK_FALSE(clock.at(kNow));
  CHECK_FALSE(clock.learn({kNow - 10ms, kNow, kSaid}));
  CHECK_FALSE(clock.learn({kNow + 1h, kNow + 1h + 10ms, kSaid + 1h}));
  CHECK(clock.at(kNow + 2h) == kSaid + 2h - 10ms);
}

TEST_CASE("a database's clock that was set forward is noticed once, whatever the answers took") {
  ServerClock clock;
  clock.learn({kNow - 3s, kNow, kSaid});
  // Read when the first had been sent and the second was answered.
  CHECK_FALSE(clock.learn({kNow + 1s, kNow + 11s, kSaid + 14s + ServerClock::kStep}));
  CHECK(clock.at(kNow + 11s) == kSaid + 11s);
  CHECK(clock.learn({kNow + 1s, kNow + 11s, kSaid + 14s + ServerClock::kStep + 1ms}));
  CHECK(clock.at(kNow + 11s) == kSaid + 14s + ServerClock::kStep + 1ms);
  CHECK_FALSE(clock.learn({kNow + 12s, kNow + 13s, kSaid + 16s + ServerClock::kStep}));
}

TEST_CASE("a database's clock that was set back is believed at once, and noticed when it is set right") {
  ServerClock clock;
  clock.learn({kNow - 1ms, kNow, kSaid});
  CHECK_FALSE(clock.learn({kNow + 1s, kNow + 2s, kSaid + 1s - ServerClock::kStep}));
  CHECK(clock.at(kNow + 2s) == kSaid + 2s);
  CHECK_FALSE(clock.learn({kNow + 1s, kNow + 2s, kSaid - 1h}));
  CHECK(clock.at(kNow + 2s) == kSaid - 1h);
  CHECK(clock.learn({kNow + 3s, kNow + 4s, kSaid + 4s}));
  CHECK(clock.at(kNow + 4s) == kSaid + 4s);
}
