#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <vector>

#include "pg/connect.hpp"

namespace ff::bench {

/// The rival's way to notice work: at an interval. One thread and one connection for all polls: those that are due together
/// come one after the other.
class Polling {
 public:
  struct Poll {
    std::function<std::int64_t(pg::Connection&)> rows;  ///< how many it has found
    Milliseconds every;
    Milliseconds pause;  ///< from one poll to the next at least, where it has come late
  };

  /// Connected, and about to poll. The connector must outlive this.
  Polling(const pg::Connector& connector, std::vector<Poll> polls);
  ~Polling();
  Polling(const Polling&) = delete;
  Polling& operator=(const Polling&) = delete;

  /// How many rows so far, as of the last poll that ended. Throws what one threw.
  std::int64_t rows();
  /// What the thread has cost so far, as of its last poll.
  double cpu_seconds() const { return cpu_seconds_; }
  /// How often it has polled so far.
  int polls() const { return polls_; }
  /// Waits for the poll under way; throws what one threw. Once.
  void stop();

 private:
  void run(pg::Connection connection, std::vector<Poll> polls);

  std::atomic<std::int64_t> rows_{0};
  std::atomic<double> cpu_seconds_{0};
  std::atomic<int> polls_{0};
  std::promise<void> stopped_;
  std::future<void> running_;  // last: it uses all the others
};

/// attempt_timeout row by row over all partitions, every two seconds as FlowFabric's scanner does it by default, or at
/// once where a pass took longer.
std::vector<Polling::Poll> polls_for_lapsed_leases();

/// Where nothing is due: each reconciler asks at its interval, partition after partition, for its candidates (for cancel
/// groups in all at once); the statements are prepared once. Who comes late has its interval from then on. A poll throws
/// std::runtime_error when it finds something.
std::vector<Polling::Poll> polls_for_nothing();

}  // namespace ff::bench
