#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "pg/error.hpp"
#include "reconcile/report.hpp"

namespace ff::reconcile {

/// Rows that failed by themselves, each left out for a growing while: 5 s, doubling, to 10 min, and from the second time on four
/// times as long as its try took, if that is longer: others waited for it. For 5 s each time where the server lacked
/// something. Kept in memory only: another process, or a restart, tries them at once. Safe from any thread.
class Quarantine {
 public:
  /// So many rows are remembered, in some 30 MB. Where another one fails, the one that is to be tried next is forgotten
  /// for it, and tried as if it had never failed. So each row that fails is out of the way of the others for a while,
  /// and none is left out for longer than it should be.
  static constexpr std::size_t kMost = 100'000;
  /// Of so many the reason is kept, of those that failed last.
  static constexpr std::size_t kMostReasons = 1000;
  /// Of so many of these is told, those first that are tried next: where there are thousands, they have a reason in
  /// common.
  static constexpr std::size_t kMostTold = 100;

  /// Called before the rows of a scan are read.
  void begin_scan();
  /// The scan, or what is worked off behind it, has shown the row: whether it is to be left alone now.
  bool holds(const RowKey& key, SteadyTime now);
  /// The scan has shown all that is due in these partitions: of the others somebody else has taken care.
  void end_scan(const Partitions& partitions);
  /// The row failed (again), for this reason. Returns for how long it is left out.
  Milliseconds add(const RowKey& key, SteadyTime now, const pg::Error& error,
                   const std::optional<ExecutionId>& execution = {}, Milliseconds took = {});
  /// The row was moved, or is no longer due.
  void release(const RowKey& key);
  /// Forgets rows that nobody has met for long after their time was up: something else has moved them.
  void forget_old(SteadyTime now);

  std::vector<QuarantinedRow> told(SteadyTime now) const;

  std::size_t size() const;
  bool is_full() const { return size() >= kMost; }
  bool empty() const { return size() == 0; }
  bool contains(const RowKey& key) const;

 private:
  struct Entry;
  using Rows = std::map<RowKey, Entry>;
  using Row = std::pair<const RowKey, Entry>;
  struct Reason {
    Row* row;
    std::string sqlstate;
    std::string message;
    std::optional<ExecutionId> execution;
  };
  using Reasons = std::list<Reason>;
  using Turns = std::multimap<SteadyTime, Row*>;
  struct Entry {
    Milliseconds pause{0};
    int tries = 0;
    std::uint64_t scan = 0;         // that has shown it last
    Turns::iterator turn = {};      // in turns_
    Reasons::iterator reason = {};  // in reasons_, or its end
  };

  void leave(const Entry& entry);
  void forget(const Row& row);
  void keep_reason(Row& row, const pg::Error& error, const std::optional<ExecutionId>& execution);

  // All guarded by mutex_.
  mutable std::mutex mutex_;
  std::uint64_t scan_ = 0;
  Rows rows_;
  Turns turns_;      // until when each is left out
  Reasons reasons_;  // the last one last
};

}  // namespace ff::reconcile
