// How an engine asks what is due: whether a scan is worth it, over which partitions, and past those that somebody has
// locked.
#include <algorithm>
#include <iterator>

#include "pg/transaction.hpp"
#include "reconcile/engine.hpp"
#include "reconcile/pager.hpp"
#include "reconcile/seen.hpp"

namespace ff::reconcile {
namespace {

// So many groups of partitions more than could be read may be locked, before it is taken for a lock on all of them.
constexpr std::size_t kMostLocked = 2;

// Where one in so many rows of a stretch was due, a walk goes on at once. So what is overdue stays a tenth of the table,
// however large that is and however many fall due.
constexpr std::int64_t kRich = 10;

// Of the time, and as long as no search may be away.
constexpr int kShareOfSearch = 100;
constexpr Milliseconds kLongestBetweenSearches{60'000};

}  // namespace

int Engine::depth() const {
  const Reconciler& pair = job_->reconciler;
  return pair.is_shortcut ? kShortcutDepth : pair.searches ? kDeepScan : kScanDepth;
}

// As far as the next search may be away, where that is further than a scan is asked to see.
Milliseconds Engine::ahead() const {
  const Milliseconds asked = job_->options.scan_ahead;
  const bool may_be_seldom =
      job_->options.in_slices && (job_->reconciler.searches || job_->reconciler.is_shortcut);
  return may_be_seldom ? std::max(asked, 2 * kLongestBetweenSearches) : asked;
}

bool Engine::rests_from_search() const {
  return job_->options.in_slices && job_->reconciler.searches && !queue_read_until_ &&
         job_->clock.now() < search_again_at_;
}

// One that was long by itself may be that of a session that planned: only the second one is followed by a rest.
void Engine::end_search(SteadyTime::duration took) {
  if (!job_->reconciler.searches) return;
  const auto usual = std::min(took, search_took_.value_or(SteadyTime::duration{}));
  search_took_ = took;
  search_again_at_ =
      job_->clock.now() + std::min<SteadyTime::duration>(kShareOfSearch * usual, kLongestBetweenSearches);
}

bool Engine::is_behind() const {
  const Reconciler& pair = job_->reconciler;
  return !pair.searches || !search_took_ || kShareOfSearch * *search_took_ > pair.interval;
}

// The pair that finds in the end what a shortcut finds sooner.
Engine& Engine::pair_of(const Engine& shortcut) {
  const auto found = std::ranges::find_if(companions_, [&](const Engine& each) {
    return !each.reconciler().is_shortcut && each.reconciler().act == shortcut.reconciler().act;
  });
  return found == companions_.end() ? *this : *found;
}

void Engine::find_partitions(pg::Connection& connection) {
  const std::string_view count_query = job_->reconciler.partition_count;
  if (count_query.empty()) return;
  const auto count = connection.execute(count_query).one().get<std::int32_t>(0);
  if (static_cast<std::size_t>(count) == job_->groups.partitions()) return;
  job_->groups = Groups(partition_range({0}, {static_cast<std::int16_t>(count - 1)}));
}

// False: nothing would be found.
bool Engine::ask_first(Worker& worker) {
  if (!job_->prelude) return true;
  pg::Transaction transaction(worker.connection(), {.plan = pg::Plan::generic});
  const SteadyTime sent = job_->clock.now();
  const bool worth_a_scan = job_->ask(transaction);
  transaction.rollback();
  job_->learn_time({sent, job_->clock.now(), job_->told->database_time});
  if (worker.report().database_time == UnixMillis{})
    worker.report().database_time = job_->told->database_time;
  return worth_a_scan;
}

bool Engine::is_time_to_ask_again() const {
  if (!job_->told || !job_->told->ask_again) return false;
  const auto now = job_->server_clock.at(job_->clock.now());
  return now && *now >= *job_->told->ask_again + job_->holdoff();
}

std::vector<GroupSlice> Engine::slices_of_scan(Worker& worker) {
  const Reconciler& pair = job_->reconciler;
  if (job_->options.in_slices && pair.walk) return walker_.next(*job_, worker.connection(), pair.walk->rows);
  auto slices = whole(job_->groups);
  if (!job_->options.in_slices || pair.groups_a_scan == 0 || pair.groups_a_scan >= slices.size())
    return slices;
  std::rotate(slices.begin(), slices.begin() + static_cast<std::ptrdiff_t>(first_group_ % slices.size()),
              slices.end());
  slices.resize(pair.groups_a_scan);
  return slices;
}

// What it did not come to is read again by the next one.
void Engine::end_scan(TickReport& report, const std::vector<GroupSlice>& slices) {
  if (report.more) return;
  const Reconciler& pair = job_->reconciler;
  if (job_->options.in_slices && pair.walk) {
    walker_.go_on();
    report.more = walker_.rows() > 0 && kRich * report.processed >= walker_.rows();
  }
  if (job_->options.in_slices && pair.groups_a_scan > 0 && !slices.empty())
    first_group_ = (slices.back().group + 1) % job_->groups.size();
  if (report.failure || pair.walk) return;
  for (const GroupSlice& read : slices) job_->still_rows.end_scan(job_->groups.all()[read.group]);
}

// Where somebody holds a child of a table, the groups that other children hold are scanned all the same; that some could
// not be is the report's failure.
std::vector<Candidate> Engine::scan(Worker& worker, const std::vector<GroupSlice>& slices,
                                    Milliseconds ahead) {
  std::vector<Candidate> all;
  std::size_t read = 0;
  std::size_t locked = 0;
  for (std::size_t from = 0; from < slices.size();) {
    const std::size_t most = job_->one_group_each ? 1 : job_->statements.page.groups_together();
    const std::size_t to = std::min(from + most, slices.size());
    std::vector<Question> questions;
    for (std::size_t i = from; i < to; ++i)
      questions.push_back(page(*job_, slices[i].slice.partitions_of(job_->groups.all()[slices[i].group]),
                               slices[i].slice, depth(), ahead));
    try {
      std::ranges::move(worker.read(questions), std::back_inserter(all));
      read += to - from;
    } catch (const pg::Error& error) {
      if (!error.table_locked() || slices.size() == 1) throw;
      if (to - from > 1) {
        job_->one_group_each = true;
        continue;
      }
      // Each has cost the longest wait for a lock.
      if (++locked > kMostLocked + read) throw;
      worker.report().failure = error;
    }
    from = to;
  }
  return all;
}

}  // namespace ff::reconcile
