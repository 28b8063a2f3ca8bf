#include "reconcile/pager.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <random>

#include "pg/transaction.hpp"
#include "reconcile/breaker.hpp"

namespace ff::reconcile {
namespace {

// How many batches a page of a single partition has: so that there is something to share.
constexpr int kBatchesAPage = 4;

// Where one in so many rows of a stretch was due, a walk goes on at once. So what is overdue stays a tenth of the table,
// however large that is and however many fall due.
constexpr std::int64_t kRich = 10;

// Of each partition, so that what comes until the next search is among them; and what a shortcut may find at once.
constexpr int kSearchDepth = 64;
constexpr int kShortcutDepth = 1000;

// So long it may take to read a slice: it is read twice where a partition has much, and a tick has a second.
constexpr Milliseconds kLongSlice{500};
constexpr std::int64_t kSmallerWhereGivenUp = 8;

// So many groups of partitions more than could be read may be locked, before it is taken for a lock on all of them.
constexpr std::size_t kMostLocked = 2;

std::vector<Partitions> by_group(const Groups& groups, std::vector<Candidate> oldest) {
  std::ranges::sort(oldest, {}, &Candidate::due_at);
  std::vector<Partitions> found;
  std::map<std::size_t, std::size_t> place_of;
  for (const Candidate& row : oldest) {
    const auto [place, is_new] = place_of.emplace(groups.of(row.key.partition), found.size());
    if (is_new) found.emplace_back();
    found[place->second].push_back(row.key.partition);
  }
  static thread_local std::minstd_rand random{std::random_device{}()};
  if (!found.empty())
    std::rotate(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(random() % found.size()),
                found.end());
  return found;
}

Slice slice_of(const std::vector<GroupSlice>& slices, std::size_t group) {
  const auto found = std::ranges::find(slices, group, &GroupSlice::group);
  return found == slices.end() ? Slice{} : found->slice;
}

// Of the rows of a scan, at most `depth` of each partition, those of one together and the oldest first.
Seen sort_out(const std::vector<Candidate>& rows, int depth) {
  Seen seen;
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i;
    while (end < rows.size() && rows[end].key.partition == rows[i].key.partition) ++end;
    const bool full = end - i == static_cast<std::size_t>(depth);
    const bool many = i + kScanDepth <= end && rows[i + kScanDepth - 1].due;
    const Candidate& last = rows[end - 1];
    if (rows[i].due) seen.oldest_due_in.emplace(rows[i].key.partition, rows[i].due_at);
    if (many) seen.oldest_of_many.push_back(rows[i]);
    if (full && !last.due && (!seen.cut_off || last.due_at < *seen.cut_off)) seen.cut_off = last.due_at;
    for (; i < end; ++i) {
      if (!rows[i].due)
        seen.coming.push_back(rows[i]);
      else if (!many)
        seen.few.push_back(rows[i]);
    }
  }
  return seen;
}

// Somebody holds a table of that group, or the server has given up its statement. Of a walk the slice was too large.
bool is_of_one_group(const pg::Error& error, const Job& job) {
  return error.table_locked() ||
         (error.canceled() && !job.reconciler.walk && !job.options.stop.stop_requested());
}

}  // namespace

std::vector<Candidate> candidates_of(Job& job, Worker& worker, const std::vector<pg::Call>& calls) {
  const Answers answers = worker.ask(calls);
  const std::size_t columns = job.reconciler.key.size();
  const int due_at = static_cast<int>(columns) + 1;
  TickReport& report = worker.report();
  std::vector<Candidate> found;
  for (const pg::Result& rows : answers.results)
    for (const pg::Row row : rows) {
      const auto now = unix_millis(row.get<std::int64_t>(due_at + 2));
      if (found.empty()) job.learn_time({answers.asked, answers.answered, now});
      if (report.database_time == UnixMillis{}) report.database_time = now;
      if (row.is_null(0)) break;  // nothing was found: the row tells the time only
      found.push_back({read_key(row, columns), unix_millis(row.get<std::int64_t>(due_at)),
                       row.get<bool>(due_at + 1), now});
      if (job.whose() && rows.columns() > due_at + 3) {
        found.back().name_space = row.get<std::optional<std::string>>(due_at + 3).value_or("");
        found.back().holder = row.get<std::optional<std::string>>(due_at + 4).value_or("");
      }
    }
  return found;
}

pg::Call page(const Job& job, const Partitions& partitions, const Slice& slice, int limit, Milliseconds ahead,
              UnixMillis from) {
  pg::Params params = job.params(partitions, slice);
  params.add(static_cast<std::int64_t>(limit));
  params.add(static_cast<std::int64_t>(ahead.count()));
  params.add(count(from));
  const Partitions group =
      partitions.empty() ? job.groups.all().front() : job.groups.around(partitions.front());
  const Statement& statement = job.whose() ? job.statements.page_whose : job.statements.page;
  return {statement.over(group), std::move(params)};
}

Pager::Pager(Job& job, Partitions partitions, Slice slice, UnixMillis from)
    : job_(job), partitions_(std::move(partitions)), slice_(slice), from_(from) {}

std::vector<Candidate> Pager::next(Worker& worker, bool all_moved) {
  if (!begun_) return first(worker);
  for (End& end : ends_)
    end.by_key = end.by_key || (!all_moved && (first_page_ || (of_last_ && &end == &ends_.back())));
  first_page_ = false;
  // Until something is shown: a partition's next page may hold only rows that were shown before.
  while (!ends_.empty()) {
    auto rows = more_of(ends_.back(), worker, of_last_);
    if (!of_last_) ends_.pop_back();
    if (!rows.empty()) return rows;
  }
  return {};
}

// Several partitions share the first page; those that have more are then paged through one by one.
std::vector<Candidate> Pager::first(Worker& worker) {
  begun_ = true;
  // Of several, half a batch of each: so that the rows of all of them fit into little memory.
  const int batch = job_.scope.batch_size;
  const int most = partitions_.size() == 1 ? batch : std::max(1, batch / 2);
  auto rows = candidates_of(job_, worker, {page(job_, partitions_, slice_, most, Milliseconds{0}, from_)});
  ends_ = ends_of_full_pages(rows, static_cast<std::size_t>(most));
  return rows;
}

std::vector<Pager::End> Pager::ends_of_full_pages(const std::vector<Candidate>& rows, std::size_t full) {
  std::vector<End> ends;
  for (std::size_t from = 0, to = 0; from < rows.size(); from = to) {
    while (to < rows.size() && rows[to].key.partition == rows[from].key.partition) ++to;
    if (to - from < full) continue;
    End end{rows[to - 1].key.partition, rows[to - 1].due_at, {}, {}};
    for (std::size_t i = to; i > from && rows[i - 1].due_at == end.due_at; --i)
      end.shown.insert(rows[i - 1].key);
    ends.push_back(std::move(end));
  }
  std::ranges::reverse(ends);  // next() takes the last
  return ends;
}

// Once a row has stayed it goes by due time and key, which costs a sort of all rows of the moment.
std::vector<Candidate> Pager::more_of(End& end, Worker& worker, bool& full) {
  const int most = kBatchesAPage * job_.scope.batch_size;
  auto rows =
      candidates_of(job_, worker,
                    {end.by_key ? rest_of(end, most)
                                : page(job_, {end.partition}, slice_, most, Milliseconds{0}, end.due_at)});
  full = rows.size() == static_cast<std::size_t>(most);
  if (full && end.by_key) {
    end.last = rows.back();
  } else if (full) {
    end = std::move(ends_of_full_pages(rows, rows.size()).front());
    return rows;
  }
  if (end.by_key) std::erase_if(rows, [&](const Candidate& row) { return end.shown.contains(row.key); });
  return rows;
}

// Due rows behind the last one; where there is none yet, those of the page's last moment again and all behind.
pg::Call Pager::rest_of(const End& end, int limit) const {
  pg::Params params = job_.params({end.partition}, slice_);
  params.add(static_cast<std::int64_t>(limit));
  params.add(std::int64_t{0});
  params.add(end.last ? count(end.last->due_at) : std::max(count(end.due_at), count(kBeforeAll) + 1) - 1);
  for (std::size_t i = 0; i < job_.reconciler.key.size(); ++i)
    params.add(end.last ? std::optional(end.last->key.columns[i]) : std::nullopt);
  const Statement& statement = job_.whose() ? job_.statements.rest_whose : job_.statements.rest;
  return {statement.over(job_.groups.around(end.partition)), std::move(params)};
}

Backlog count_due(const Job& job, pg::Connection& connection, const std::vector<GroupSlice>& slices,
                  std::int64_t cap) {
  Backlog backlog;
  for (const auto& [group, slice] : slices) {
    const Partitions& partitions = job.groups.all()[group];
    pg::Params params = job.params(slice.partitions_of(partitions), slice);
    params.add(cap - backlog.due);
    pg::Transaction transaction(connection, {.plan = pg::Plan::generic});
    const pg::Result counted =
        std::move(transaction.read_all({{job.statements.backlog.over(partitions), params}}).front());
    const pg::Row row = counted.one();
    backlog.due += row.get<std::int64_t>("due");
    if (const auto oldest = row.get<std::optional<std::int64_t>>("oldest_due_ms"))
      keep_earlier(backlog.oldest_due, job.late_since(unix_millis(*oldest)));
    backlog.database_time = unix_millis(row.get<std::int64_t>("now_ms"));
    if (backlog.due >= cap) backlog.capped = true;
    if (backlog.due >= cap) break;
  }
  return backlog;
}

// Of a partition that shows many there may be any number more: enough for the breaker to count them.
std::int64_t Seen::due() const {
  const auto shown = static_cast<std::int64_t>(few.size() + kScanDepth * oldest_of_many.size());
  return oldest_of_many.empty() ? shown : std::max(shown, Breaker::kLeastLeases);
}

std::vector<Pager> pagers_of(Job& job, const Seen& seen) {
  std::vector<Pager> pagers;
  for (const Partitions& partitions : by_group(job.groups, seen.oldest_of_many))
    pagers.emplace_back(job, partitions, slice_of(seen.slices, job.groups.of(partitions.front())));
  return pagers;
}

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
  return walker_.next(job_, connection, rows_in_slice());
}

std::int64_t ScanCursor::rows_in_slice() const {
  return std::max<std::int64_t>(1, job_.reconciler.walk->rows / smaller_);
}

void ScanCursor::fit_slices(const Seen& seen) {
  if (seen.slices.empty() || seen.slices.front().slice == Slice::nothing()) return;
  if (seen.took > kLongSlice && rows_in_slice() > 1)
    smaller_ *= 2;
  else if (4 * seen.took < kLongSlice && smaller_ > 1)
    smaller_ /= 2;
}

void ScanCursor::give_up() {
  if (rows_in_slice() > 1) {
    smaller_ = std::min<std::int64_t>(smaller_ * kSmallerWhereGivenUp, job_.reconciler.walk->rows);
    return;
  }
  const Slice::Place after = walker_.place();
  spdlog::warn(
      "{}: what comes next in {} takes longer to look at than statement_timeout, and is passed by: behind {} "
      "in partition {}",
      job_.reconciler.name, job_.reconciler.walk->table, to_string(after.key), after.partition.value);
  walker_.go_on();
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

std::vector<GroupSlice> ScanCursor::in_reach(pg::Connection& connection, bool in_slices) {
  if (in_slices && job_.reconciler.walk) return next_slice(connection);
  auto slices = whole(job_.groups);
  slow_.leave_out(slices, job_.clock.now());
  return slices;
}

Seen ScanCursor::read(Worker& worker) {
  const SteadyTime began = job_.clock.now();
  is_under_way_ = true;
  auto slices = next(worker.connection());
  job_.still_rows.begin_scan(began);
  job_.quarantine.begin_scan();
  Seen seen = read(worker, std::move(slices), ahead());
  seen.took = job_.clock.now() - began;
  if (job_.options.deadline != SteadyTime::max()) job_.deadline = job_.options.deadline + seen.took;
  return seen;
}

// The oldest rows of each partition of these slices. A group that cannot be read is left out, and is the report's failure.
std::vector<Candidate> ScanCursor::scan(Worker& worker, std::vector<GroupSlice> slices, Milliseconds ahead) {
  std::erase_if(slices,
                [&](const GroupSlice& each) { return !job_.is_worth_a_scan(job_.groups.all()[each.group]); });
  if (const pg::Error* const why = slow_.leave_out(slices, job_.clock.now())) worker.report().failure = *why;
  std::vector<Candidate> all;
  std::size_t read = 0;
  std::size_t failed = 0;
  for (std::size_t from = 0; from < slices.size();) {
    const std::size_t most = job_.one_group_each ? 1 : job_.statements.page.groups_together();
    const std::size_t to = std::min(from + most, slices.size());
    std::vector<pg::Call> calls;
    for (std::size_t i = from; i < to; ++i)
      calls.push_back(page(job_, slices[i].slice.partitions_of(job_.groups.all()[slices[i].group]),
                           slices[i].slice, depth(), ahead));
    try {
      std::ranges::move(candidates_of(job_, worker, calls), std::back_inserter(all));
      read += to - from;
      for (std::size_t i = from; i < to; ++i) slow_.was_read(slices[i].group);
    } catch (const pg::Error& error) {
      if (!is_of_one_group(error, job_)) throw;
      if (to - from > 1) {
        job_.one_group_each = true;
        continue;
      }
      if (error.canceled()) slow_.gave_up(slices[from].group, job_.clock.now(), error);
      // Each has cost the longest wait for a lock, or the far longer one for an answer.
      if (++failed > read + (error.canceled() ? 0 : kMostLocked) || slices.size() == 1) throw;
      worker.report().failure = error;
    }
    from = to;
  }
  return all;
}

Seen ScanCursor::read(Worker& worker, std::vector<GroupSlice> slices, Milliseconds ahead) {
  Seen seen = sort_out(scan(worker, slices, ahead), depth());
  seen.slices = std::move(slices);
  seen.due_now = worker.report().database_time - job_.holdoff();
  seen.up_to = seen.due_now + ahead;
  return seen;
}

// Behind the cut-off the scan may not have shown what falls due; where there is none, it has, as far as it saw ahead.
void ScanCursor::end_scan(TickReport& report, const Seen& seen) {
  is_under_way_ = false;
  const std::vector<GroupSlice>& slices = seen.slices;
  const Reconciler& pair = job_.reconciler;
  const SteadyTime now = job_.clock.now();
  if (pair.walk && job_.options.in_slices) fit_slices(seen);
  // Where a table is read in one scan, or comes to its end, there is little to read, however long that took.
  const bool read_little = !slices.empty() && (slices.front().slice == Slice::nothing() || walker_.at_end());
  if (pair.searches || (pair.walk && !read_little)) duty_.ran(now, seen.took);
  // So that going round takes no longer than in slices that are not smaller.
  if (pair.walk && smaller_ > 1) duty_.rest_at_most_until(now + kLongestRest / smaller_);
  if (pair.searches && seen.cut_off) duty_.rest_at_most_until(now + (*seen.cut_off - seen.due_now));
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
  // What was given up is the scan itself, or the pages behind it.
  const bool gave_up = is_under_way_ && report.failure && report.failure->canceled();
  if (gave_up && job_.options.in_slices) {
    if (job_.reconciler.walk) give_up();
    // Not the same groups again, so that others have their turn.
    first_group_ += job_.reconciler.groups_a_scan;
  }
  is_under_way_ = false;
  if (report.more || report.failure) duty_.end_rest();
  if (report.skipped.contains(Skip::locked))
    duty_.rest_at_most_until(job_.clock.now() + job_.reconciler.interval);
}

}  // namespace ff::reconcile
