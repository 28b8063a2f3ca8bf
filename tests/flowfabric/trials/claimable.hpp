#pragma once

#include <atomic>
#include <future>
#include <map>
#include <mutex>

#include "trials/trial.hpp"

namespace ff::test::trials {

/// Of each execution, by the database's clock in ms.
using Moments = std::map<std::string, std::int64_t>;

/// Looks all the time, over a connection of its own, which executions can be claimed. One counts as seen when the statement
/// that sees it has ended.
class ClaimableWatch {
 public:
  explicit ClaimableWatch(World& world);
  ~ClaimableWatch();

  /// Of this execution, which cannot be claimed since then, what is seen later counts.
  void follow(const std::string& execution, std::int64_t since);
  /// When each was first seen to be claimable again.
  Moments seen() const;
  /// The same as soon as all are that have to be after these moments, or a minute after the last of them.
  Moments until_all(World& world, const Moments& ends) const;

 private:
  void poll();

  pg::Connection connection_;
  std::atomic<bool> over_ = false;
  mutable std::mutex mutex_;
  Moments followed_;
  Moments seen_;
  std::future<void> looking_;  // gone first: it waits for its end
};

/// How much later than at these moments each was seen; a fault for each that was seen sooner, or not at all.
Lateness lateness_of(const Moments& ends, const Moments& claimable, Seen& seen);

}  // namespace ff::test::trials
