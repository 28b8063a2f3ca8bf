#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "reconcile/due_queue.hpp"
#include "reconcile/hold_limit.hpp"
#include "reconcile/worker.hpp"

namespace ff::reconcile {

/// Storm control's tokens for rows that a worker is about to try. Those for which it has given nothing back go back where
/// they came from. The storm and the worker must outlive it.
class Tokens {
 public:
  Tokens() = default;
  Tokens(Storm& storm, Worker& worker, std::int64_t taken)
      : storm_(&storm), worker_(&worker), taken_(taken), given_back_(worker.report().given_back) {}
  Tokens(Tokens&& other) noexcept { *this = std::move(other); }
  Tokens& operator=(Tokens&& other) noexcept;
  ~Tokens() { put_back(); }

 private:
  void put_back();

  Storm* storm_ = nullptr;
  Worker* worker_ = nullptr;
  std::int64_t taken_ = 0;
  std::int64_t given_back_ = 0;  // by the worker, before
};

/// Rows to be tried now, sorted by group, and the tokens that were taken for them.
struct Admitted {
  std::vector<Candidate> rows;
  Tokens tokens{};
};

/// Which of a pair's due rows a tick tries, and how many: none that may still be moving (StillRows), that an open breaker
/// holds, or that is in quarantine, and no more than were counted (HoldLimit) or has tokens for (Storm). Where it goes short of
/// tokens, the next ticks take their rows from a queue. What threads share, worker by worker, is said below; the rest is for
/// the tick's own thread.
class Limits {
 public:
  /// `number`: of the pair, among those of its reconciler.
  Limits(Job& job, int number, HoldLimit& hold_limit)
      : job_(job), asker_{std::string(job.reconciler.name), number}, hold_limit_(hold_limit) {}

  void begin_tick();
  void end_tick(const TickReport& report);

  /// Whether any of so many due rows may be tried; asked once, before the first. Throws pg::Error.
  bool lets_act(Worker& worker, std::int64_t due, UnixMillis database_now);

  /// Those of the due rows that may be tried, all of them counted as found. Any thread, with its worker.
  Admitted admit(Worker& worker, std::vector<Candidate> rows);
  /// No further row may be tried in this tick. Any thread, with its worker.
  bool are_spent(Worker& worker);
  /// Takes those out that may still be moving: they are none of the due ones yet.
  void leave_restless(TickReport& report, std::vector<Candidate>& rows);

  /// In use while more is due than may be given back.
  DueQueue& queue() { return queue_; }
  /// Of its rows as many as there are tokens for.
  Admitted admit_from_queue(Worker& worker);
  /// What is left of it waits for the next tokens.
  void leave_queue(TickReport& report);
  /// What it has is found by another pair.
  void drop_queue();

 private:
  bool breaker_lets_act(Worker& worker, std::int64_t lapsed, UnixMillis database_now);
  void sift(Worker& worker, std::vector<Candidate>& rows);

  Job& job_;
  Asker asker_;  // who the pair is to storm control
  HoldLimit& hold_limit_;
  DueQueue queue_;

  // Of this tick.
  std::atomic<std::int64_t> left_{0};         // so many rows may still be tried: see Hold
  std::atomic<bool> short_of_tokens_{false};  // more was due than storm control lets go
  std::optional<UnixMillis> held_after_;      // leases that lapsed later are held
};

}  // namespace ff::reconcile
