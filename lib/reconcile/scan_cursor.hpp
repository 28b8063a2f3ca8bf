#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "reconcile/duty_cycle.hpp"
#include "reconcile/report.hpp"
#include "reconcile/walk.hpp"

namespace ff::reconcile {

/// What a pair's next scan reads, and when one is worth it. Most pairs have an index that leads to what is due: each of
/// their scans reads all partitions. Of the others, where a scan is one of many (TickOptions::in_slices),
///
///   - one that walks (Reconciler::walk) reads the next slice of its table,
///   - one that reads some groups of partitions (groups_a_scan) the next of these,
///   - one that searches sees as far ahead as the next scan may be away: beside either of the others, or reading all.
///
/// A walk and a search rest between two scans: the longer, the longer these take. A walk that has moved something rests no
/// longer than its interval, and at the end of its table not at all: a small one costs little, however busy the server is.
/// Where a tick has no time for all that a scan showed, the next one reads the same. One thread at a time; what it decides is
/// for the tick under way, or the last one, by the options of that (Job::options).
class ScanCursor {
 public:
  explicit ScanCursor(const Job& job) : job_(job) {}

  /// No scan yet: what was seen coming will do.
  bool rests() const;
  /// A scan shows nothing of what lies outside its part.
  bool reads_a_part() const;
  /// So many rows of each partition it shows.
  int depth() const;
  /// What falls due so much later it shows as well.
  Milliseconds ahead() const;
  /// Whoever knows of rows by other means may be sooner than this pair's scans, which rest or read in parts.
  bool may_show_late() const;

  /// What the next scan reads: the same until end_scan(). Throws pg::Error.
  std::vector<GroupSlice> next(pg::Connection& connection);
  /// The same of a pair that walks, where a scan is one of many.
  std::vector<GroupSlice> next_slice(pg::Connection& connection);

  /// These were read, which `took` so long, and what was found has been tried. `shows_for`: what falls due later than that
  /// from now it may not have shown; nothing: it has, as far as it saw ahead. Says in the report that there is more, where
  /// a walk came through a stretch with so much due that it goes on at once.
  void end_scan(TickReport& report, const std::vector<GroupSlice>& slices, SteadyTime::duration took,
                std::optional<Milliseconds> shows_for);

  /// A rest ends at once where a tick has left rows or failed, and after an interval where some were locked.
  void end_tick(const TickReport& report);

  /// Whatever is due may be another now: the next scan does not wait.
  void end_rest() { duty_.end_rest(); }

 private:
  // Half a percent of the time goes into scans, if no rest is longer than that.
  static constexpr int kRestToRun = 200;
  static constexpr Milliseconds kLongestRest{120'000};

  const Job& job_;
  Walker walker_;
  std::size_t first_group_ = 0;
  DutyCycle duty_{kRestToRun, kLongestRest};
};

}  // namespace ff::reconcile
