#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "pg/pool.hpp"

namespace ff::pg {

/// Whether any session may have written anything since some moment: what a snapshot shows is decided by which transactions
/// it takes for ended (pg_current_snapshot()), so two that are equal show the same rows. A row lock that was given counts as
/// something written, and so does whatever is done in another database of the server.
///
/// Snapshots are compared only where one and the same session took them: after a crash or on another server an equal one may
/// show other rows. What falls due by time alone is not seen. Safe from any thread.
class SnapshotWatch {
 public:
  /// The pool must outlive it.
  explicit SnapshotWatch(Pool& pool, const Clock& clock = Clock::system()) : pool_(pool), clock_(clock) {}

  /// Certain that a snapshot of now shows what one of that moment did. One round trip. False, too, where it cannot be known:
  /// the first time, and where the server does not answer, which is said by whoever asks it next.
  bool nothing_written_since(SteadyTime moment);

 private:
  void read();

  Pool& pool_;
  const Clock& clock_;

  std::mutex mutex_;
  std::string snapshot_;    // guarded by mutex_, as are the next; empty: there is none
  std::int32_t session_{};  // which took it, by its process on the server
  SteadyTime since_{};      // no earlier snapshot is known to be equal
};

}  // namespace ff::pg
