#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "pg/pool.hpp"
#include "pg/transaction.hpp"
#include "reconcile/batch_size.hpp"
#include "reconcile/candidate.hpp"
#include "reconcile/database_time.hpp"
#include "reconcile/group_plan.hpp"
#include "reconcile/quarantine.hpp"
#include "reconcile/report.hpp"
#include "reconcile/scope.hpp"
#include "reconcile/slice.hpp"
#include "reconcile/statements.hpp"
#include "reconcile/suspects.hpp"

namespace ff::reconcile {

/// What the passes of an engine share.
struct Ground {
  Ground(const Reconciler& its, Scope wished, const Clock& its_clock)
      : reconciler(its),
        few(its, pg::Plan::custom),
        many(its, pg::Plan::generic),
        scope(std::move(wished)),
        clock(its_clock),
        batch_size(scope.batch_size) {}

  const Statements& statements(pg::Plan plan) const { return plan == pg::Plan::custom ? few : many; }
  /// The parameters that every statement begins with.
  pg::Params params(const Partitions& partitions) const;
  /// How long after its due time a row may be taken.
  Milliseconds holdoff() const { return reconciler.holdoff(scope.settings); }
  /// Leaves the row out for a while, and tells why once.
  void set_aside(const Candidate& row, const pg::Error& error, TickReport& report, bool dry_run);

  const Reconciler& reconciler;
  const Statements few;
  const Statements many;
  Scope scope;
  Slice slice;  ///< of the table through which the reconciler walks
  const Clock& clock;
  Quarantine quarantine;
  Suspects suspects;  ///< of this tick
  DatabaseTime database_time;
  BatchSize batch_size;
  SteadyTime deadline = SteadyTime::max();          ///< of this tick: no further batch is started after it
  std::atomic<bool> no_connection_to_spare{false};  ///< in this tick: nobody else need try
  std::atomic<bool> some_locked{
      false};  ///< in this tick: a statement over all partitions would wait for a lock
};

class Pass;

/// Does `work` in this pass and, at the same time, in up to `more` others, as far as there are threads and
/// connections to spare; what they have done is then in this pass's report.
using Company = std::function<void(Pass& pass, std::size_t more, const std::function<void(Pass&)>& work)>;

/// One connection at work in a tick, and what it has found and done. Passes of the same tick work side by side
/// on different partitions, or on different batches of the same. Every member throws pg::Error where it cannot go
/// on; what it did before is in the report. One thread at a time.
class Pass {
 public:
  Pass(Ground& ground, const TickOptions& options, pg::PooledConnection connection, const Company& company)
      : ground_(ground), options_(options), company_(company), connection_(std::move(connection)) {}

  TickReport& report() { return report_; }
  pg::Connection& connection() { return *connection_; }

  /// Up to `limit` rows of each partition, oldest first, that are due or will be within `ahead`.
  std::vector<Candidate> page(const Partitions& partitions, int limit, Milliseconds ahead) {
    return page(partitions, limit, ahead, kBeforeAll);
  }
  /// The rows of one execution, due or not, oldest first.
  std::vector<Candidate> rows_of(const ExecutionId& execution);

  /// Moves all that is due in these partitions, page by page.
  void take_partitions(const Partitions& partitions);
  /// Moves these rows, at most a batch at a time, one partition after the other, in company where they are many.
  void take_in_batches(std::vector<Candidate> rows);
  /// Moves these rows in one transaction; where that fails, half of them each.
  void take(Candidates batch);

 private:
  static constexpr UnixMillis kBeforeAll = UnixMillis::min();

  /// Where a full page of one partition ended.
  struct PageEnd {
    PartitionKey partition;
    UnixMillis due_at;
    std::set<RowKey> shown;  ///< its rows of that moment
  };

  /// A statement, and how it is to be planned.
  struct Wording {
    const std::string& sql;
    pg::Plan plan;
  };

  bool out_of_time();
  bool may_write();
  Wording wording(std::string Statements::*which, const Partitions& partitions) const;
  void plan_once_for(const Partitions& partitions);
  std::vector<Candidate> page(const Partitions& partitions, int limit, Milliseconds ahead, UnixMillis from);
  std::vector<Candidate> behind(const PageEnd& end, const Candidate* last, int limit);
  static std::vector<PageEnd> ends_of_full_pages(const std::vector<Candidate>& rows, int full);
  bool take_all_of(std::vector<Candidate> rows);
  void take_rest(PageEnd end, bool all_moved);
  std::vector<Candidate> read(const Wording& wording, const pg::Params& params);
  std::vector<Candidate> read_once(const Wording& wording, const pg::Params& params);
  std::vector<Candidate> take_out_failed(std::vector<Candidate>& due) const;
  std::vector<Candidate> without_quarantined(std::vector<Candidate> found);
  bool take_whole(Candidates batch);
  void take_halves(Candidates batch);
  bool take_once(Candidates batch);
  std::vector<Candidate> read_moved(const pg::Result& rows) const;
  bool is_forbidden(pg::Transaction& transaction, const Partitions& partitions, Candidates moved) const;
  void count_moved(const pg::Result& rows, Candidates moved, Milliseconds took);
  void count_left(Candidates left);
  void count_left_once(Candidates left);
  void blame(const Candidate& row, const pg::Error& error);

  Ground& ground_;
  const TickOptions& options_;
  const Company& company_;
  TickReport report_;
  bool read_in_time_ = true;  // the last page was asked for before the deadline
  bool hurried_ = false;      // a row of the batch that is being halved takes far too long
  pg::PooledConnection connection_;
  std::optional<GroupPlan> group_plan_;
};

}  // namespace ff::reconcile
