#pragma once

#include <sstream>
#include <string>

#include "metrics/metrics.hpp"

/// What the tests of metrics share.
namespace ff::test {

/// A clock whose wall time stands still at 1700000000.
struct StandingClock final : Clock {
  SteadyTime now() const override { return {}; }
  UnixMillis wall() const override { return unix_millis(1'700'000'000'000); }
};
inline const StandingClock kClock;

inline metrics::Description two_reconcilers() {
  return {{{"attempt_timeout", {"retried", "failed"}}, {"lease_expiry", {"reclaimed"}}},
          {"0.1.0", "abc123", "g++ 12.2", "15.3"},
          8,
          false};
}

/// The value of a sample by its name and labels as they are written, without the common prefix.
inline std::string sample(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto start = "ff_reconciler_" + name + " ";
    if (line.starts_with(start)) return line.substr(start.size());
  }
  return "absent";
}
inline std::string sample(const metrics::Metrics& metrics, const std::string& name) {
  return sample(metrics.scrape(), name);
}

inline void tick(metrics::Metrics& metrics, const reconcile::TickReport& report,
                 const char* reconciler = "attempt_timeout") {
  using namespace std::chrono_literals;
  metrics.tick_finished({reconciler, report, 0.02s, 0.3s, 2, report.failure ? 3 : 0});
}

inline reconcile::TickReport busy_report() {
  using namespace std::chrono_literals;
  reconcile::TickReport report;
  report.complete = true;
  report.scanned = 9;
  report.processed = 4;
  report.outcomes = {{"retried", 3}, {"failed", 1}};
  report.skipped = {{reconcile::Skip::locked, 2}, {reconcile::Skip::quarantined, 1}};
  report.errors = {{"23", 2}};
  report.oldest_due = unix_millis(1'699'999'000'500);
  report.next_due = unix_millis(1'700'000'060'000);
  report.database_time = unix_millis(1'700'000'000'000);
  report.quarantined = 5;
  report.lateness = {1ms, 2ms, 40min, 3h};
  return report;
}

inline reconcile::TickReport lost_connection() {
  reconcile::TickReport report;
  report.failure = pg::Error(pg::Error::Kind::connection, "server closed the connection");
  report.errors = {{"connection", 1}};
  return report;
}

}  // namespace ff::test
