#pragma once

#include <functional>
#include <stop_token>

#include "base/partitions.hpp"
#include "base/scanner_filter.hpp"
#include "pg/pool.hpp"
#include "reconcile/candidate.hpp"
#include "reconcile/quarantine.hpp"
#include "reconcile/reconciler.hpp"
#include "reconcile/report.hpp"
#include "reconcile/statements.hpp"

namespace ff::reconcile {

/// Over which rows an engine runs its pair, and in which helpings.
struct Scope {
  Partitions partitions;
  ScannerFilter filter;
  int batch_size = 1000;  ///< rows per statement and transaction
  Settings settings;
  Family family;
};

struct TickOptions {
  /// No further batch is started after this moment; what is left makes the report's `more`.
  SteadyTime deadline = SteadyTime::max();
  /// The same, at any moment.
  std::stop_token stop{};
  /// How far into the future to look for the row that falls due next: as far as the next tick is away anyway.
  Milliseconds look_ahead{0};
  /// Act and roll back.
  bool dry_run = false;
  /// Fill the report's `moves`.
  bool list_moves = false;
};

/// How much is due, as far as it was counted.
struct Backlog {
  std::int64_t due = 0;
  bool capped = false;  ///< there may be more than `due`
  std::optional<UnixMillis> oldest_due;
  std::optional<UnixMillis> next_due;  ///< within a day, where a partition's oldest rows show it
  UnixMillis database_time{};
};

/// Runs one reconciler's pair of statements. It probes all partitions at once; acts on what is due in one
/// statement over many partitions where that is little, and page by page within a partition where it is much;
/// splits a batch that fails until the row at fault is alone, and leaves that row out for a while. Each batch
/// is one transaction.
///
/// Not thread-safe: one tick at a time. The pool and the reconciler must outlive it.
class Engine {
 public:
  Engine(const Reconciler& reconciler, Scope scope, pg::Pool& pool, const Clock& clock = Clock::system());

  const Reconciler& reconciler() const { return reconciler_; }
  const Scope& scope() const { return scope_; }
  /// For the ticks to come. Quarantine is kept.
  void set_scope(Scope scope) { scope_ = std::move(scope); }

  /// One pass over everything that is due. Never throws pg::Error: see TickReport::failure.
  TickReport tick(const TickOptions& options = {});

  /// The same for the rows of a single execution, due or not: what is not due is reported as no_longer_due.
  TickReport tick_one(const ExecutionId& execution, const TickOptions& options = {});

  /// Counts what is due, up to `cap`. Throws pg::Error.
  Backlog backlog(std::int64_t cap);

 private:
  struct Pass;  // one tick under way

  TickReport guarded(const TickOptions& options, const std::function<void(Pass&)>& work);
  void take_all(Pass& pass);
  void take_partitions(Pass& pass, const Partitions& partitions);
  void take_rest(Pass& pass, Candidate last);
  void take_in_batches(Pass& pass, std::vector<Candidate> rows);
  std::vector<Candidate> page(Pass& pass, const Partitions& partitions, const Candidate* after, int limit,
                              Milliseconds ahead);
  Partitions partitions(Pass& pass) const;
  void note_next_due(std::optional<UnixMillis>& next, const Candidate& row) const;
  std::vector<Candidate> read_candidates(Pass& pass, const std::string& sql, const pg::Params& params,
                                         pg::Plan plan);
  std::vector<Candidate> without_quarantined(Pass& pass, std::vector<Candidate> found);
  void take(Pass& pass, Candidates batch);
  void take_once(Pass& pass, Candidates batch);
  void count_left(Pass& pass, Candidates left);
  void set_aside(Pass& pass, const Candidate& row, const pg::Error& error);

  pg::Params common_params(const Partitions& partitions) const;

  const Reconciler& reconciler_;
  const Statements statements_;
  Scope scope_;
  pg::Pool& pool_;
  const Clock& clock_;
  Quarantine quarantine_;
};

}  // namespace ff::reconcile
