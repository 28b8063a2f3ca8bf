#include "reconcile/due_queue.hpp"

#include <algorithm>

#include "reconcile/pager.hpp"
#include "reconcile/worker.hpp"

namespace ff::reconcile {
namespace {

// A row may be written so long after the moment at which it falls due, and is then still read into the queue.
constexpr Milliseconds kWrittenLater{5000};

// So much longer than it took to read what has fallen due since: where no index leads to it, that is long.
constexpr int kRestAfterReading = 4;

// All is read anew so seldom.
constexpr Milliseconds kReadAnewEvery{30'000};
constexpr int kRestAfterReadingAll = 20;
constexpr std::size_t kMostRead = 150'000;

}  // namespace

void DueQueue::start() {
  if (!is_in_use()) read_until_ = UnixMillis::min();
}

void DueQueue::stop() {
  rows_.clear();
  read_until_.reset();
}

// A reading stops at kMostRead rows, so each reading of all begins with another group: that way every group is read sooner
// or later.
void DueQueue::read(Job& job, Worker& worker) {
  const SteadyTime began = job.clock.now();
  const bool anew = *read_until_ == UnixMillis::min() || began >= read_anew_at_;
  if (!anew && !rows_.empty() && began < read_again_at_) return;
  const UnixMillis from = anew ? UnixMillis::min() : *read_until_;
  if (anew) rows_.clear();
  const std::vector<Partitions>& groups = job.groups.all();
  std::size_t read = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Pager pager(job, groups[(first_group_ + i) % groups.size()], {}, from);
    while (!pager.done() && read < kMostRead && !job.options.stop.stop_requested()) {
      auto rows = pager.next(worker, false);
      read += rows.size();
      rows_.add(std::move(rows));
    }
  }
  const SteadyTime ended = job.clock.now();
  if (anew) {
    ++first_group_;
    read_anew_at_ =
        ended + std::max<SteadyTime::duration>(kReadAnewEvery, kRestAfterReadingAll * (ended - began));
  }
  read_again_at_ = ended + kRestAfterReading * (ended - began);
  if (job.deadline != SteadyTime::max()) job.deadline += ended - began;
  read_until_ = worker.report().database_time - job.holdoff() - kWrittenLater;
}

}  // namespace ff::reconcile
