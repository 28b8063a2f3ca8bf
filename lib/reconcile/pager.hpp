#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "reconcile/backlog.hpp"
#include "reconcile/duty_cycle.hpp"
#include "reconcile/report.hpp"
#include "reconcile/slow_groups.hpp"
#include "reconcile/walk.hpp"
#include "reconcile/worker.hpp"

namespace ff::reconcile {

/// Up to `limit` rows of each of these partitions, which are of one group, oldest first, that are due at `from` or later,
/// or will be within `ahead`.
pg::Call page(const Job& job, const Partitions& partitions, const Slice& slice, int limit, Milliseconds ahead,
              UnixMillis from = UnixMillis::min());

/// The rows that page, rest or of_execution show, of several statements in one round trip. Throws pg::Error.
std::vector<Candidate> candidates_of(Job& job, Worker& worker, const std::vector<pg::Call>& calls);

/// How much is due in these slices, up to `cap`. Throws pg::Error.
Backlog count_due(const Job& job, pg::Connection& connection, const std::vector<GroupSlice>& slices,
                  std::int64_t cap);

/// What is due in some partitions of one group, page by page. As long as all that a page shows is moved, the next one has
/// the same beginning; what could not be moved hides nothing behind it.
class Pager {
 public:
  /// `partitions` are of one group, and `slices` are theirs where the pair walks.
  /// `from`: only what is due at that moment or later.
  Pager(Job& job, Partitions partitions, Slice slice = {}, UnixMillis from = UnixMillis::min());

  /// The next page: empty where nothing is left. `all_moved`: of the last one, every row. Throws pg::Error.
  std::vector<Candidate> next(Worker& worker, bool all_moved);
  bool done() const { return begun_ && ends_.empty(); }

 private:
  static constexpr UnixMillis kBeforeAll = UnixMillis::min();

  /// Where a full page of one partition ended.
  struct End {
    PartitionKey partition;
    UnixMillis due_at;
    std::set<RowKey> shown;         // its rows of that moment
    std::optional<Candidate> last;  // behind which to go on, once a row has stayed
    bool by_key = false;            // a row has stayed
  };

  std::vector<Candidate> first(Worker& worker);
  std::vector<Candidate> more_of(End& end, Worker& worker, bool& full);
  static std::vector<End> ends_of_full_pages(const std::vector<Candidate>& rows, std::size_t full);
  pg::Call rest_of(const End& end, int limit) const;

  Job& job_;
  Partitions partitions_;
  Slice slice_;
  UnixMillis from_;
  bool begun_ = false;
  bool first_page_ = true;  // was shown last
  bool of_last_ = false;    // what was shown last is of the partition at the back of ends_
  std::vector<End> ends_;   // of the partitions that may have more
};

/// A partition that shows this many due rows in a scan is paged through; the others show all that is due there
/// and, behind it, what falls due next.
constexpr int kScanDepth = 4;

/// What a scan has read, and what that has shown.
struct Seen {
  std::vector<Candidate> few;                        ///< all due rows of the partitions that have few
  std::vector<Candidate> oldest_of_many;             ///< the oldest row of each partition that may have more
  std::vector<Candidate> coming;                     ///< rows that are not due yet
  std::optional<UnixMillis> cut_off;                 ///< there may be more rows coming behind this due time
  std::map<PartitionKey, UnixMillis> oldest_due_in;  ///< of each partition with a due row

  std::vector<GroupSlice> slices;  ///< what was read
  SteadyTime::duration took{};     ///< to read it
  UnixMillis due_now{};            ///< what fell due by then could be taken when it was read
  UnixMillis up_to{};              ///< as far ahead it was read: due times

  /// How many rows are due: at least so many, where a partition shows as many as it may show.
  std::int64_t due() const;
};

/// A pager for each group of which a scan has shown partitions with much due, the group that has waited longest first, but
/// begun anywhere and gone round: so that replicas that meet the same backlog do not meet at each group.
std::vector<Pager> pagers_of(Job& job, const Seen& seen);

/// What a pair's next scan reads, when one is worth it, and what it shows. Most pairs have an index that leads to what is due: each of
/// their scans reads all partitions. Of the others, where a scan is one of many (TickOptions::in_slices),
///
///   - one that walks (Reconciler::walk) reads the next slice of its table,
///   - one that reads some groups of partitions (groups_a_scan) the next of these,
///   - one that searches sees as far ahead as the next scan may be away: beside either of the others, or reading all.
///
/// A walk and a search rest between two scans: the longer, the longer these take. A walk that has moved something rests no
/// longer than its interval, and at the end of its table not at all: a small one costs little, however busy the server is.
/// A slice is as large as can be read quickly, for a row may stand for a million: it gets smaller where that takes long, and
/// all the more where the server gave it up; where it has one row, or partition, left that the server gives up, that is
/// passed by until the next round, with a warning.
/// Where a tick has no time for all that a scan showed, the next one reads the same. One thread at a time; what it decides is
/// for the tick under way, or the last one, by the options of that (Job::options).
class ScanCursor {
 public:
  explicit ScanCursor(Job& job) : job_(job) {}

  /// No scan yet: what was seen coming will do.
  bool rests() const;
  /// A scan shows nothing of what lies outside its part.
  bool reads_a_part() const;
  /// Whoever knows of rows by other means may be sooner than this pair's scans, which rest or read in parts.
  bool may_show_late() const;

  /// Scans what is next: the same until end_scan(). The tick's deadline is put off by as long as it takes. Throws pg::Error.
  Seen read(Worker& worker);
  /// The same of these slices, as far ahead. Where somebody holds a child of a table, or the server takes longer than
  /// statement_timeout for some partitions, the other groups are read all the same, and the latter left out of the next scans
  /// (see SlowGroups); that some could not be is the report's failure.
  Seen read(Worker& worker, std::vector<GroupSlice> slices, Milliseconds ahead);
  /// What a scan would come to: all that can be read now; where a scan is one of many and the pair walks, the next slice.
  /// Throws pg::Error.
  std::vector<GroupSlice> in_reach(pg::Connection& connection, bool in_slices);

  /// What was seen has been tried. Says in the report that there is more, where a walk came through a stretch with so much
  /// due that it goes on at once.
  void end_scan(TickReport& report, const Seen& seen);

  /// A rest ends at once where a tick has left rows or failed, and after an interval where some were locked.
  void end_tick(const TickReport& report);

  /// Whatever is due may be another now: the next scan does not wait.
  void end_rest() {
    duty_.end_rest();
    slow_.clear();
  }

 private:
  int depth() const;
  Milliseconds ahead() const;
  std::int64_t rows_in_slice() const;
  void fit_slices(const Seen& seen);
  void give_up();
  std::vector<GroupSlice> next(pg::Connection& connection);
  std::vector<GroupSlice> next_slice(pg::Connection& connection);
  std::vector<Candidate> scan(Worker& worker, std::vector<GroupSlice> slices, Milliseconds ahead);

  // Half a percent of the time goes into scans, if no rest is longer than that.
  static constexpr int kRestToRun = 200;
  static constexpr Milliseconds kLongestRest{120'000};

  Job& job_;
  Walker walker_;
  bool is_under_way_ = false;  // a scan, in this tick
  std::int64_t smaller_ = 1;   // a slice has a so-manyth of the rows that it may have
  std::size_t first_group_ = 0;
  SlowGroups slow_;
  DutyCycle duty_{kRestToRun, kLongestRest};
};

}  // namespace ff::reconcile
