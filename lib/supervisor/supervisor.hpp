#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "supervisor/monitor.hpp"
#include "supervisor/pauses.hpp"
#include "supervisor/runner.hpp"

namespace ff::supervisor {

/// Runs the runners on threads of its own, each by its own timer and never twice at once, as long as the monitor
/// lets them. It does not know what a runner does. All members are safe from any thread, except that start()
/// and drain() are called once each.
class Supervisor {
 public:
  /// The runners and the monitor must outlive the supervisor. `longest_tick` is how long a tick can take when
  /// all is well: a scheduler that made no progress for longer is no longer alive(). What is paused does not run; null:
  /// nothing ever is.
  Supervisor(const std::vector<Runner*>& runners, int threads, Monitor& monitor, Milliseconds longest_tick,
             const Clock& clock, const Pauses* pauses = nullptr);
  ~Supervisor();

  void start();

  /// Considers every runner anew: after the monitor or a runner's timing changed.
  void reconsider();
  /// Only those that were not let run: after a pause was lifted or is over.
  void reconsider_parked();

  /// Starts no further tick or batch and waits for what is running, at most until the deadline. Returns the
  /// names of the runners that had not stopped by then; those want their connections interrupted. Call join()
  /// afterwards.
  std::vector<std::string> drain(SteadyTime deadline);
  /// Waits for the threads to end, the monitor's included: at most as long as their statements may take, unless
  /// interrupted.
  void join();

  /// The scheduler makes progress: timers fire, or the ticks that keep them from it are answered by the database.
  bool alive() const;

 private:
  struct Scheduler;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace ff::supervisor
