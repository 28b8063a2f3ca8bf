#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "demo/simulation/books.hpp"
#include "pg/connection.hpp"

namespace ff::faults {

/// What workers of the real FlowFabric were told, for comparison with the database afterwards. Executions are named as
/// FlowFabric writes them. Safe from any thread.
class RealRecord {
 public:
  void claimed();
  /// `outcome` as the completion event has it.
  void ended(const std::string& execution, const std::string& outcome);
  /// A lease that nobody gives back: its worker was killed, or refused.
  void left_behind(const std::string& execution);
  void refused(const std::string& execution);
  /// A step of which nobody knows whether it was committed; empty: it may have been a claim of anything.
  void unheard(const std::string& execution);
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
    std::int64_t unheard_of_any = 0;  ///< of these, not under a lease that is known
    std::int64_t late_refused = 0;
    std::int64_t holding = 0;
  };
  simulation::Verdict load() const;

  mutable std::mutex mutex_;
  std::map<std::string, Of> executions_;  // guarded by mutex_, as all below
  Counts counts_;
  std::vector<std::string> late_accepted_;
  std::vector<std::string> robbed_;
};

}  // namespace ff::faults
