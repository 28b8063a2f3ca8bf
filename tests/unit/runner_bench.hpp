#pragma once

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

}  // namespace ff::supervisor
