#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pg/connection.hpp"
#include "support/flowfabric.hpp"

namespace ff::test {

/// One row as a transaction left it.
struct Change {
  std::string table;
  std::string operation;  ///< INSERT, UPDATE or DELETE
  Json row;               ///< what was there, where it is gone
};

struct Commit {
  std::string who;         ///< the session's application_name
  std::int64_t at_ms = 0;  ///< the database's clock at its first change
  std::vector<Change> changes;
};

/// Triggers that write down each change of a database's executions: who made it, in which transaction, and what
/// the row then was. They are part of what commits, so what is written down is what came to be.
class Recorder {
 public:
  /// Takes away what an earlier one has left.
  explicit Recorder(pg::Connection& connection);

  /// Ends it. Transactions in an order in which each sees what those before it have done to its rows.
  std::vector<Commit> stop();

 private:
  void remove();

  pg::Connection& connection_;
};

}  // namespace ff::test
