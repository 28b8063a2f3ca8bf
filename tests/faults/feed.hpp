#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "faults/world.hpp"

namespace ff::faults {

/// Rows that fall due at a steady rate, beside what the world's load makes: executions of a lane of their own are
/// claimed, and each claim is either delayed, which delayed_promoter ends, or abandoned, which lease_expiry and
/// attempt_timeout notice. So an execution goes round until its retries are over. One that is behind does not catch up
/// for more than a second.
class Feed {
 public:
  /// Starts at once; used by the thread that made the world.
  Feed(World& world, int rows_a_second);
  /// Ends it: what is under way is left to the daemons.
  ~Feed() { end(); }
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  void end();
  /// Claims so far, each a row that falls due.
  std::int64_t claims() const { return claims_; }
  /// What ended a thread before its time.
  std::vector<std::string> errors() const;

 private:
  void live(const std::stop_token& stop, pg::Connection& connection, const Partitions& partitions, int worker,
            SteadyTime::duration step);

  std::atomic<std::int64_t> claims_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> errors_;  // guarded by mutex_
  std::vector<std::jthread> threads_;
};

}  // namespace ff::faults
