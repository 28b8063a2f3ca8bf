#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.hpp"

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

/// What next_run has to know of a run that ended.
struct LastRun {
  SteadyTime started;
  SteadyTime finished;
  bool more = false;                   ///< it left due rows that it had not read
  Milliseconds wait{0};                ///< with `more`: not to be tried before
  int consecutive_failures = 0;        ///< this run included
  bool database_away = false;          ///< it failed because the connection broke, or was to a standby
  std::optional<SteadyTime> next_due;  ///< when the next row that has been seen coming may be taken
  SteadyTime next_scan{};              ///< as next_scan() said after the last run that scanned
  std::optional<SteadyTime> companions_scan{};  ///< the same for the companions, where there are any
};

struct NextRun {
  SteadyTime at;
  bool scan;  ///< scan for rows; otherwise take those that are upcoming
  friend bool operator==(const NextRun&, const NextRun&) = default;
};

/// When to scan again after a scan that began at `scanned`: an interval later, stretched by up to 10% of
/// itself, or where it did not see everything that far ahead, at `known_until`. Like next_run a pure function;
/// `jitter` is a random number from 0 to 1 that keeps replicas out of step.
SteadyTime next_scan(Milliseconds interval, SteadyTime scanned, std::optional<SteadyTime> known_until,
                     double jitter);

/// Not to scan again before, after a scan that found nothing: four times as long as it took later, at most an
/// interval. One that reads through a large backlog of which nothing is its own leaves the server to
/// those who work it off.
SteadyTime rested_from_scan(Milliseconds interval, SteadyTime started, SteadyTime finished);

/// How long an interval may become while it is certain that nothing has changed, in case it is not: ten times
/// as long, at most half a minute.
Milliseconds safety_interval(Milliseconds interval);

/// When to run again.
///
///   failed     finished + min(interval * 2^(failures - 1), 30 s), stretched by up to 25% of itself: a scan; where the
///              database was away, 3 s instead of 30 s: whoever watches it says when it is back
///   more       finished + wait: a scan
///   otherwise  the first of next_due, companions_scan and next_scan; not before finished, and where the
///              interval is not over yet, not before finished + a breath as long as the run was (at least
///              2 ms), so that rows that fall due one by one are taken together
NextRun next_run(Milliseconds interval, const LastRun& last, double jitter);

/// How long to wait before a database that was away is tried again: 0.5 s, doubling, each between half and the whole of
/// that. To 1 s, however long the outage: twice as often as it is asked while all is well, so that nobody waits for more
/// than that once it is back. To 8 s where it has `refused` who we are, which fills its log and does not pass by itself.
/// `failures` counts from 1.
Milliseconds reconnect_delay(int failures, bool refused, double jitter);

/// Whether it is certain that since this moment no row was written that a scan could find. Empty: it never is.
using UnchangedSince = std::function<bool(SteadyTime since)>;
/// The same of a scan at the first pair, of one at the companions, and of one at the shortcuts.
struct Unchanged {
  UnchangedSince first;
  UnchangedSince companions;
  UnchangedSince shortcuts;
};

/// What one run is to do.
struct Turn {
  bool first = false;  ///< it is time for a scan at the first pair
  bool scan = false;   ///< that scan is not skipped
  bool companions = false;
  bool shortcuts = false;
  Milliseconds ahead{0};             ///< so far a scan sees
  Milliseconds companions_ahead{0};  ///< the same of theirs
};

/// A run that ended, and what it found; counts are of rows, and moments by our clock.
struct Run {
  Turn turn;
  SteadyTime started;
  SteadyTime finished;
  bool failed = false;
  bool has_waited = false;     ///< why: as long as it may, for a lock or an answer
  bool database_away = false;  ///< why: see LastRun
  bool rested = false;         ///< the first pair was to scan and did not: it is too soon for what that costs
  bool companions_rested = false;
  bool more = false;  ///< as in LastRun, as is the next
  Milliseconds wait{0};
  bool paged = false;  ///< what falls due next was not seen everywhere
  std::int64_t found = 0;
  std::int64_t watched = 0;  ///< none of the found: they have to stand still first
  std::int64_t moved = 0;
  std::optional<SteadyTime> next_due{};     ///< when the next row that has been seen coming may be taken
  std::optional<SteadyTime> known_until{};  ///< what falls due before that was seen
  std::optional<SteadyTime> companions_known_until{};
};

/// One reconciler's time: what each of its runs is to do, and when the next one is. It is a function of time, of what runs
/// have found and of what is known to be unchanged, and knows neither threads nor a database. While nothing can be new and all
/// that was found has been moved, scans are skipped for up to the safety interval, and those at the shortcuts for as long as
/// that is so: a shortcut sees what was announced in the last seconds only. Whether anything can be new may have to be asked of
/// the database, so it is asked only where a scan is due. Not thread-safe.
class Schedule {
 public:
  /// `jitter`: a random number from 0 to 1, another each time.
  explicit Schedule(std::function<double()> jitter) : jitter_(std::move(jitter)) {}

  /// First pair, companions and shortcuts in turn, so that none waits for a backlog of another.
  Turn begin(const Timing& timing, SteadyTime now, const Unchanged& unchanged);
  /// When to run again.
  SteadyTime end(const Timing& timing, const Run& run);

  /// The next run scans, whatever was known.
  void scan_at_once();
  /// What is scanned, or how often, is another now.
  void start_over();
  /// How often in a row the first pair, the companions or the shortcuts have failed: whichever of them most often. A
  /// success of one says nothing of another.
  int failures() const;

 private:
  /// The scans of one kind.
  struct Line {
    struct Scan {
      SteadyTime at;
      bool settled;                             // all that was due then, or has been since, was moved
      std::optional<SteadyTime> known_until{};  // it has seen what falls due before that
    };
    std::optional<SteadyTime> next{};  // nothing: at once
    std::optional<Scan> last{};
    bool had_turn = false;  // in the last run
    int failures = 0;       // in a row
  };
  static bool has_seen(const Line& line, Milliseconds interval, SteadyTime now);
  Line* line_of(const Run& run);
  void count_failure(const Run& run);
  int failures_to_pause_for(const Run& run);
  void note_last(const Run& run);
  void note_first(Milliseconds interval, const Run& run);
  void note_companions(const Timing& timing, const Run& run);

  std::function<double()> jitter_;
  Line first_;
  Line companions_;
  Line shortcuts_;
};

}  // namespace ff::supervisor
