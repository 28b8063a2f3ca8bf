#include "supervisor/schedule.hpp"

#include <catch2/catch.hpp>

using namespace ff;
using namespace ff::supervisor;
using namespace std::chrono_literals;

namespace {

constexpr SteadyTime kStart = SteadyTime{} + std::chrono::hours{1000};

/// A run that began at kStart with a scan, an interval of a second, and no other run in step.
LastRun run_of(Milliseconds length) {
  return {.started = kStart, .finished = kStart + length, .next_due = {}, .next_scan = kStart + 1000ms};
}

NextRun scan(SteadyTime at) {
  return {at, true};
}
NextRun take(SteadyTime at) {
  return {at, false};
}

LastRun failed(int times) {
  LastRun last = run_of(50ms);
  last.consecutive_failures = times;
  return last;
}

}  // namespace

TEST_CASE("the safety interval is ten times as long, at most half a minute, and never shorter") {
  CHECK(safety_interval(750ms) == 7500ms);
  CHECK(safety_interval(5s) == 30s);
  CHECK(safety_interval(60s) == 60s);
}

TEST_CASE("the next scan is an interval after the last began, stretched by a tenth at most") {
  CHECK(next_scan(1000ms, kStart, {}, 0.0) == kStart + 1000ms);
  CHECK(next_scan(1000ms, kStart, {}, 0.5) == kStart + 1050ms);
  CHECK(next_scan(1000ms, kStart, {}, 1.0) == kStart + 1100ms);
}

TEST_CASE("a scan that did not see as far ahead is followed by the next where its sight ended") {
  CHECK(next_scan(1000ms, kStart, kStart + 300ms, 1.0) == kStart + 300ms);
  CHECK(next_scan(1000ms, kStart, kStart + 2000ms, 0.0) == kStart + 1000ms);
}

TEST_CASE("a quiet reconciler scans when the time for it has come") {
  CHECK(next_run(1000ms, run_of(20ms), 0.0) == scan(kStart + 1000ms));
  LastRun stretched = run_of(20ms);
  stretched.next_scan = kStart + 1070ms;
  CHECK(next_run(1000ms, stretched, 0.0) == scan(kStart + 1070ms));
}

TEST_CASE("a run that took longer than its interval is followed at once, never in the past") {
  CHECK(next_run(1000ms, run_of(3500ms), 0.0) == scan(kStart + 3500ms));
  CHECK(next_run(1000ms, run_of(1000ms), 0.0) == scan(kStart + 1000ms));
}

TEST_CASE("work that was left is gone on with at once") {
  LastRun last = run_of(5000ms);
  last.more = true;
  CHECK(next_run(1000ms, last, 1.0) == scan(kStart + 5000ms));
  last.next_due = kStart + 60s;
  CHECK(next_run(1000ms, last, 1.0) == scan(kStart + 5000ms));
}

TEST_CASE("a row that falls due before the next scan is slept up to and taken without one") {
  LastRun last = run_of(20ms);
  last.next_due = kStart + 300ms;
  CHECK(next_run(1000ms, last, 1.0) == take(kStart + 300ms));
}

TEST_CASE("a row that falls due after the next scan changes nothing") {
  LastRun last = run_of(20ms);
  last.next_due = kStart + 1500ms;
  CHECK(next_run(1000ms, last, 0.0) == scan(kStart + 1000ms));
  last.next_due = kStart + 24h;
  CHECK(next_run(1000ms, last, 0.0) == scan(kStart + 1000ms));
}

TEST_CASE(
    "between rows that fall due one by one a breath is taken as long as the run, and two milliseconds at "
    "least") {
  LastRun last = run_of(200ms);
  last.next_due = kStart + 201ms;
  CHECK(next_run(1000ms, last, 0.0) == take(kStart + 400ms));
  last = run_of(1ms);
  last.next_due = kStart + 2ms;
  CHECK(next_run(1000ms, last, 0.0) == take(kStart + 3ms));
  last.next_due = kStart - 5s;
  CHECK(next_run(1000ms, last, 0.0) == take(kStart + 3ms));
}

TEST_CASE("the same breath is taken before a scan that has to come early") {
  LastRun last = run_of(30ms);
  last.next_scan = kStart + 10ms;
  CHECK(next_run(1000ms, last, 0.0) == scan(kStart + 60ms));
}

TEST_CASE("the breath does not outlast the interval") {
  LastRun last = run_of(800ms);
  last.next_due = kStart + 810ms;
  CHECK(next_run(1000ms, last, 0.0) == scan(kStart + 1000ms));
}

TEST_CASE("runs between two scans do not put off the second") {
  LastRun last{
      .started = kStart + 900ms, .finished = kStart + 905ms, .next_due = {}, .next_scan = kStart + 1000ms};
  CHECK(next_run(1000ms, last, 0.0) == scan(kStart + 1000ms));
  last.next_due = kStart + 950ms;
  CHECK(next_run(1000ms, last, 0.0) == take(kStart + 950ms));
}

TEST_CASE(
    "failures double the pause from the interval up to half a minute, counted from the end of the run") {
  const SteadyTime finished = kStart + 50ms;
  CHECK(next_run(1000ms, failed(1), 0.0) == scan(finished + 1s));
  CHECK(next_run(1000ms, failed(2), 0.0) == scan(finished + 2s));
  CHECK(next_run(1000ms, failed(3), 0.0) == scan(finished + 4s));
  CHECK(next_run(1000ms, failed(5), 0.0) == scan(finished + 16s));
  CHECK(next_run(1000ms, failed(6), 0.0) == scan(finished + 30s));
  CHECK(next_run(1000ms, failed(1'000'000), 0.0) == scan(finished + 30s));
}

TEST_CASE("a pause after a failure is stretched by a quarter at most") {
  const SteadyTime finished = kStart + 50ms;
  CHECK(next_run(1000ms, failed(1), 1.0) == scan(finished + 1250ms));
  CHECK(next_run(1000ms, failed(9), 1.0) == scan(finished + 37'500ms));
  CHECK(next_run(1000ms, failed(2), 0.5) == scan(finished + 2250ms));
}

TEST_CASE(
    "a failure pauses a slow reconciler for its own interval, even where that is longer than half a minute") {
  CHECK(next_run(120s, failed(1), 0.0) == scan(kStart + 50ms + 120s));
  CHECK(next_run(120s, failed(7), 0.0) == scan(kStart + 50ms + 120s));
}

TEST_CASE("a failure pauses whatever else the run says") {
  LastRun last = failed(1);
  last.more = true;
  last.next_due = kStart;
  CHECK(next_run(1000ms, last, 0.0) == scan(last.finished + 1s));
}

TEST_CASE("a failure because the database was away pauses three seconds at most, or the interval") {
  LastRun last = failed(1'000'000);
  last.database_away = true;
  CHECK(next_run(1000ms, last, 0.0) == scan(last.finished + 3s));
  CHECK(next_run(120s, last, 0.0) == scan(last.finished + 120s));
  last.consecutive_failures = 1;
  CHECK(next_run(1000ms, last, 0.0) == scan(last.finished + 1s));
}

TEST_CASE("reconnecting waits half a second, doubling, up to a second, at least half of each") {
  CHECK(reconnect_delay(1, false, 1.0) == 500ms);
  CHECK(reconnect_delay(1, false, 0.0) == 250ms);
  CHECK(reconnect_delay(2, false, 1.0) == 1s);
  CHECK(reconnect_delay(3, false, 1.0) == 1s);
  CHECK(reconnect_delay(1'000'000, false, 1.0) == 1s);
  CHECK(reconnect_delay(1'000'000, false, 0.0) == 500ms);
}

TEST_CASE("reconnecting where the server refuses who we are waits up to eight seconds") {
  CHECK(reconnect_delay(1, true, 1.0) == 500ms);
  CHECK(reconnect_delay(4, true, 1.0) == 4s);
  CHECK(reconnect_delay(1'000'000, true, 1.0) == 8s);
  CHECK(reconnect_delay(1'000'000, true, 0.0) == 4s);
}
