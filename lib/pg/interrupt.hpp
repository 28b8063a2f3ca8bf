#pragma once

#include <atomic>

namespace ff::pg {

/// Ends waits from another thread: once raised, every wait that was given it (for a connection, an answer, a
/// place in the pool) ends with Error::Kind::interrupted, a running statement being cancelled on the server.
/// It stays raised. All members are safe from any thread.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  void raise();
  bool raised() const { return raised_; }
  /// Readable once raised: for poll().
  int fd() const { return fd_; }

 private:
  std::atomic<bool> raised_{false};
  int fd_;
};

}  // namespace ff::pg
