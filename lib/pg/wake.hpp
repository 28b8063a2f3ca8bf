#pragma once

#include "base/time.hpp"
#include "pg/interrupt.hpp"

namespace ff::pg {

/// A tap on the shoulder of a thread that waits: unlike an Interrupt it can be given again and again, and
/// several before the thread looks count as one. raise() is safe from any thread.
class Wake {
 public:
  Wake();
  ~Wake();
  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;

  void raise();
  /// Waits until it has been raised (true) or the time is up (false), and takes it back. Throws Error of kind
  /// interrupted when `interrupt` (may be null) is raised. One thread at a time.
  bool wait(SteadyTime until, const Interrupt* interrupt);

  /// Takes it back without waiting; true: it had been raised.
  bool take();
  /// Readable while raised: for poll().
  int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace ff::pg
