#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon.hpp"
#include "demo/database.hpp"
#include "demo/simulation/books.hpp"
#include "demo/simulation/workload.hpp"
#include "demo/view.hpp"

namespace ff::daemon {

/// The whole system of the demo: the daemon as `run` has it, simulated workers, and a look at both. In a
/// database that was given it keeps to a namespace and lane of its own. One thread.
class DemoSystem {
 public:
  /// Starts everything. `length` is only shown. The database must outlive it.
  DemoSystem(DemoDatabase& database, std::optional<Milliseconds> length);
  /// Ends at once whatever still runs.
  ~DemoSystem();
  DemoSystem(const DemoSystem&) = delete;
  DemoSystem& operator=(const DemoSystem&) = delete;

  /// What can be seen now. The database is asked about once a second, and less often when that takes long.
  Scene scene();
  /// What ended a simulated worker before its time.
  std::vector<std::string> errors() const { return workload_->errors(); }
  /// Throws pg::Error where the database is gone: the reason behind errors().
  void require_database() { connection_.execute("SELECT 1"); }

  /// No further work is begun.
  void finish();
  /// After finish(): all workers have ended, and nothing is left that a reconciler will have to move.
  bool settled();
  /// How long that takes at most, when all is well.
  Milliseconds longest_settling() const;

  /// Stops the daemon and compares workers, database and /metrics. Throws pg::Error, or std::runtime_error
  /// when workers are still at work or /metrics does not answer.
  std::vector<simulation::Verdict> close_books();

  const std::string& database() const { return database_.description(); }
  bool private_database() const { return database_.is_private(); }
  std::string page_url() const;
  std::string metrics_url() const;
  /// What stays in a database that was given, as text; empty for a private one.
  std::string remains() const;

 private:
  config::Config daemon_config() const;
  /// Empty: it is on.
  std::string why_off(const reconcile::Reconciler& reconciler) const;
  void poll();
  bool past_is_over();
  void stop_daemon();
  simulation::Verdict compare_metrics(const std::string& metrics, const simulation::Tally& tally) const;

  DemoDatabase& database_;
  const std::optional<Milliseconds> length_;
  const SteadyTime started_;
  const simulation::Realm realm_;
  pg::Connection connection_;
  std::unique_ptr<Daemon> daemon_;
  bool daemon_runs_ = false;
  std::unique_ptr<simulation::Workload> workload_;

  Rates rates_;
  simulation::Census census_;
  std::int64_t last_taken_ = 0;
  SteadyTime next_scan_{};
};

}  // namespace ff::daemon
