#pragma once

#include <map>
#include <set>
#include <string>

#include "histories/snapshot.hpp"
#include "long/recorder.hpp"

namespace ff::test {

/// Whose row it is; of an edge group's, the downstream's.
std::string execution_of(const Change& change);

/// All executions as they stand between two transactions.
class Ledger {
 public:
  void apply(const Change& change);
  /// Nothing stands about one that nobody created.
  const ExecutionRows& at(const std::string& uuid) { return executions_[uuid]; }
  /// These, and the groups of their flows.
  Snapshot excerpt(const std::set<std::string>& uuids, std::int64_t now_ms);

 private:
  std::map<std::string, ExecutionRows> executions_;
  std::map<std::string, std::set<std::string>> downstreams_;  // of a flow, by uuid
};

}  // namespace ff::test
