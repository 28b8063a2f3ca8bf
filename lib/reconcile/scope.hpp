#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>

#include "base/partitions.hpp"
#include "base/scanner_filter.hpp"
#include "reconcile/action.hpp"
#include "reconcile/reconciler.hpp"
#include "reconcile/server_clock.hpp"
#include "reconcile/storm.hpp"

namespace ff::reconcile {

/// Over which rows an engine runs its pairs, how many at a time, and with which settings.
struct Scope {
  Partitions partitions;
  ScannerFilter filter;
  int batch_size = 1000;  ///< rows per statement and transaction at most: fewer where they are slow
  Settings settings;
  Family family;
  /// For how long rows have to have stood still, where they have to at all: instead of Reconciler::still_for.
  std::optional<Milliseconds> still_for{};
};

/// What a tick has done so far, companions included: for whoever looks on from another thread. Counts are of rows, and
/// rise once a page and once a transaction.
struct Progress {
  std::atomic<std::int64_t> scanned{0};    ///< found due
  std::atomic<std::int64_t> processed{0};  ///< committed
  std::atomic<SteadyTime> answered{};  ///< when a worker last had an answer, or an error, from the database

  struct Reading {
    std::int64_t scanned = 0;
    std::int64_t processed = 0;
    /// Found due, and not moved yet.
    std::int64_t left() const { return scanned - processed; }
  };
  Reading read() const {
    const std::int64_t moved = processed;  // first: what is moved in between was found before
    return {scanned, moved};
  }
};

struct TickOptions {
  /// No further batch is started after this moment, or after it by as long as the scan took: however slow a server is,
  /// a tick gets on. What is left makes the report's `more`.
  SteadyTime deadline = SteadyTime::max();
  /// The same, at any moment.
  std::stop_token stop{};
  /// Asked before each batch, from any thread, and again before it is committed. False: it is rolled back, and the
  /// tick ends as at its deadline. Empty: always.
  std::function<bool()> may_write{};
  /// Told whenever the database has said what time it is, by any thread, and before may_write is asked. Empty: nobody is.
  std::function<void(const TimeReading&)> told_time{};
  /// Told at once, by any thread, when a batch could not be written for want of room on the server's disk. Empty: nobody is.
  std::function<void()> met_full_disk{};
  /// Asked by any thread when a batch has been written, and is to be committed. False: it is the first for which there was
  /// room again, and is rolled back, as what may_write forbids. Empty: it was not.
  std::function<bool()> found_room{};
  /// How far into the future to scan for rows that will fall due: as far as the next scan is away anyway.
  Milliseconds scan_ahead{0};
  /// Otherwise only what an earlier scan of the same engine has seen coming is taken, if it is due by now.
  bool scan = true;
  /// The same two for the companions of the reconciler, which are scanned in a time of their own.
  Milliseconds companions_scan_ahead{0};
  bool companions_scan = true;
  /// Whether to scan where announcements lead, which is worth it only between scans that read slices.
  bool shortcuts_scan = false;
  /// A scan is one of many: of a table through which a pair walks it reads the next slice only, and more (see ScanCursor).
  bool in_slices = false;
  /// Of what a pair has to find out first, the word of others is not enough (see Prelude).
  bool wary = false;
  /// Whether an operator has released a hold that began then, by the database's clock (see Hold). Empty: nobody has.
  std::function<bool(UnixMillis since)> released{};
  /// What holds the giving back, and the taking of leases, to a measure. Null: nothing does. Not asked in a dry run.
  Storm* storm = nullptr;
  /// Keep to the setting kMaxRowsPerSecond.
  bool rate_limited = false;
  /// Act and roll back, whatever hold_above says.
  bool dry_run = false;
  /// Fill the report's `moves`.
  bool list_moves = false;
  /// Told of each execution that was ended and each row that was deleted, once their transaction is over, by the thread
  /// that did it: any. Must not throw. Empty: nobody is.
  std::function<void(const std::vector<Action>&)> tell{};
  /// Counted up while the tick runs. Null: nobody looks on.
  Progress* progress = nullptr;
};

}  // namespace ff::reconcile
