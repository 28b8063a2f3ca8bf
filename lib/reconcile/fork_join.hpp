#pragma once

#include <cstddef>
#include <functional>

namespace ff::reconcile {

/// Where a tick that has a lot to do finds more hands. An engine has no threads of its own: whoever has some
/// to spare lends them by implementing this; one implementation may serve many engines at once.
class ForkJoin {
 public:
  virtual ~ForkJoin() = default;

  /// Calls `here` in this thread and at the same time `beside` in up to `more` others, as many as are to
  /// spare at this moment; returns when all of them have returned. What one of them throws is thrown then.
  virtual void run(std::size_t more, const std::function<void()>& here,
                   const std::function<void()>& beside) = 0;

  /// There is nobody else: calls `here`.
  static ForkJoin& none();
};

}  // namespace ff::reconcile
