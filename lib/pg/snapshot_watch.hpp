#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "pg/pool.hpp"

namespace ff::pg {

/// What a session saw of the server at some moment. What a snapshot shows is decided by which transactions it takes for
/// ended (pg_current_snapshot()): two that are equal show the same rows. The same text says nothing of another server, or of
/// one that has crashed; so a session counts that has lived ever since.
struct Snapshot {
  std::string text;
  std::int32_t session = 0;  ///< by its process on the server
  std::int64_t server = 0;   ///< by its start
  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

/// Of a row with the columns snapshot, session and server.
Snapshot read_snapshot(const Row& row);

/// Whether any session may have written anything since some moment. A row lock that was given counts as
/// something written, and so does whatever is done in another database of the server. What falls due by time alone is not
/// seen. Safe from any thread.
class SnapshotWatch {
 public:
  /// The pool must outlive it.
  explicit SnapshotWatch(Pool& pool, const Clock& clock = Clock::system()) : pool_(pool), clock_(clock) {}

  /// Certain that a snapshot of now shows what one of that moment did. One round trip. False, too, where it cannot be known:
  /// the first time, while another thread asks, and where the server does not answer, which is said by whoever asks it next.
  bool nothing_written_since(SteadyTime moment);

 private:
  Snapshot ask();

  Pool& pool_;
  const Clock& clock_;

  std::mutex mutex_;
  std::optional<Snapshot> last_;  // guarded by mutex_, as is the next
  SteadyTime since_{};            // no earlier snapshot is known to be equal
};

}  // namespace ff::pg
