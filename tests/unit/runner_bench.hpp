#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "supervisor/runner.hpp"
#include "support/log_capture.hpp"
#include "support/manual_clock.hpp"

namespace ff::supervisor {

using namespace std::chrono_literals;
using reconcile::TickOptions;
using reconcile::TickReport;

/// An event with a report that outlives it.
struct Heard {
  std::string reconciler;
  TickReport report;
  double start_delay;
  double duration;
  std::int64_t missed;
  int consecutive_failures;
};

struct Listener final : Observer {
  void tick_started(const TickStart& start) override { running = &start.progress; }
  void tick_finished(const TickEvent& e) override {
    heard.push_back({std::string(e.reconciler), e.report, e.start_delay.count(), e.duration.count(), e.missed,
                     e.consecutive_failures});
    running = nullptr;
  }
  const reconcile::Progress* running = nullptr;  // of the tick under way
  std::vector<Heard> heard;
};

inline TickReport failure(pg::Error::Kind kind, const std::string& message,
                          const std::string& sqlstate = {}) {
  TickReport report;
  report.failure.emplace(kind, message, sqlstate);
  ++report.errors[std::string(report.failure->error_class())];
  return report;
}

/// A runner whose tick does what the test says, on a clock that the test moves.
struct RunnerBench {
  Runner::Step step() { return runner.step(clock.now(), stop.get_token()); }

  test::LogCapture log{spdlog::level::debug};
  test::ManualClock clock;
  Listener listener;
  std::stop_source stop;
  std::function<TickReport(const TickOptions&)> tick = [](const TickOptions&) { return TickReport{}; };
  std::function<bool(SteadyTime)> unchanged = [](SteadyTime) { return false; };
  std::function<bool(SteadyTime)> unchanged_for_companions = [](SteadyTime) { return false; };
  std::function<bool(SteadyTime)> unchanged_for_shortcuts = [](SteadyTime) { return false; };
  Runner runner{"promoter",
                false,
                {true, 1000ms},
                [this](const TickOptions& o) { return tick(o); },
                {.first = [this](SteadyTime since) { return unchanged(since); },
                 .companions = [this](SteadyTime since) { return unchanged_for_companions(since); },
                 .shortcuts = [this](SteadyTime since) { return unchanged_for_shortcuts(since); }},
                listener,
                clock};
};

/// Steps whenever the runner wants to for half a minute, and tells at which seconds the first pair scanned and at
/// which its companions did, with an interval of a second for the one and of five for the others.
struct Scans {
  std::vector<int> first, companions;
};
inline Scans scans_in_half_a_minute(RunnerBench& bench, const std::function<void(TickReport&)>& found = {}) {
  Scans seen;
  const SteadyTime started = bench.clock.now();
  bench.runner.change({true, 1000ms, 5000ms}, [] {});
  bench.tick = [&](const TickOptions& options) {
    const int second = static_cast<int>((bench.clock.now() - started) / 1s);
    CHECK(options.in_slices);
    CHECK((!options.companions_scan || options.companions_scan_ahead >= 10s));
    CHECK_FALSE((options.scan && options.companions_scan));
    if (options.scan) seen.first.push_back(second);
    if (options.companions_scan) seen.companions.push_back(second);
    TickReport report;
    report.database_time = unix_millis(5'000'000);
    report.known_until = report.companions_known_until = report.database_time + 10min;
    if (found) found(report);
    return report;
  };
  while (bench.clock.now() < started + 30s) {
    const auto step = bench.step();
    bench.clock.advance(std::chrono::ceil<Milliseconds>(step.next - bench.clock.now()));
  }
  return seen;
}

}  // namespace ff::supervisor
