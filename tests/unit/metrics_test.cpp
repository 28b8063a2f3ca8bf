// What is told of reconcilers and their ticks.
#include <catch2/catch.hpp>
#include <thread>

#include "unit/metrics_samples.hpp"

using namespace ff::test;
using namespace std::chrono_literals;
using ff::unix_millis;
using ff::metrics::Metrics;

TEST_CASE("every label set is there at 0 before anything happened") {
  const Metrics metrics(two_reconcilers(), kClock);
  const auto text = metrics.scrape();
  std::vector<std::string> names{"db_connections{state=\"idle\"}",
                                 "db_connections{state=\"in_use\"}",
                                 "db_pool_wait_seconds_count",
                                 "db_pool_timeouts_total",
                                 "db_connects_total{result=\"success\"}",
                                 "db_connects_total{result=\"failure\"}",
                                 "db_writable",
                                 "ready",
                                 "schema_version",
                                 "partitions{state=\"covered\"}",
                                 "partitions{state=\"left_out\"}",
                                 "processed_total{outcome=\"retried\",reconciler=\"attempt_timeout\"}",
                                 "processed_total{outcome=\"failed\",reconciler=\"attempt_timeout\"}",
                                 "processed_total{outcome=\"reclaimed\",reconciler=\"lease_expiry\"}"};
  for (const auto cls : ff::pg::error_classes())
    names.push_back("db_errors_total{class=\"" + std::string(cls) + "\"}");
  for (const std::string reconciler : {"attempt_timeout", "lease_expiry"}) {
    const auto label = "reconciler=\"" + reconciler + "\"";
    for (const auto cls : ff::pg::error_classes())
      names.push_back("errors_total{class=\"" + std::string(cls) + "\"," + label + "}");
    for (const std::string reason : {"locked", "no_longer_due", "quarantined"})
      names.push_back("skipped_total{reason=\"" + reason + "\"," + label + "}");
    for (const std::string result : {"success", "failure"})
      names.push_back("ticks_total{" + label + ",result=\"" + result + "\"}");
    for (const std::string name :
         {"tick_duration_seconds_count", "tick_start_delay_seconds_count", "ticks_missed_total",
          "last_success_timestamp_seconds", "consecutive_failures", "row_lateness_seconds_count", "due_rows",
          "more_due", "running_since_timestamp_seconds", "oldest_due_timestamp_seconds",
          "next_due_timestamp_seconds", "quarantined_rows"})
      names.push_back(name + "{" + label + "}");
  }
  for (const auto& name : names) {
    INFO(name);
    CHECK(sample(text, name) == "0");
  }
}

TEST_CASE("a tick's rows are counted by outcome, reason and class for its reconciler alone") {
  Metrics metrics(two_reconcilers(), kClock);
  tick(metrics, busy_report());
  tick(metrics, busy_report());
  const auto text = metrics.scrape();
  CHECK(sample(text, R"(processed_total{outcome="retried",reconciler="attempt_timeout"})") == "6");
  CHECK(sample(text, R"(processed_total{outcome="failed",reconciler="attempt_timeout"})") == "2");
  CHECK(sample(text, R"(skipped_total{reason="locked",reconciler="attempt_timeout"})") == "4");
  CHECK(sample(text, R"(skipped_total{reason="no_longer_due",reconciler="attempt_timeout"})") == "0");
  CHECK(sample(text, R"(skipped_total{reason="quarantined",reconciler="attempt_timeout"})") == "2");
  CHECK(sample(text, R"(errors_total{class="23",reconciler="attempt_timeout"})") == "4");
  CHECK(sample(text, R"(ticks_total{reconciler="attempt_timeout",result="success"})") == "2");
  CHECK(sample(text, R"(ticks_total{reconciler="attempt_timeout",result="failure"})") == "0");
  CHECK(sample(text, R"(ticks_missed_total{reconciler="attempt_timeout"})") == "4");
  CHECK(sample(text, R"(ticks_total{reconciler="lease_expiry",result="success"})") == "0");
}

TEST_CASE("a tick's times go into histograms, lateness once per row") {
  Metrics metrics(two_reconcilers(), kClock);
  tick(metrics, busy_report());
  const auto text = metrics.scrape();
  CHECK(sample(text, R"(tick_duration_seconds_sum{reconciler="attempt_timeout"})") == "0.3");
  CHECK(sample(text, R"(tick_duration_seconds_bucket{reconciler="attempt_timeout",le="0.25"})") == "0");
  CHECK(sample(text, R"(tick_duration_seconds_bucket{reconciler="attempt_timeout",le="0.5"})") == "1");
  CHECK(sample(text, R"(tick_start_delay_seconds_bucket{reconciler="attempt_timeout",le="0.05"})") == "1");
  CHECK(sample(text, R"(row_lateness_seconds_count{reconciler="attempt_timeout"})") == "4");
  CHECK(sample(text, R"(row_lateness_seconds_bucket{reconciler="attempt_timeout",le="0.001"})") == "1");
  CHECK(sample(text, R"(row_lateness_seconds_bucket{reconciler="attempt_timeout",le="0.005"})") == "2");
  CHECK(sample(text, R"(row_lateness_seconds_bucket{reconciler="attempt_timeout",le="900"})") == "2");
  CHECK(sample(text, R"(row_lateness_seconds_bucket{reconciler="attempt_timeout",le="3600"})") == "3");
  CHECK(sample(text, R"(row_lateness_seconds_bucket{reconciler="attempt_timeout",le="+Inf"})") == "4");
  CHECK(sample(text, R"(row_lateness_seconds_sum{reconciler="attempt_timeout"})") == "13200.003");
}

TEST_CASE("a lateness below zero counts as none") {
  Metrics metrics(two_reconcilers(), kClock);
  ff::reconcile::TickReport report;
  report.lateness = {-5s};
  tick(metrics, report);
  CHECK(sample(metrics, R"(row_lateness_seconds_sum{reconciler="attempt_timeout"})") == "0");
  CHECK(sample(metrics, R"(row_lateness_seconds_count{reconciler="attempt_timeout"})") == "1");
}

TEST_CASE("in the middle of a backlog the gauges say that more is due, though the tick came to none of it") {
  Metrics metrics(two_reconcilers(), kClock);
  ff::reconcile::TickReport report;
  report.complete = true;
  report.more = true;
  report.oldest_due = unix_millis(1'699'999'000'500);
  report.oldest_due_in = {{{1}, unix_millis(1'699'999'000'500)}, {{4}, unix_millis(1'699'999'001'000)}};
  tick(metrics, report);
  CHECK(sample(metrics, R"(due_rows{reconciler="attempt_timeout"})") == "2");
  CHECK(sample(metrics, R"(more_due{reconciler="attempt_timeout"})") == "1");
  tick(metrics, busy_report());
  CHECK(sample(metrics, R"(due_rows{reconciler="attempt_timeout"})") == "5");
  CHECK(sample(metrics, R"(more_due{reconciler="attempt_timeout"})") == "0");
}

TEST_CASE("where all that was due was moved the gauges say that nothing is") {
  Metrics metrics(two_reconcilers(), kClock);
  auto report = busy_report();
  report.processed = report.scanned;
  tick(metrics, report);
  CHECK(sample(metrics, R"(due_rows{reconciler="attempt_timeout"})") == "0");
  CHECK(sample(metrics, R"(oldest_due_timestamp_seconds{reconciler="attempt_timeout"})") == "0");
  report.more = true;
  report.oldest_due_in = {{{1}, unix_millis(1'699'999'000'500)}};
  tick(metrics, report);
  CHECK(sample(metrics, R"(due_rows{reconciler="attempt_timeout"})") == "1");
  CHECK(sample(metrics, R"(oldest_due_timestamp_seconds{reconciler="attempt_timeout"})") == "1699999000.5");
}

TEST_CASE("a gauge says since when a tick is under way") {
  Metrics metrics(two_reconcilers(), kClock);
  const ff::reconcile::Progress progress;
  metrics.tick_started({"attempt_timeout", progress});
  CHECK(sample(metrics, R"(running_since_timestamp_seconds{reconciler="attempt_timeout"})") == "1700000000");
  CHECK(sample(metrics, R"(running_since_timestamp_seconds{reconciler="lease_expiry"})") == "0");
  tick(metrics, busy_report());
  CHECK(sample(metrics, R"(running_since_timestamp_seconds{reconciler="attempt_timeout"})") == "0");
}

TEST_CASE("while a tick is under way the gauges say what it has found and not moved, if that is more") {
  Metrics metrics(two_reconcilers(), kClock);
  ff::reconcile::Progress progress;
  const auto shown = [&](const std::string& gauge) {
    return sample(metrics, gauge + R"({reconciler="attempt_timeout"})");
  };
  metrics.tick_started({"attempt_timeout", progress});
  CHECK(shown("due_rows") == "0");
  CHECK(shown("more_due") == "0");
  progress.scanned = 1651;
  progress.processed = 651;
  CHECK(shown("due_rows") == "1000");
  CHECK(shown("more_due") == "1");
  tick(metrics, busy_report());
  CHECK(shown("due_rows") == "5");
  CHECK(shown("more_due") == "0");

  metrics.tick_started({"attempt_timeout", progress});
  progress.processed = 1650;
  CHECK(shown("due_rows") == "5");
  CHECK(shown("more_due") == "0");
  progress.processed = 0;
  metrics.reconciler_enabled("attempt_timeout", false);
  CHECK(shown("due_rows") == "0");
}

TEST_CASE("the gauges of a reconciler say what its last scan saw, and what comes next") {
  Metrics metrics(two_reconcilers(), kClock);
  tick(metrics, busy_report());
  auto text = metrics.scrape();
  CHECK(sample(text, R"(due_rows{reconciler="attempt_timeout"})") == "5");
  CHECK(sample(text, R"(oldest_due_timestamp_seconds{reconciler="attempt_timeout"})") == "1699999000.5");
  CHECK(sample(text, R"(next_due_timestamp_seconds{reconciler="attempt_timeout"})") == "1700000060");
  CHECK(sample(text, R"(quarantined_rows{reconciler="attempt_timeout"})") == "5");
  CHECK(sample(text, R"(last_success_timestamp_seconds{reconciler="attempt_timeout"})") == "1700000000");

  ff::reconcile::TickReport foreseen;
  foreseen.scanned = 1;
  foreseen.oldest_due = foreseen.next_due = unix_millis(1'700'000'090'000);
  foreseen.quarantined = 6;
  tick(metrics, foreseen);
  text = metrics.scrape();
  CHECK(sample(text, R"(due_rows{reconciler="attempt_timeout"})") == "5");
  CHECK(sample(text, R"(oldest_due_timestamp_seconds{reconciler="attempt_timeout"})") == "1699999000.5");
  CHECK(sample(text, R"(next_due_timestamp_seconds{reconciler="attempt_timeout"})") == "1700000090");
  CHECK(sample(text, R"(quarantined_rows{reconciler="attempt_timeout"})") == "6");

  ff::reconcile::TickReport nothing;
  nothing.complete = true;
  tick(metrics, nothing);
  text = metrics.scrape();
  CHECK(sample(text, R"(due_rows{reconciler="attempt_timeout"})") == "0");
  CHECK(sample(text, R"(oldest_due_timestamp_seconds{reconciler="attempt_timeout"})") == "0");
  CHECK(sample(text, R"(next_due_timestamp_seconds{reconciler="attempt_timeout"})") == "0");
  CHECK(sample(text, R"(quarantined_rows{reconciler="attempt_timeout"})") == "0");
}

TEST_CASE(
    "a reconciler that is switched off leaves no gauge behind, nor does the tick that ends afterwards") {
  Metrics metrics(two_reconcilers(), kClock);
  tick(metrics, busy_report());
  tick(metrics, busy_report(), "lease_expiry");
  metrics.reconciler_enabled("attempt_timeout", false);
  const auto is_clear = [&] {
    for (const auto* gauge :
         {"due_rows", "oldest_due_timestamp_seconds", "next_due_timestamp_seconds", "quarantined_rows"}) {
      CAPTURE(gauge);
      CHECK(sample(metrics, std::string(gauge) + R"({reconciler="attempt_timeout"})") == "0");
      CHECK(sample(metrics, std::string(gauge) + R"({reconciler="lease_expiry"})") != "0");
    }
  };
  is_clear();
  tick(metrics, busy_report());
  is_clear();
  CHECK(sample(metrics, R"(processed_total{outcome="retried",reconciler="attempt_timeout"})") == "6");
  metrics.reconciler_enabled("attempt_timeout", true);
  tick(metrics, busy_report());
  CHECK(sample(metrics, R"(due_rows{reconciler="attempt_timeout"})") == "5");
}

TEST_CASE("that what is paused cannot be read is a gauge") {
  Metrics metrics(two_reconcilers(), kClock);
  CHECK(sample(metrics, "pauses_unread") == "0");
  metrics.pauses_unread("no privilege");
  CHECK(sample(metrics, "pauses_unread") == "1");
  metrics.pauses_unread("");
  CHECK(sample(metrics, "pauses_unread") == "0");
}

TEST_CASE("what is paused, by name or with all, says so and leaves no gauge behind") {
  Metrics metrics(two_reconcilers(), kClock);
  const auto paused = [&](const std::string& name) {
    return sample(metrics, "paused{reconciler=\"" + name + "\"}");
  };
  const auto of = [](const std::string& name) {
    return ff::pause::Pause{.reconciler = name, .by = {}, .reason = {}, .until = {}};
  };
  CHECK(paused("attempt_timeout") == "0");
  tick(metrics, busy_report());
  metrics.pauses_changed({of("attempt_timeout")});
  CHECK(paused("attempt_timeout") == "1");
  CHECK(paused("lease_expiry") == "0");
  tick(metrics, busy_report());
  CHECK(sample(metrics, R"(due_rows{reconciler="attempt_timeout"})") == "0");
  metrics.pauses_changed({of("*")});
  CHECK(paused("lease_expiry") == "1");
  metrics.pauses_changed({});
  CHECK(paused("attempt_timeout") == "0");
  CHECK(paused("lease_expiry") == "0");
  tick(metrics, busy_report());
  CHECK(sample(metrics, R"(due_rows{reconciler="attempt_timeout"})") == "5");
}

TEST_CASE("what is held says so until it is released, and not while the reconciler is paused") {
  Metrics metrics(two_reconcilers(), kClock);
  const auto held = [&] { return sample(metrics, R"(held{reconciler="attempt_timeout"})"); };
  CHECK(held() == "0");
  auto report = busy_report();
  report.hold = {.above = 2};
  tick(metrics, report);
  CHECK(held() == "1");
  CHECK(sample(metrics, R"(held{reconciler="lease_expiry"})") == "0");
  metrics.pauses_changed({{.reconciler = "*", .by = {}, .reason = {}, .until = {}}});
  CHECK(held() == "0");
  metrics.pauses_changed({});
  tick(metrics, report);
  report.hold->released = true;
  tick(metrics, report);
  CHECK(held() == "0");
}

TEST_CASE("a tick that failed before its scan is no success and leaves what the last scan saw") {
  Metrics metrics(two_reconcilers(), kClock);
  tick(metrics, lost_connection());
  CHECK(sample(metrics, R"(last_success_timestamp_seconds{reconciler="attempt_timeout"})") == "0");
  tick(metrics, busy_report());
  tick(metrics, lost_connection());
  const auto text = metrics.scrape();
  CHECK(sample(text, R"(ticks_total{reconciler="attempt_timeout",result="failure"})") == "2");
  CHECK(sample(text, R"(errors_total{class="connection",reconciler="attempt_timeout"})") == "2");
  CHECK(sample(text, R"(consecutive_failures{reconciler="attempt_timeout"})") == "3");
  CHECK(sample(text, R"(due_rows{reconciler="attempt_timeout"})") == "5");
  CHECK(sample(text, R"(oldest_due_timestamp_seconds{reconciler="attempt_timeout"})") == "1699999000.5");
  CHECK(sample(text, R"(quarantined_rows{reconciler="attempt_timeout"})") == "5");
}

TEST_CASE("outcomes and reconcilers that nobody described are counted under their own names") {
  Metrics metrics(two_reconcilers(), kClock);
  ff::reconcile::TickReport report;
  report.outcomes = {{"escal\"ated\n", 2}};
  tick(metrics, report);
  tick(metrics, report);
  tick(metrics, report, "newcomer");
  const auto text = metrics.scrape();
  CHECK(sample(text, R"(processed_total{outcome="escal\"ated\n",reconciler="attempt_timeout"})") == "4");
  CHECK(sample(text, R"(processed_total{outcome="escal\"ated\n",reconciler="newcomer"})") == "2");
  CHECK(sample(text, R"(ticks_total{reconciler="newcomer",result="success"})") == "1");
}

TEST_CASE("threads that tell and scrape at once lose nothing") {
  Metrics metrics(two_reconcilers(), kClock);
  constexpr int kTicks = 200;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&metrics] {
      for (int each = 0; each < kTicks; ++each) {
        tick(metrics, busy_report());
        tick(metrics, busy_report(), "newcomer");
        metrics.connected(nullptr);
        metrics.state_changed(ff::supervisor::State::ready, "");
      }
    });
  for (int i = 0; i < 20; ++i) CHECK(!metrics.scrape().empty());
  for (auto& thread : threads) thread.join();
  const auto text = metrics.scrape();
  CHECK(sample(text, R"(processed_total{outcome="retried",reconciler="attempt_timeout"})") == "1800");
  CHECK(sample(text, R"(processed_total{outcome="retried",reconciler="newcomer"})") == "1800");
  CHECK(sample(text, R"(row_lateness_seconds_count{reconciler="newcomer"})") == "2400");
  CHECK(sample(text, R"(db_connects_total{result="success"})") == "600");
}

TEST_CASE("gauges by partition are there where they are wanted, for the covered partitions") {
  auto description = two_reconcilers();
  for (const bool wanted : {false, true}) {
    description.per_partition = wanted;
    Metrics metrics(description, kClock);
    const auto of = [&](int partition) {
      return sample(metrics, "partition_oldest_due_timestamp_seconds{partition=\"" +
                                 std::to_string(partition) + "\",reconciler=\"attempt_timeout\"}");
    };
    metrics.partitions({.count = 4, .covered = {{0}, {1}, {2}}, .left_out = {{3}}, .not_there = {}});
    CHECK(of(1) == (wanted ? "0" : "absent"));
    auto report = busy_report();
    report.oldest_due_in = {{{1}, unix_millis(1'600'000'000'500)}, {{3}, unix_millis(1)}};
    tick(metrics, report);
    CHECK(of(0) == (wanted ? "0" : "absent"));
    CHECK(of(1) == (wanted ? "1600000000.5" : "absent"));
    CHECK(of(3) == "absent");
    metrics.partitions({.count = 4, .covered = {{0}, {3}}, .left_out = {{1}, {2}}, .not_there = {}});
    CHECK(of(1) == "absent");
    CHECK(of(3) == (wanted ? "0" : "absent"));
    tick(metrics, busy_report());
    CHECK(of(3) == (wanted ? "0" : "absent"));
  }
}
