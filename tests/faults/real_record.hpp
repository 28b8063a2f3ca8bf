#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "demo/simulation/books.hpp"
#include "pg/connection.hpp"

namespace ff::faults {

/// What the database knows of one execution in the end.
struct FoundExecution {
  std::string execution;
  std::int64_t success = 0;  ///< completion events
  std::int64_t failed = 0;
  std::int64_t expired = 0;  ///< lease events
  bool revocable = false;    ///< somebody else may have taken its last lease
};

/// What workers of the real FlowFabric were told, for comparison with the database afterwards. Executions are named as
/// FlowFabric writes them. Safe from any thread.
class RealRecord {
 public:
  void claimed();
  /// `outcome` as the completion event has it.
  void ended(const std::string& execution, const std::string& outcome);
  /// Its worker is killed under a lease, which nobody gives back.
  void left_behind(const std::string& execution);
  /// Whoever believed to have the lease has it no more.
  void refused(const std::string& execution);
  /// A step under its lease, or a claim of it, of which nobody knows whether it was committed.
  void unheard(const std::string& execution);
  /// The same of a claim of whichever is next.
  void unheard_claim();
  void came_back_late(const std::string& execution, bool was_refused);
  /// Whoever does nothing but renew its lease.
  void holds();
  void robbed(const std::string& execution);

  /// Held against the database, once nobody works any more and nothing is due. `lane`: of all executions but those that
  /// are held throughout. Throws pg::Error.
  std::vector<simulation::Verdict> verdicts(pg::Connection& db, const std::string& lane) const;

 private:
  struct Of {
    std::string ended = {};
    std::int64_t left_behind = 0;
    std::int64_t unheard = 0;
  };
  struct Counts {
    std::int64_t claimed = 0;
    std::int64_t killed = 0;
    std::int64_t refused = 0;
    std::int64_t unheard = 0;
    std::int64_t unheard_claims = 0;  ///< of these, of whichever was next
    std::int64_t late_refused = 0;
    std::int64_t holding = 0;
  };
  Of of(const std::string& execution) const;
  simulation::Verdict load() const;
  simulation::Verdict work(const std::vector<FoundExecution>& all) const;
  simulation::Verdict lapses(const std::vector<FoundExecution>& all) const;

  mutable std::mutex mutex_;
  std::map<std::string, Of> executions_;  // guarded by mutex_, as all below
  Counts counts_;
  std::vector<std::string> late_accepted_;
  std::vector<std::string> robbed_;
};

}  // namespace ff::faults
