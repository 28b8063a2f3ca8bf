#include "reconcile/duty_cycle.hpp"

#include <catch2/catch.hpp>

using namespace ff;
using namespace ff::reconcile;
using namespace std::chrono_literals;

namespace {

constexpr SteadyTime kStart = SteadyTime{} + std::chrono::hours{1000};

bool rests_until(const DutyCycle& cycle, SteadyTime end) {
  return cycle.rests(end - 1ms) && !cycle.rests(end);
}

}  // namespace

TEST_CASE(
    "after a run comes a rest so many times as long, but none after the first, and no longer than the "
    "longest") {
  DutyCycle cycle(100, 60s);
  CHECK_FALSE(cycle.rests(kStart));
  cycle.ran(kStart, 300ms);
  CHECK_FALSE(cycle.rests(kStart));
  cycle.ran(kStart, 200ms);
  CHECK(rests_until(cycle, kStart + 20s));
  for (int i = 0; i < 2; ++i) cycle.ran(kStart, 5s);
  CHECK(rests_until(cycle, kStart + 60s));
}

TEST_CASE("a run that was long by itself is followed by the rest of a usual one") {
  DutyCycle cycle(100, 60s);
  cycle.ran(kStart, 10ms);
  cycle.ran(kStart, 400ms);
  CHECK_FALSE(cycle.rests(kStart + 1s));
  cycle.ran(kStart + 1s, 10ms);
  CHECK_FALSE(cycle.rests(kStart + 2s));
  cycle.ran(kStart + 2s, 400ms);
  cycle.ran(kStart + 3s, 400ms);
  CHECK(rests_until(cycle, kStart + 43s));
}

TEST_CASE("a rest can be cut short, and not be made longer") {
  DutyCycle cycle(100, 60s);
  const auto rest = [&] {
    for (int i = 0; i < 2; ++i) cycle.ran(kStart, 100ms);
  };
  rest();
  cycle.rest_at_most_until(kStart + 4s);
  cycle.rest_at_most_until(kStart + 30s);
  CHECK(rests_until(cycle, kStart + 4s));
  rest();
  CHECK(rests_until(cycle, kStart + 10s));
  cycle.end_rest();
  CHECK_FALSE(cycle.rests(kStart));
}

TEST_CASE("whether a rest may be longer than an interval is told by the last run, and before it by caution") {
  DutyCycle cycle(100, 60s);
  CHECK(cycle.may_rest_longer_than(1s));
  cycle.ran(kStart, 10ms);
  CHECK_FALSE(cycle.may_rest_longer_than(1s));
  cycle.ran(kStart, 11ms);
  CHECK(cycle.may_rest_longer_than(1s));
}
