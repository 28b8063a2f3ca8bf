#pragma once

#include <functional>
#include <stop_token>

#include "base/partitions.hpp"
#include "base/scanner_filter.hpp"
#include "reconcile/reconciler.hpp"

namespace ff::reconcile {

/// Over which rows an engine runs its pair, and in which helpings.
struct Scope {
  Partitions partitions;
  ScannerFilter filter;
  int batch_size = 1000;  ///< rows per statement and transaction at most: fewer where they are slow
  Settings settings;
  Family family;
};

struct TickOptions {
  /// No further batch is started after this moment, or after it by as long as the look took: however slow a server is,
  /// a tick gets on. What is left makes the report's `more`.
  SteadyTime deadline = SteadyTime::max();
  /// The same, at any moment.
  std::stop_token stop{};
  /// Asked before each batch, from any thread, and again before it is committed. False: it is rolled back, and the
  /// tick ends as at its deadline. Empty: always.
  std::function<bool()> may_write{};
  /// How far into the future to look for rows that will fall due: as far as the next look is away anyway.
  Milliseconds look_ahead{0};
  /// Otherwise only what an earlier look of the same engine has seen coming is taken, if it is due by now.
  bool look = true;
  /// The same two for the companions of the reconciler, which are looked at in a time of their own.
  Milliseconds companions_look_ahead{0};
  bool companions_look = true;
  /// Whether to look where announcements lead, which is worth it only between looks that read slices.
  bool shortcuts_look = false;
  /// Of a table through which a pair walks, a look reads the next slice only.
  bool in_slices = false;
  /// Act and roll back.
  bool dry_run = false;
  /// Fill the report's `moves`.
  bool list_moves = false;
};

}  // namespace ff::reconcile
