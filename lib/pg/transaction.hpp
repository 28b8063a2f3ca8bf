#pragma once

#include <string_view>

#include "pg/connection.hpp"

namespace ff::pg {

/// A READ COMMITTED transaction on a connection that it borrows. It ends in commit() or, at the latest in the
/// destructor, in rollback; a rollback that fails is logged and the connection closed, so that the pool
/// discards it. The server's statement_timeout and lock_timeout are set for this transaction only (SET
/// LOCAL), because a plain SET would reach other clients behind a pooler.
class Transaction {
 public:
  /// Sends BEGIN. `plan` is how the statements of this transaction are planned; `at_most` is for each of them where
  /// that is less than the connection's statement_timeout. Throws Error.
  explicit Transaction(Connection& connection, Plan plan = Plan::fresh,
                       Milliseconds at_most = Milliseconds::max());
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  Result execute(std::string_view sql, const Params& params = {});

  /// Throws Error; outcome_unknown() when the connection broke before the server answered.
  void commit();
  void rollback();

 private:
  Connection& connection_;
  const Plan plan_;
  bool open_ = true;
};

}  // namespace ff::pg
