#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "base/time.hpp"

namespace ff::test {

/// When admissions are made, in ms: now, and no two in the same millisecond, which FlowFabric refuses with or without us
/// where they are of one execution. Thread-safe.
class CallTimes {
 public:
  std::int64_t next() {
    const std::lock_guard lock(mutex_);
    last_ = std::max(last_ + 1, std::int64_t{Clock::system().wall().time_since_epoch().count()});
    return last_;
  }

 private:
  std::mutex mutex_;
  std::int64_t last_ = 0;
};

}  // namespace ff::test
