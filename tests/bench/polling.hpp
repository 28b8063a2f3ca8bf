#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <vector>

#include "pg/connect.hpp"

namespace ff::bench {

/// The rival's way of looking: at an interval. One thread and one connection for all looks: those that are due together
/// come one after the other.
class Polling {
 public:
  struct Look {
    std::function<std::int64_t(pg::Connection&)> rows;  ///< how many it has found
    Milliseconds every;
    Milliseconds pause;  ///< from one look to the next at least, where it has come late
  };

  /// Connected, and about to look. The connector must outlive this.
  Polling(const pg::Connector& connector, std::vector<Look> looks);
  ~Polling();
  Polling(const Polling&) = delete;
  Polling& operator=(const Polling&) = delete;

  /// How many rows so far, as of the last look that ended. Throws what a look threw.
  std::int64_t rows();
  /// What the thread has cost so far, as of its last look.
  double cpu_seconds() const { return cpu_seconds_; }
  /// How often it has looked so far.
  int looks() const { return looks_; }
  /// Waits for the look under way; throws what one threw. Once.
  void stop();

 private:
  void live(pg::Connection connection, std::vector<Look> looks);

  std::atomic<std::int64_t> rows_{0};
  std::atomic<double> cpu_seconds_{0};
  std::atomic<int> looks_{0};
  std::promise<void> stopped_;
  std::future<void> life_;  // last: it uses all the others
};

/// attempt_timeout row by row over all partitions, every two seconds as FlowFabric's scanner does it by default, or at
/// once where a pass took longer.
std::vector<Polling::Look> looks_for_lapsed_leases();

/// Where nothing is due: each reconciler asks at its interval, partition after partition, for its candidates (for cancel
/// groups in all at once); the statements are prepared once. Who comes late has its interval from then on. A look throws
/// std::runtime_error when it finds something.
std::vector<Polling::Look> looks_for_nothing();

}  // namespace ff::bench
