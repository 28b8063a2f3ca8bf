#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "faults/real_worker.hpp"

namespace ff::faults {

/// A few workers of the real FlowFabric beside the simulated ones, each in a thread of its own, and one that does nothing
/// but renew its lease. Safe from any thread.
class RealWorkers {
 public:
  /// Namespace and lane of all their executions, but of the one that is held throughout.
  static constexpr const char* kLane = "real";

  /// Start at once. Of `options` the lane and the seed are theirs.
  RealWorkers(const RealWorkerOptions& options, std::uint64_t seed);

  /// Ends all but the one that holds, once they have done what they are at.
  void finish();
  /// All threads but that of the one that holds have ended, be it by an error.
  bool ended() const { return working_ == 0; }
  /// The one that holds goes, and its lease stays.
  void stop_holding() { holder_ = {}; }
  /// What ended a thread before its time.
  std::vector<std::string> errors() const;

  const RealRecord& record() const { return record_; }

 private:
  using Live = void (RealWorker::*)(const std::stop_token&);
  std::jthread start(RealWorkerOptions options, Live live);

  RealRecord record_;
  std::atomic<int> working_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> errors_;  // guarded by mutex_
  std::vector<std::jthread> workers_;
  std::jthread holder_;
};

}  // namespace ff::faults
