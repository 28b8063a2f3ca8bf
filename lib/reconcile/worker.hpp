#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pg/pool.hpp"
#include "pg/transaction.hpp"
#include "reconcile/candidate.hpp"
#include "reconcile/job.hpp"
#include "reconcile/report.hpp"

namespace ff::reconcile {

/// What the server said to some statements, and when.
struct Answers {
  std::vector<pg::Result> results;
  SteadyTime asked;
  SteadyTime answered;
};

/// One connection at work in a tick, and the report of what it did: asks what is due, moves rows, splits a batch that
/// fails until the row at fault is alone, and counts. Every member throws pg::Error where it cannot go on; what it did
/// before is in the report. One thread at a time.
class Worker {
 public:
  Worker(Job& job, pg::PooledConnection connection) : job_(job), connection_(std::move(connection)) {}

  TickReport& report() { return report_; }
  pg::Connection& connection() { return *connection_; }

  /// Reads with these, in one round trip and one transaction.
  Answers ask(const std::vector<pg::Call>& calls);

  /// No further batch is to be started; what is left makes the report's `more`.
  bool out_of_time();
  /// As out_of_time(), but what was asked for in time is worth one batch, however long that took: so a slow server, too,
  /// gets on.
  bool may_begin_one();

  /// Moves these rows in one transaction; where that fails, the last of them alone, and half of the others each. They are
  /// sorted by group.
  void move_rows(Candidates batch);

  /// Waits for those of all rows so far that others hold in turns (see Reconciler::queues_in), one by one, as long as there
  /// is time, and moves them.
  void wait_for_held();

 private:
  bool may_write() const;
  bool found_room() const;
  bool has_to_stop();
  bool move_whole(Candidates batch);
  void note_answer() const;
  void bisect(Candidates batch);
  void move_apart(Candidates first, Candidates second);
  bool try_once(Candidates batch);
  std::vector<Candidate> lock(pg::Transaction& transaction, Candidates batch) const;
  bool act_on(pg::Transaction& transaction, Candidates rows_to_move, Candidates batch, SteadyTime started);
  std::vector<pg::Result> ask_of(pg::Transaction& transaction, const Statement& statement,
                                 Candidates rows) const;
  bool is_forbidden(pg::Transaction& transaction, Candidates moved) const;
  void commit(pg::Transaction& transaction, std::span<const pg::Result> results) const;
  void tell(std::span<const pg::Result> results, bool committed) const;
  void count_moved(const std::vector<pg::Row>& rows, Candidates moved, Milliseconds took);
  void note_taken(const std::vector<pg::Row>& rows, Candidates moved, Candidates batch) const;
  void count_left(Candidates batch, Candidates moved);
  void count_each_left(Candidates left);
  bool wait(pg::Transaction& transaction, Candidates row) const;
  void blame(const Candidate& row, const pg::Error& error, Milliseconds took);
  std::optional<ExecutionId> execution_of(const Candidate& row);

  Job& job_;
  TickReport report_;
  bool asked_in_time_ = true;    // the last page was asked for before the deadline
  bool hurried_ = false;         // a row of the batch that is being halved takes far too long
  bool queues_ = false;          // for the row that is moved
  std::vector<Candidate> held_;  // of those that are waited for, the ones that were held
  pg::PooledConnection connection_;
};

}  // namespace ff::reconcile
