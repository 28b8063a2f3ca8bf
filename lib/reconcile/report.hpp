#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "pg/error.hpp"
#include "reconcile/hold.hpp"
#include "reconcile/holders.hpp"
#include "reconcile/lateness.hpp"

namespace ff::reconcile {

struct Reconciler;

/// What is known to be due now.
struct DueNow {
  std::int64_t rows = 0;
  bool more = false;  ///< it may be more
};
/// Of what the last scan left (`more`: not all of it has been read, or counted), or of what the tick under way has found and
/// not moved, if that is more. Where more may be due than is known, it is at least one.
constexpr DueNow due_now(std::int64_t left, bool more, std::int64_t in_tick) {
  const bool may_be_more = more || in_tick > left;
  return {std::max({left, in_tick, std::int64_t{may_be_more ? 1 : 0}}), may_be_more};
}

/// Why a due row was left alone.
enum class Skip { locked, no_longer_due, quarantined };
constexpr std::string_view name(Skip skip) {
  return skip == Skip::locked ? "locked" : skip == Skip::no_longer_due ? "no_longer_due" : "quarantined";
}
constexpr Skip kSkips[] = {Skip::locked, Skip::no_longer_due, Skip::quarantined};

/// The key of one row as text, beside its partition: one entry per key column of the reconciler, in their
/// order.
struct RowKey {
  PartitionKey partition;
  std::vector<std::string> columns;
  friend auto operator<=>(const RowKey&, const RowKey&) = default;
};

/// A row that was moved, or in a dry run would have been.
struct Move {
  RowKey key;
  std::string outcome;
  UnixMillis due_at;
  const Reconciler* pair = nullptr;  ///< whose columns the key has
};

/// A row that fails by itself.
struct Fault {
  const Reconciler* pair = nullptr;  ///< whose columns the key has
  RowKey key;
  std::optional<ExecutionId> execution;  ///< that it is of, where that is known
  pg::Error error;
  Milliseconds took{};  ///< the try that failed
};

/// A row that failed by itself and is left out for a while.
struct QuarantinedRow {
  RowKey key;
  const Reconciler* pair = nullptr;  ///< whose columns the key has
  std::optional<ExecutionId> execution = {};
  int tries = 0;                ///< that have failed
  std::string sqlstate = {};    ///< of the last; empty where the server gave none
  std::string message = {};     ///< of the last, on one line, without its DETAIL
  Milliseconds next_try_in{0};  ///< 0: at the next scan
};

/// A row that was due, and held by somebody else, in tick after tick.
struct HeldRow {
  RowKey key;
  const Reconciler* pair = nullptr;  ///< whose columns the key has
  std::optional<ExecutionId> execution = {};
  Milliseconds held_for{0};  ///< since a tick first found it held: the holder's transaction may be older
  int ticks = 0;             ///< that have found it held
  std::vector<Holder> holders = {};  ///< as last seen; empty where it was not to be seen
};

/// What one tick did. Counts are of rows.
struct TickReport {
  std::int64_t scanned = 0;  ///< found due
  std::int64_t watched =
      0;  ///< not taken for due yet: they have to stand still first (Reconciler::still_for)
  std::int64_t processed =
      0;  ///< their transition was committed by this tick (in a dry run: would have been)
  std::int64_t given_back = 0;  ///< the processed ones whose execution can be claimed again
  std::map<Skip, std::int64_t> skipped;
  std::map<std::string, std::int64_t, std::less<>> outcomes;  ///< the processed ones by outcome
  std::map<std::string, std::int64_t, std::less<>>
      errors;  ///< rows, or the tick itself, by pg::Error::error_class()

  bool complete = false;  ///< a scan: it saw all rows that were due, not only those that had been seen coming
  bool rested = false;    ///< a scan was asked for and left out: it is too soon for what it costs
  bool companions_rested = false;  ///< the same of any of the companions
  bool paged = false;              ///< some partitions had much due: what falls due in them next was not seen
  bool more = false;               ///< the tick ended with due rows it had not read: run again at once
  Milliseconds wait{
      0};  ///< with `more`: not at once, but so much later, because storm control, or RateLimit, holds them
  std::optional<bool> companions_more;   ///< the same of the companions alone; nothing: they did not scan
  std::optional<UnixMillis> oldest_due;  ///< of the rows found due: since when it is late
  std::map<PartitionKey, UnixMillis>
      oldest_due_in;                   ///< the same by partition, of a scan; no entry where none was due
  std::optional<UnixMillis> next_due;  ///< when the earliest row that was not due yet may be taken
  std::optional<UnixMillis>
      known_until;  ///< what may be taken before that is known, but for rows written since
  std::optional<UnixMillis> companions_known_until;  ///< the same of the companions, shortcuts apart
  std::optional<UnixMillis> all_known_until;         ///< and of all together
  UnixMillis database_time{};                        ///< by the database's clock, when the tick first read
  std::size_t quarantined = 0;                       ///< rows in quarantine now
  std::vector<QuarantinedRow> quarantine_rows;       ///< some of these: see Quarantine::kMostTold
  std::vector<HeldRow> held;  ///< some of the rows that others have held for several ticks: see HeldRows
  std::optional<Hold> hold;   ///< what is due is more than hold_above, and is not moved or was released
  Lateness lateness;  ///< of the processed rows: how late each was at its commit, by the database's clock
  std::vector<Move> moves;  ///< only where asked for: see TickOptions::list_moves

  /// Set when the tick could not go on (connection, privileges, …). What is counted above happened all the
  /// same.
  std::optional<pg::Error> failure;
  /// Of a dry run: the rows that would be quarantined.
  std::vector<Fault> faults;

  /// Adds what another worker of the same tick did. `quarantined` and `database_time` are the tick's own.
  void add(TickReport&& other);
  /// Adds what a companion's tick did.
  void add_companion(TickReport&& companions);
  /// Counts a failure among the errors, and sorts the moves by due time.
  void finish();

  /// Due rows that a scan has left: of a backlog at least so many.
  std::int64_t left() const {
    const std::int64_t seen = std::max(scanned - processed, std::int64_t{0});
    if (!more) return seen;
    // Where the tick came to none of it, what the scan has shown.
    return std::max(seen, processed == 0 ? static_cast<std::int64_t>(oldest_due_in.size()) : 1);
  }

  std::int64_t error_count() const {
    std::int64_t sum = 0;
    for (const auto& [cls, count] : errors) sum += count;
    return sum;
  }
};

}  // namespace ff::reconcile
