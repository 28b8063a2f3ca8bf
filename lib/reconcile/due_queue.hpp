#pragma once

#include <cstddef>
#include <optional>

#include "reconcile/fair_queue.hpp"

namespace ff::reconcile {

struct Job;
class Worker;

/// All that is due to a pair, while it is more than storm control lets it give back: read once, and then what has fallen due
/// since; each namespace has its turn. All is read anew now and then: what was locked, had failed or found no room is
/// not in it, and what others have taken meanwhile is. One thread at a time.
class DueQueue {
 public:
  bool is_in_use() const { return read_until_.has_value(); }
  /// From the next read() on.
  void start();
  void stop();

  /// While it is in use. Throws pg::Error. It takes its time: the tick's deadline is put off by as much.
  void read(Job& job, Worker& worker);
  /// What fell due up to then has been read, while it is in use.
  UnixMillis read_until() const { return *read_until_; }

  FairQueue& rows() { return rows_; }

 private:
  FairQueue rows_;
  std::optional<UnixMillis> read_until_;
  SteadyTime read_again_at_{};
  SteadyTime read_anew_at_{};
  std::size_t first_group_ = 0;  // of the next reading of all
};

}  // namespace ff::reconcile
