#pragma once

#include <optional>
#include <set>
#include <vector>

#include "reconcile/backlog.hpp"
#include "reconcile/walk.hpp"
#include "reconcile/worker.hpp"

namespace ff::reconcile {

/// What is due in some partitions of one group, page by page. As long as all that a page shows is moved, the next one has
/// the same beginning; what could not be moved hides nothing behind it.
class Pager {
 public:
  /// `partitions` are of one group, and `slices` are theirs where the pair walks.
  /// `from`: only what is due at that moment or later.
  Pager(const Job& job, Partitions partitions, Slice slice = {}, UnixMillis from = UnixMillis::min());

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
  Question rest_of(const End& end, int limit) const;

  const Job& job_;
  Partitions partitions_;
  Slice slice_;
  UnixMillis from_;
  bool begun_ = false;
  bool first_page_ = true;  // was shown last
  bool of_last_ = false;    // what was shown last is of the partition at the back of ends_
  std::vector<End> ends_;   // of the partitions that may have more
};

/// Up to `limit` rows of each of these partitions, which are of one group, oldest first, that are due at `from` or later,
/// or will be within `ahead`.
Question page(const Job& job, const Partitions& partitions, const Slice& slice, int limit, Milliseconds ahead,
              UnixMillis from = UnixMillis::min());

/// How much is due in these slices, up to `cap`. Throws pg::Error.
Backlog count_due(const Job& job, pg::Connection& connection, const std::vector<GroupSlice>& slices,
                  std::int64_t cap);

}  // namespace ff::reconcile
