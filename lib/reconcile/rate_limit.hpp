#pragma once

#include <cstdint>
#include <mutex>

#include "base/setting.hpp"
#include "base/time.hpp"

namespace ff::reconcile {

/// A setting for whoever deletes many rows of many tables at a time (see Reconciler::weighs).
constexpr SettingDecl kMaxRowsPerSecond{.name = "max_rows_per_second",
                                        .kind = SettingDecl::Kind::count,
                                        .fallback = 5000,
                                        .least = 1,
                                        .most = 1'000'000,
                                        .may_be_unlimited = true,
                                        .summary = "so many rows of all tables are deleted a second"};

/// Holds what is done to so many rows a second. How many a transaction takes is known only when it is over, so whoever
/// took more than there was time for rests afterwards. It may be ahead of its time by a second: what a scan has found,
/// which costs more to find than to delete, goes in one stretch, and then comes one rest. Safe from any thread.
class RateLimit {
 public:
  /// 0: no limit.
  void set_rate(std::int64_t rows_a_second);
  void did(std::int64_t rows, SteadyTime now);
  /// No further transaction until the rest is over.
  bool is_spent(SteadyTime now) const;
  /// How long to rest, so that nothing is ahead of its time any more.
  Milliseconds rest(SteadyTime now) const;

 private:
  mutable std::mutex mutex_;
  std::int64_t rate_ = 0;  // guarded by mutex_, as is the rest
  SteadyTime paid_until_{};
};

}  // namespace ff::reconcile
