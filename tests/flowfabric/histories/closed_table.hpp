#pragma once

#include <functional>
#include <string>

#include "support/flowfabric.hpp"

namespace ff::test {

/// Whoever wants to write to a table waits for this to go.
class ClosedTable {
 public:
  ClosedTable(const FlowFabricDatabase& database, std::string table);
  /// Waits until a session of this program waits for us; false: it ended without.
  bool waits(const char* program, const std::function<bool()>& ended);
  /// Lets who waits write, until the end of its transaction: the next one waits again.
  void let_one_through();
  void end_sessions_of(const char* program);
  void open() { holder_.execute("ROLLBACK"); }
  void until_gone(const char* program);

 private:
  const FlowFabricDatabase& database_;
  const std::string table_;
  pg::Connection holder_;
  pg::Connection watcher_;
};

}  // namespace ff::test
