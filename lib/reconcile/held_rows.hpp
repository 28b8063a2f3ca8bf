#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "reconcile/report.hpp"

namespace ff::reconcile {

struct Job;

/// The rows that tick after tick somebody else holds, and who. A row is noticed when it was found held in three ticks
/// in a row. Only found() is called by several threads at once; all are safe from any.
class HeldRows {
 public:
  static constexpr int kNoticedFrom = 3;
  /// So many are remembered: where somebody holds thousands, he is found by any of them.
  static constexpr std::size_t kMostRemembered = 100;
  /// So many are looked into, and told of, those first that have waited longest.
  static constexpr std::size_t kMostTold = 3;
  /// How often it is looked who holds them.
  static constexpr Milliseconds kInspectEvery{5'000};

  void begin_tick();
  /// This tick would have moved the row, but somebody holds it. `execution`: whose row it is, if anybody's.
  void found(const RowKey& key, const std::optional<ExecutionId>& execution, SteadyTime now);

  /// The rows that are noticed, if it is time to look who holds them; then it is not again for kInspectEvery.
  std::vector<HeldRow> to_inspect(SteadyTime now);
  /// Who holds a row, as far as was to be seen. True: nobody knew of it before.
  bool note(const RowKey& key, std::vector<Holder> holders);

  /// `all_seen`: the tick met every row that is due, and those that it has not found held are held no more. Returns
  /// those of them that had been noted.
  std::vector<HeldRow> end_tick(bool all_seen, SteadyTime now);
  std::vector<HeldRow> told(SteadyTime now) const;

 private:
  struct Entry {
    std::optional<ExecutionId> execution;
    SteadyTime first;
    SteadyTime last;
    std::int64_t tick = 0;
    int ticks = 0;
    bool noted = false;
    std::vector<Holder> holders = {};
  };
  static HeldRow row_of(const RowKey& key, const Entry& entry, SteadyTime now);

  mutable std::mutex mutex_;
  std::map<RowKey, Entry> rows_;  // guarded by mutex_, as are the next
  std::int64_t tick_ = 0;
  std::optional<SteadyTime> inspected_at_;
};

/// At the end of a tick's work: looks who holds the rows that tick after tick others hold (a few of them, every few
/// seconds), and tells it when that is new. Fails nothing: what cannot be seen, because of privileges or time, is left out.
void find_holders(Job& job, pg::Connection& connection);

/// When the tick is over: forgets the rows that are held no more, and tells of those that it had told of; adds the others
/// to the report.
void end_held_rows(Job& job, TickReport& report);

}  // namespace ff::reconcile
