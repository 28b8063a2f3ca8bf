#include "supervisor/schedule.hpp"

#include <catch2/catch.hpp>

using namespace ff;
using namespace ff::supervisor;
using namespace std::chrono_literals;

namespace {

constexpr SteadyTime kStart = SteadyTime{} + std::chrono::hours{1000};

/// A run that began at kStart.
LastRun run_of(Milliseconds length) {
  return {.started = kStart, .finished = kStart + length, .next_due = {}};
}

LastRun failed(int times) {
  LastRun last = run_of(50ms);
  last.consecutive_failures = times;
  return last;
}

}  // namespace

TEST_CASE("a quiet reconciler runs an interval after it started, stretched by a tenth at most") {
  CHECK(next_run(1000ms, run_of(20ms), 0.0) == kStart + 1000ms);
  CHECK(next_run(1000ms, run_of(20ms), 0.5) == kStart + 1050ms);
  CHECK(next_run(1000ms, run_of(20ms), 1.0) == kStart + 1100ms);
}

TEST_CASE("a run that took longer than its interval is followed at once, never in the past") {
  CHECK(next_run(1000ms, run_of(3500ms), 0.0) == kStart + 3500ms);
  CHECK(next_run(1000ms, run_of(1000ms), 0.0) == kStart + 1000ms);
}

TEST_CASE("work that was left is gone on with at once") {
  LastRun last = run_of(5000ms);
  last.more = true;
  CHECK(next_run(1000ms, last, 1.0) == kStart + 5000ms);
  last.next_due = kStart + 60s;
  CHECK(next_run(1000ms, last, 1.0) == kStart + 5000ms);
}

TEST_CASE("a row that falls due before the interval ends is slept up to") {
  LastRun last = run_of(20ms);
  last.next_due = kStart + 300ms;
  CHECK(next_run(1000ms, last, 1.0) == kStart + 300ms);
}

TEST_CASE("a row that falls due after the interval changes nothing") {
  LastRun last = run_of(20ms);
  last.next_due = kStart + 1500ms;
  CHECK(next_run(1000ms, last, 0.0) == kStart + 1000ms);
  last.next_due = kStart + 24h;
  CHECK(next_run(1000ms, last, 0.0) == kStart + 1000ms);
}

TEST_CASE(
    "between rows that fall due one by one a breath is taken as long as the run, and ten milliseconds at "
    "least") {
  LastRun last = run_of(200ms);
  last.next_due = kStart + 201ms;
  CHECK(next_run(1000ms, last, 0.0) == kStart + 400ms);
  last = run_of(2ms);
  last.next_due = kStart + 3ms;
  CHECK(next_run(1000ms, last, 0.0) == kStart + 12ms);
  last.next_due = kStart - 5s;
  CHECK(next_run(1000ms, last, 0.0) == kStart + 12ms);
}

TEST_CASE("the breath does not outlast the interval") {
  LastRun last = run_of(800ms);
  last.next_due = kStart + 810ms;
  CHECK(next_run(1000ms, last, 0.0) == kStart + 1000ms);
}

TEST_CASE(
    "failures double the pause from the interval up to half a minute, counted from the end of the run") {
  const SteadyTime finished = kStart + 50ms;
  CHECK(next_run(1000ms, failed(1), 0.0) == finished + 1s);
  CHECK(next_run(1000ms, failed(2), 0.0) == finished + 2s);
  CHECK(next_run(1000ms, failed(3), 0.0) == finished + 4s);
  CHECK(next_run(1000ms, failed(5), 0.0) == finished + 16s);
  CHECK(next_run(1000ms, failed(6), 0.0) == finished + 30s);
  CHECK(next_run(1000ms, failed(1'000'000), 0.0) == finished + 30s);
}

TEST_CASE("a pause after a failure is stretched by a quarter at most") {
  const SteadyTime finished = kStart + 50ms;
  CHECK(next_run(1000ms, failed(1), 1.0) == finished + 1250ms);
  CHECK(next_run(1000ms, failed(9), 1.0) == finished + 37'500ms);
  CHECK(next_run(1000ms, failed(2), 0.5) == finished + 2250ms);
}

TEST_CASE(
    "a failure pauses a slow reconciler for its own interval, even where that is longer than half a minute") {
  CHECK(next_run(120s, failed(1), 0.0) == kStart + 50ms + 120s);
  CHECK(next_run(120s, failed(7), 0.0) == kStart + 50ms + 120s);
}

TEST_CASE("a failure pauses whatever else the run says") {
  LastRun last = failed(1);
  last.more = true;
  last.next_due = kStart;
  CHECK(next_run(1000ms, last, 0.0) == last.finished + 1s);
}

TEST_CASE("reconnecting waits half a second, doubling, up to half a minute, at least half of each") {
  CHECK(reconnect_delay(1, 1.0) == 500ms);
  CHECK(reconnect_delay(1, 0.0) == 250ms);
  CHECK(reconnect_delay(2, 1.0) == 1s);
  CHECK(reconnect_delay(4, 1.0) == 4s);
  CHECK(reconnect_delay(7, 1.0) == 30s);
  CHECK(reconnect_delay(7, 0.0) == 15s);
  CHECK(reconnect_delay(1'000'000, 1.0) == 30s);
}
