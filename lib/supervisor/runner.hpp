#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reconcile/engine.hpp"
#include "supervisor/observer.hpp"
#include "supervisor/schedule.hpp"

namespace ff::supervisor {

/// When a reconciler runs, if at all. It can change while it runs.
struct Timing {
  bool enabled = true;
  Milliseconds interval{1000};
  /// Of the companions: how often it is worth scanning for rows that cost more to find. Nothing: there are none.
  std::optional<Milliseconds> companions{};
  /// Of those companions that scan where announcements lead. Nothing: there are none.
  std::optional<Milliseconds> shortcuts{};
  /// Who is to look for work at once when it has moved something.
  std::vector<std::string_view> wakes{};
};

/// One reconciler's ticks, one after the other, each reported to the observer and logged, and the
/// decision when the next one is due.
class Runner {
 public:
  using Tick = std::function<reconcile::TickReport(const reconcile::TickOptions&)>;
  /// Whether it is certain that since this moment no row was written that a scan could find.
  using UnchangedSince = std::function<bool(SteadyTime since)>;
  /// The same of a scan at the first pair, and of one at the shortcuts.
  struct Unchanged {
    UnchangedSince first;
    UnchangedSince shortcuts;
  };

  /// While nothing is announced and all that was found has been moved, scans are skipped for up to the safety interval, and
  /// those at the shortcuts for as long as that is so.
  Runner(std::string name, bool takes_leases, Timing timing, Tick tick, Unchanged unchanged,
         Observer& observer, const Clock& clock);

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
  /// The last scan.
  struct Scan {
    SteadyTime at;
    std::optional<SteadyTime> known_until;  ///< it has seen what falls due before that
    bool settled;                           ///< all that was due then, or has been since, was moved
  };

  /// Whose turn it is to be scanned.
  struct Wanted {
    bool first = false;  ///< may be skipped
    bool companions = false;
    bool shortcuts = false;
  };

  /// A tick that has ended.
  struct Turn {
    SteadyTime started;
    SteadyTime finished;
    bool scan_wanted;
    bool scanned;  ///< a scan that is wanted may be skipped
  };

  void take_over_changes();
  Wanted wanted(const Timing& timing, SteadyTime now);
  reconcile::TickReport tick(const reconcile::TickOptions& options) const;
  int failures_to_back_off_from(const reconcile::TickReport& report) const;
  void note_scan(const Turn& turn, Milliseconds interval, const reconcile::TickReport& report,
                 std::optional<SteadyTime> known_until);
  void note_companions(const Wanted& scanned, const Turn& turn, const Timing& timing,
                       const reconcile::TickReport& report);
  std::optional<SteadyTime> next_of_companions(const Timing& timing, SteadyTime now) const;
  bool is_unchanged() const;
  bool scan_is_skipped(SteadyTime now, Milliseconds interval) const;
  bool shortcuts_are_skipped() const;
  void log(const reconcile::TickReport& report, bool scans);
  void log_hold(const reconcile::TickReport& report);

  const std::string name_;
  const bool takes_leases_;
  const Tick tick_;
  const Unchanged unchanged_;
  Observer& observer_;
  const Clock& clock_;

  mutable std::mutex mutex_;
  Timing timing_;
  std::function<void()> apply_;

  std::optional<SteadyTime> next_scan_;             // nothing: at once
  std::optional<SteadyTime> next_companions_scan_;  // the same
  bool companions_had_turn_ = false;
  std::optional<SteadyTime> next_shortcuts_scan_;  // the same
  bool shortcuts_had_turn_ = false;
  std::optional<Scan> last_shortcuts_scan_;
  std::optional<Scan> last_scan_;
  std::optional<reconcile::Hold> hold_;  // as logged
  reconcile::Progress progress_;         // of the tick under way
  reconcile::TickReport unlogged_;       // counts of the ticks since the last line
  int consecutive_failures_ = 0;
  std::string last_failure_;  // as logged, so that a repetition is counted instead
  SteadyTime last_failure_logged_;
  std::int64_t failures_unlogged_ = 0;
};

/// How long one tick goes on starting batches before it lets others run.
constexpr Milliseconds kTickBudget{1000};

}  // namespace ff::supervisor
