#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reconcile/engine.hpp"
#include "supervisor/observer.hpp"
#include "supervisor/schedule.hpp"

namespace ff::supervisor {

/// One reconciler's ticks, one after the other, each as its schedule has it, reported to the observer and logged.
class Runner {
 public:
  using Tick = std::function<reconcile::TickReport(const reconcile::TickOptions&)>;
  /// `release`: the command that releases what it holds, for the log; empty: the one without a configuration file.
  Runner(std::string name, bool takes_leases, Timing timing, Tick tick, Unchanged unchanged,
         Observer& observer, const Clock& clock, std::string release = {});

  const std::string& name() const { return name_; }
  bool takes_leases() const { return takes_leases_; }
  /// Safe from any thread.
  Timing timing() const;

  /// From the next tick on; `apply` is called before it, with no tick under way. Safe from any thread.
  void change(Timing timing, std::function<void()> apply);

  /// What a tick may start with: nothing throws out of it.
  struct Step {
    SteadyTime next;                        ///< when to run again
    bool check_database = false;            ///< the connection broke or the server took no writes
    std::vector<std::string_view> wakes{};  ///< who has work from what it did
  };
  /// When the database last answered in a tick. Safe from any thread.
  SteadyTime answered() const { return progress_.answered; }

  /// The next tick scans, whatever was known. Not while one runs.
  void wake();

  /// Runs one tick that was planned for `planned`. One at a time.
  Step step(SteadyTime planned, const std::stop_token& stop);

 private:
  /// A failure that repeats is counted instead.
  struct Said {
    SteadyTime at;
    std::int64_t times_since = 0;
  };

  void take_over_changes();
  reconcile::TickReport tick(const reconcile::TickOptions& options) const;
  void log(const reconcile::TickReport& report, bool scans);
  void log_failure(const std::string& failure);
  void log_hold(const reconcile::TickReport& report);

  const std::string name_;
  const std::string release_;
  const bool takes_leases_;
  const Tick tick_;
  const Unchanged unchanged_;
  Observer& observer_;
  const Clock& clock_;

  mutable std::mutex mutex_;
  Timing timing_;
  std::function<void()> apply_;

  Schedule schedule_;
  std::optional<reconcile::Hold> hold_;                // as logged
  reconcile::Progress progress_;                       // of the tick under way
  reconcile::TickReport unlogged_;                     // counts of the ticks since the last line
  std::map<std::string, Said, std::less<>> failures_;  // as logged, since all last went well
};

/// How long one tick goes on starting batches before it lets others run.
constexpr Milliseconds kTickBudget{1000};

}  // namespace ff::supervisor
