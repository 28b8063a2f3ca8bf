#pragma once

#include <atomic>
#include <cstdint>
#include <future>

#include "base/time.hpp"
#include "pg/connect.hpp"

namespace ff::bench {

/// The rival: attempt_timeout row by row over all 256 partitions, every two seconds as FlowFabric's scanner
/// does it by default, or at once where a pass took longer. A thread and a connection of its own.
class IntervalPolling {
 public:
  /// Connected, and about to make its first pass. The connector must outlive this.
  explicit IntervalPolling(const pg::Connector& connector);
  ~IntervalPolling();
  IntervalPolling(const IntervalPolling&) = delete;
  IntervalPolling& operator=(const IntervalPolling&) = delete;

  /// Rows so far, as of the last pass that ended. Throws what a pass threw.
  std::int64_t moved();
  /// Waits for the pass under way; throws what it threw. Once.
  void stop();

 private:
  void poll(pg::Connection connection);

  std::atomic<std::int64_t> moved_{0};
  std::promise<void> stopped_;
  std::future<void> life_;  // last: it uses all the others
};

}  // namespace ff::bench
