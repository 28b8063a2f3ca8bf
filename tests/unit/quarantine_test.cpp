#include "reconcile/quarantine.hpp"

#include <catch2/catch.hpp>

using namespace ff;
using namespace ff::reconcile;
using namespace std::chrono_literals;

namespace {

constexpr SteadyTime kNow = SteadyTime{} + std::chrono::hours{1000};
const RowKey kRow{{3}, {"a", "0"}};
const RowKey kNeighbour{{3}, {"a", "1"}};

}  // namespace

TEST_CASE("a row that failed is left out for five seconds, its neighbours are not") {
  Quarantine quarantine;
  CHECK(quarantine.empty());
  CHECK(quarantine.add(kRow, kNow) == 5s);
  CHECK(quarantine.holds(kRow, kNow));
  CHECK(quarantine.holds(kRow, kNow + 4'999ms));
  CHECK_FALSE(quarantine.holds(kRow, kNow + 5s));
  CHECK_FALSE(quarantine.holds(kNeighbour, kNow));
  CHECK_FALSE(quarantine.holds({{4}, {"a", "0"}}, kNow));
  CHECK(quarantine.size() == 1);
}

TEST_CASE("a row that fails again is left out for twice as long, up to ten minutes") {
  Quarantine quarantine;
  SteadyTime now = kNow;
  for (const Milliseconds expected : {5s, 10s, 20s, 40s, 80s, 160s, 320s, 600s, 600s}) {
    CHECK(quarantine.add(kRow, now) == expected);
    CHECK(quarantine.holds(kRow, now + expected - 1ms));
    now += expected;
    CHECK_FALSE(quarantine.holds(kRow, now));
    CHECK(quarantine.contains(kRow));
  }
  CHECK(quarantine.size() == 1);
}

TEST_CASE("a row that was moved starts anew when it fails later") {
  Quarantine quarantine;
  quarantine.add(kRow, kNow);
  quarantine.add(kRow, kNow);
  quarantine.release(kRow);
  CHECK_FALSE(quarantine.holds(kRow, kNow));
  CHECK(quarantine.empty());
  CHECK(quarantine.add(kRow, kNow) == 5s);
  quarantine.release(kNeighbour);
  CHECK(quarantine.size() == 1);
}

TEST_CASE("a row that nobody met for ten minutes after its time is forgotten") {
  Quarantine quarantine;
  quarantine.add(kRow, kNow);
  quarantine.add(kNeighbour, kNow + 1s);
  quarantine.forget_old(kNow + 5s + 10min);
  CHECK(quarantine.size() == 2);
  quarantine.forget_old(kNow + 5s + 10min + 1ms);
  CHECK_FALSE(quarantine.contains(kRow));
  CHECK(quarantine.contains(kNeighbour));
}
