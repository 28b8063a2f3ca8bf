#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reconcile/hold.hpp"
#include "reconcile/pager.hpp"
#include "reconcile/worker.hpp"

namespace ff::reconcile {

/// Whether so much is due, over all pairs of a reconciler, that none of them may act (see Hold). One thread at a time: that
/// of the tick.
class HoldLimit {
 public:
  /// In the order in which their turns come. They must outlive it.
  void add(Job& pair, ScanCursor& cursor) { pairs_.push_back({&pair, &cursor}); }

  /// A tick of the reconciler, over all its pairs.
  void begin_tick() { holds_back_ = false; }
  /// In this tick no pair may act any more.
  bool holds_back() const { return holds_back_; }

  /// How many of its rows the pair may try; nothing: none. Each pair asks once in a tick, when it has seen what is due and
  /// before it acts. Throws pg::Error.
  std::optional<std::int64_t> may_try(const Job& pair, Worker& worker, bool any_due);

  const std::optional<Hold>& hold() const { return hold_; }
  void forget() { hold_.reset(); }

 private:
  struct Pair {
    Job* job;
    ScanCursor* cursor;
  };
  Backlog due_of_all(const Job& acting, pg::Connection& connection, std::int64_t most);
  static Backlog due_of(const Pair& pair, pg::Connection& connection, bool in_slices, std::int64_t cap);

  std::vector<Pair> pairs_;
  std::optional<Hold> hold_;
  bool holds_back_ = false;
};

}  // namespace ff::reconcile
