#include "reconcile/scan_cursor.hpp"

#include <algorithm>

#include "reconcile/seen.hpp"

namespace ff::reconcile {
namespace {

// Where one in so many rows of a stretch was due, a walk goes on at once. So what is overdue stays a tenth of the table,
// however large that is and however many fall due.
constexpr std::int64_t kRich = 10;

// Of each partition, so that what comes until the next search is among them; and what a shortcut may find at once.
constexpr int kSearchDepth = 64;
constexpr int kShortcutDepth = 1000;

}  // namespace

bool ScanCursor::rests() const {
  return job_.options.in_slices && duty_.rests(job_.clock.now());
}

bool ScanCursor::reads_a_part() const {
  return job_.options.in_slices && (job_.reconciler.walk || job_.reconciler.groups_a_scan > 0);
}

int ScanCursor::depth() const {
  if (job_.reconciler.is_shortcut) return kShortcutDepth;
  return job_.reconciler.searches ? kSearchDepth : kScanDepth;
}

Milliseconds ScanCursor::ahead() const {
  const Milliseconds asked = job_.options.scan_ahead;
  const bool may_be_seldom =
      job_.options.in_slices && (job_.reconciler.searches || job_.reconciler.is_shortcut);
  return may_be_seldom ? std::max(asked, 2 * kLongestRest) : asked;
}

bool ScanCursor::may_show_late() const {
  return !job_.reconciler.searches || duty_.may_rest_longer_than(job_.reconciler.interval);
}

std::vector<GroupSlice> ScanCursor::next_slice(pg::Connection& connection) {
  return walker_.next(job_, connection, job_.reconciler.walk->rows);
}

std::vector<GroupSlice> ScanCursor::next(pg::Connection& connection) {
  const Reconciler& pair = job_.reconciler;
  if (job_.options.in_slices && pair.walk) return next_slice(connection);
  auto slices = whole(job_.groups);
  if (!job_.options.in_slices || pair.groups_a_scan == 0 || pair.groups_a_scan >= slices.size())
    return slices;
  std::rotate(slices.begin(), slices.begin() + static_cast<std::ptrdiff_t>(first_group_ % slices.size()),
              slices.end());
  slices.resize(pair.groups_a_scan);
  return slices;
}

void ScanCursor::end_scan(TickReport& report, const std::vector<GroupSlice>& slices,
                          SteadyTime::duration took, std::optional<Milliseconds> shows_for) {
  const Reconciler& pair = job_.reconciler;
  const SteadyTime now = job_.clock.now();
  // Where a table is read in one scan, or comes to its end, there is little to read, however long that took.
  const bool read_little = !slices.empty() && (slices.front().slice == Slice::nothing() || walker_.at_end());
  if (pair.searches || (pair.walk && !read_little)) duty_.ran(now, took);
  if (pair.searches && shows_for) duty_.rest_at_most_until(now + *shows_for);
  if (pair.walk && report.processed > 0) duty_.rest_at_most_until(now + pair.interval);
  if (report.more || !job_.options.in_slices) return;
  if (pair.walk) {
    walker_.go_on();
    report.more = walker_.rows() > 0 && kRich * report.processed >= walker_.rows();
  } else if (pair.groups_a_scan > 0 && !slices.empty()) {
    first_group_ = (slices.back().group + 1) % job_.groups.size();
  }
}

void ScanCursor::end_tick(const TickReport& report) {
  if (report.more || report.failure) duty_.end_rest();
  if (report.skipped.contains(Skip::locked))
    duty_.rest_at_most_until(job_.clock.now() + job_.reconciler.interval);
}

}  // namespace ff::reconcile
