#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/worker.hpp"

namespace ff::sandbox {

/// What simulated workers have done so far; each number counts committed steps, unless it says otherwise.
struct WorkCounts {
  std::int64_t created = 0;
  std::int64_t claimed = 0;
  std::int64_t renewed = 0;
  std::int64_t completed = 0;
  std::int64_t retried = 0;  ///< failed, and put back as the next attempt
  std::int64_t failed = 0;   ///< failed for good
  std::int64_t crashed = 0;  ///< claims that were just abandoned
  std::int64_t lost = 0;     ///< claims of workers that lived, but were too slow: their next step was refused
  std::int64_t ghosts_refused = 0;   ///< steps of workers that came back with a claim taken from them
  std::int64_t ghosts_accepted = 0;  ///< the same, but not refused: there must be none
};

/// The workers' side of the books: what the database has to agree with in the end. Safe from any thread.
class Ledger {
 public:
  void created(const std::vector<ExecutionId>& executions, std::optional<std::int32_t> max_retries);
  void claimed();
  void renewed();
  void completed();
  void failed(bool for_good);
  /// The claim's lease lapses, or has lapsed, and no worker ends it.
  void crashed(const Claim& claim);
  void lost(const Claim& claim);
  void ghost(bool refused);

  /// The policy of its execution allows another attempt.
  bool may_retry(const Claim& claim) const;

  WorkCounts counts() const;
  /// How many lapsed leases must have been noticed, by execution; those without any are not in it.
  std::map<Uuid, std::int64_t> lapses() const;

 private:
  mutable std::mutex mutex_;
  WorkCounts counts_;
  std::map<Uuid, std::int32_t> max_retries_;
  std::map<Uuid, std::int64_t> lapses_;
};

}  // namespace ff::sandbox
