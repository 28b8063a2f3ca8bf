#pragma once

#include <atomic>
#include <future>

#include "base/time.hpp"
#include "pg/connect.hpp"

namespace ff::bench {

/// The rival where nothing is due: FlowFabric's way of looking. Each reconciler asks at its interval,
/// partition after partition, for its candidates (for cancel groups in all at once); the statements are
/// prepared once. One thread and one connection for all of them: those that are due together look one after
/// the other, and who comes late has its interval from then on.
class SeedPolling {
 public:
  /// Connected, and about to look. The connector must outlive this.
  explicit SeedPolling(const pg::Connector& connector);
  ~SeedPolling();
  SeedPolling(const SeedPolling&) = delete;
  SeedPolling& operator=(const SeedPolling&) = delete;

  /// What the thread has cost so far, as of its last look.
  double cpu_seconds() const { return cpu_seconds_; }
  /// How often a reconciler looked at all partitions so far.
  int passes() const { return passes_; }
  /// Throws what a look threw: std::runtime_error when it found something. Once.
  void stop();

 private:
  void live(pg::Connection connection);

  std::atomic<double> cpu_seconds_{0};
  std::atomic<int> passes_{0};
  std::promise<void> stopped_;
  std::future<void> life_;  // last: it uses all the others
};

}  // namespace ff::bench
