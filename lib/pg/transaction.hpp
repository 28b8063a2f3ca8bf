#pragma once

#include <string_view>

#include "pg/connection.hpp"

namespace ff::pg {

/// Rows are skipped when they are locked, so most locks that are met are those of DDL. Better to give the connection back and
/// come again than to queue behind an ALTER TABLE, with every worker queueing behind us.
constexpr Milliseconds kLongestLockWait{1000};

enum class Isolation { read_committed, snapshot, serializable };

/// A transaction on a connection that it borrows. It begins with its first statement, in the same round trip, and ends
/// in commit() or, at the latest in the destructor, in rollback; a rollback that fails is logged and the connection
/// closed, so that the pool discards it. The server's statement_timeout and lock_timeout are set for this transaction
/// only, because a plain SET would reach other clients behind a pooler.
class Transaction {
 public:
  struct Options {
    Plan plan = Plan::custom;  ///< of its statements
    /// For each of them, where that is less than the connection's statement_timeout. A rollback is not waited for
    /// much longer.
    Milliseconds at_most = Milliseconds::max();
    Milliseconds lock_wait =
        kLongestLockWait;  ///< for each lock, or half of what a statement has, if that is less
    /// snapshot: all of them see the database as it was at the first, and none writes (REPEATABLE READ, READ ONLY).
    Isolation isolation = Isolation::read_committed;
  };

  explicit Transaction(Connection& connection) : Transaction(connection, Options{}) {}
  Transaction(Connection& connection, Options options);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  /// Throws Error, as execute_all() does.
  Result execute(std::string_view sql, const Params& params = {});
  /// One after the other in one round trip; the plan of each is this transaction's.
  std::vector<Result> execute_all(std::vector<Call> calls);

  /// The same as its last, to read only: it ends in the same round trip.
  std::vector<Result> read_all(std::vector<Call> calls);

  /// Throws Error; outcome_unknown() when the connection broke before the server answered.
  void commit();
  void rollback();

 private:
  Connection& connection_;
  const Plan plan_;
  const Milliseconds at_most_;
  bool open_ = true;
};

}  // namespace ff::pg
