#pragma once

#include <atomic>

#include "base/time.hpp"

namespace ff::test {

/// A clock that stands still until it is moved. Safe from any thread.
class ManualClock final : public Clock {
 public:
  SteadyTime now() const override { return SteadyTime{} + kStart + Milliseconds{elapsed_}; }
  UnixMillis wall() const override { return unix_millis(1'700'000'000'000) + Milliseconds{elapsed_}; }

  void advance(Milliseconds by) { elapsed_ += by.count(); }

 private:
  // Not zero, so that a moment before the start can be named, too.
  static constexpr std::chrono::hours kStart{1000};
  std::atomic<Milliseconds::rep> elapsed_{0};
};

}  // namespace ff::test
