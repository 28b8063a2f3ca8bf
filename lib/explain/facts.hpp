#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/scanner_filter.hpp"
#include "base/setting.hpp"
#include "base/time.hpp"
#include "pause/pause.hpp"
#include "reconcile/holders.hpp"

/// Why one execution does not move: `read` asks the database, `findings` and `verdicts` know what it means.
namespace ff::explain {

/// The execution's row, but for payload, result and most of raw_fields.
struct Core {
  std::optional<Uuid> flow;
  std::string lane;
  std::string capabilities;  ///< that a worker must have, separated by commas
  int attempt_index = 0;
  std::string lifecycle_phase;
  std::string ownership_state;
  std::string eligibility_state;
  std::string public_state;
  std::string attempt_state;
  std::optional<std::string> blocking_reason;
  std::optional<std::string> cancellation_reason;
  std::optional<std::string> cancelled_by;
  UnixMillis created_at{};
  std::optional<UnixMillis> started_at;
  std::optional<UnixMillis> terminal_at;
  std::optional<UnixMillis> deadline_at;
  std::int64_t max_retries = 0;
  std::optional<std::string> name_space;
  std::optional<UnixMillis> delay_until;  ///< of a retry with back-off
  std::optional<UnixMillis> last_mutation_at;
  std::optional<std::string> last_failure;
  std::optional<std::string> newest_outcome;  ///< of its newest attempt
  bool is_replayed = false;
  std::optional<std::string>
      word_of_end;  ///< of one that has ended as resumable, by what else stands about it

  bool is(std::string_view phase) const { return lifecycle_phase == phase; }
  bool delayed() const { return is("runnable") && eligibility_state == "not_eligible_until_time"; }
  /// It waits for the back-off before its next attempt, or for the delay of an operator's resume. The reason alone does not
  /// tell: FlowFabric never clears it, and a worker may have delayed since.
  bool backs_off() const;
  bool resumes_later() const;
  /// `deadline_at` is the end of a worker's delay, and no deadline.
  bool deadline_is_delay() const;
  bool ended() const { return is("terminal") || is("cancelled"); }
  /// By whom is said of cancels alone: what ends otherwise may give a reason, too.
  bool was_cancelled() const { return !cancelled_by.value_or("").empty(); }
};

struct Attempt {
  int index = 0;
  std::optional<std::string> worker;
  std::int64_t epoch = 0;
  std::optional<UnixMillis> lease_expires_at;
  std::optional<UnixMillis> started_at;
  std::optional<UnixMillis> terminal_at;
  std::optional<std::string> outcome;
  std::int64_t reclaims = 0;  ///< in the present run: a replay begins another
};

/// A claim or a reclaim that a worker was promised.
struct Grant {
  std::string kind;
  std::string worker;
  UnixMillis expires_at{};

  /// As grant_expiry has it.
  bool is_endless() const { return kind == "claim" && expires_at <= UnixMillis{}; }
  bool lives(UnixMillis now) const { return is_endless() || expires_at > now; }
};

struct Suspension {
  UnixMillis suspended_at{};
  std::optional<UnixMillis> timeout_at;
  std::string behavior;
  std::optional<std::string> reason;
  std::string condition = {};  ///< FlowFabric's ResumeCondition, as JSON
  std::string signals = {};    ///< that have come, as JSON: a list for each waitpoint's key
};

struct Waitpoint {
  std::string id;
  std::string key;
  std::string state;
  std::string signals;  ///< names that are waited for, separated by commas
  std::optional<UnixMillis> expires_at;
  std::optional<UnixMillis> activated_at = {};
};

/// A fan-in: what its downstream waits for, as it was counted.
struct FanIn {
  std::string kind;
  std::int64_t k = 1;
  std::int64_t success = 0, fail = 0, skip = 0, running = 0;
  bool cancels_rest = false;              ///< the flag for siblings that are to be cancelled is raised
  std::optional<UnixMillis> enqueued_at;  ///< in the list that edge_cancel_dispatcher works off

  std::int64_t counted() const { return success + fail + skip; }
  bool satisfied() const;
  /// By its counts. A quorum that needs more than its edges can bring is not while one of them runs: FlowFabric decides it
  /// by the next end, and other edges may come before.
  bool impossible() const;  ///< of a quorum only once all have ended: until then an edge may still come
};

/// What came of moving an execution's due rows, which was rolled back.
struct Trial {
  std::vector<std::string> outcomes;
  bool locked = false;
  bool left_alone = false;    ///< by each outcome: it would move nothing
  std::string error;          ///< with its SQLSTATE; empty: none
  Milliseconds still_for{0};  ///< so long the rows have to stand still first, which one scan cannot see
};

/// One edge to an execution that this one waits for.
struct Upstream {
  ExecutionId id{};
  std::string lifecycle_phase;  ///< empty: there is no such execution
  std::string public_state;
  bool staged = false;  ///< not applied: in no group's counts
  std::int64_t events = 0;
  std::optional<std::string> outcome;  ///< as the latest event of an end has it
  std::optional<UnixMillis> undispatched_since;
  std::optional<UnixMillis> ended_at;
  Uuid edge = {};
  std::string attempt_state = {};
  std::optional<std::string> word_of_end =
      {};                                ///< that its missing event should have, where something tells it
  std::optional<Trial> passing_on = {};  ///< of its end, where that was to be tried

  bool ended() const { return lifecycle_phase == "terminal" || lifecycle_phase == "cancelled"; }
  std::string state() const;  ///< see explain::state
};

/// One step on the way from an execution to those that it waits for, all of which wait for all of theirs.
struct WaitsFor {
  ExecutionId downstream{};
  ExecutionId upstream{};
  Uuid edge = {};
};

/// An execution that waits for this one.
struct Downstream {
  ExecutionId id{};
  std::string lifecycle_phase;
  std::string public_state;
  bool cancels_us = false;  ///< its fan-in is satisfied without this execution, which is to be cancelled
  bool enqueued = true;     ///< in the list that edge_cancel_dispatcher works off

  std::string state() const;  ///< see explain::state
};

/// In one word: public_state, but where FlowFabric left it as it was before the end what the event of the end says, or
/// else the phase. A worker that completes what was cancelled leaves `cancelled`, too. No cancel of an execution's own makes
/// its attempt `attempt_terminal`, and whatever does writes an event: only with that word the newest one is of this end.
std::string state(std::string_view lifecycle_phase, std::string_view public_state,
                  std::string_view attempt_state, const std::optional<std::string>& outcome);

struct CompletionEvent {
  std::int64_t id = 0;
  std::string outcome;
  UnixMillis committed_at{};
  std::optional<UnixMillis> dispatched_at;
};

struct LeaseEvent {
  std::string type;
  UnixMillis at{};
};

using reconcile::Holder;

/// The first that is to be claimed of its partition and lane: FlowFabric's `claim` looks at no other.
struct First {
  ExecutionId id{};
  std::string capabilities;  ///< as those of the core
  std::int64_t capable = 0;  ///< workers that have registered for the lane, are alive and have them
};

/// Workers that have registered and are alive.
struct Workers {
  std::int64_t alive = 0;  ///< in the execution's namespace
  std::int64_t for_lane = 0;
  std::int64_t capable = 0;  ///< of those for its lane
};

/// A row of the execution's that a reconciler moves sooner or later.
struct Row {
  UnixMillis takeable_at{};
  bool due = false;
};

/// A row that failed, and that a running daemon leaves out for a while.
struct Quarantined {
  int tries = 0;
  UnixMillis next_try{};
  std::string message;  ///< of the last, with its SQLSTATE
};

/// What storm control of a running daemon holds a reconciler to.
struct StormHold {
  std::optional<Milliseconds> open_for;  ///< for so long no lease is taken; nothing: the breaker is not open
  std::int64_t queued = 0;               ///< so many rows wait for their turn
};

/// What one reconciler has to do with the execution.
struct Inspection {
  std::string_view reconciler;
  bool takes_leases = false;  ///< as its declaration says
  bool is_dated = true;       ///< its rows tell since when they are due
  bool leaves_promised = false;
  std::string_view no_rows = {};  ///< what is said where it has none; empty: nothing in particular
  bool enabled = true;
  ScannerFilter filter;
  Settings settings;
  std::vector<Row> rows;
  bool filtered = false;  ///< they are not its rows: the filter leaves them out
  std::optional<Trial> trial;
  std::optional<Quarantined> quarantined = {};  ///< its row that is tried again last
  std::vector<pause::Pause> pauses = {};        ///< that hold it, each by itself
  std::int64_t held_above = 0;  ///< more rows than that are due, its hold_above; 0: they are not
  std::optional<StormHold> storm = {};

  bool due() const;
  bool moves() const;                             ///< it is due, and not known to be left alone all the same
  std::optional<UnixMillis> takeable_at() const;  ///< the earliest
};

/// All that is known of one execution at one moment.
struct Facts {
  ExecutionId id{};
  UnixMillis now{};                       ///< by the database's clock
  bool covered = true;                    ///< the configuration has its partition
  bool has_partition = true;              ///< the database has it
  bool daemon_seen = true;                ///< a session of one is on the server
  std::optional<PartitionKey> elsewhere;  ///< not here, but there is one of the same uuid in this partition
  std::optional<Core> core;
  std::vector<Attempt> attempts;  ///< the latest first, but those with a lease before all
  std::vector<Grant> grants;      ///< the latest first
  std::optional<Suspension> suspension;
  std::vector<Waitpoint> waitpoints;  ///< those of the present suspension first
  std::int64_t waitpoints_in_all = 0;
  std::optional<FanIn> fan_in;
  std::vector<Upstream> upstreams;  ///< those that have ended unnoticed first, then those at work
  std::int64_t upstreams_in_all = 0;
  std::int64_t ended_upstreams = 0;                             ///< over applied edges
  std::int64_t succeeded_upstreams = 0, skipped_upstreams = 0;  ///< of those, by the latest event of each
  std::int64_t untold_upstreams = 0;                            ///< of those, without such an event
  bool any_staged = false;                                      ///< an edge of all of them is not applied yet
  std::vector<WaitsFor> way;  ///< a few steps; empty: none waits for all of its own
  std::vector<Downstream> downstreams;
  std::int64_t downstreams_in_all = 0;
  std::vector<CompletionEvent> completions;  ///< the latest first
  std::vector<LeaseEvent> lease_events;      ///< the latest first
  std::vector<Holder> holders;
  Workers workers;
  std::optional<First> first;  ///< where the execution is to be claimed
  std::vector<Inspection> inspections;
  bool flow_cancelled = false;     ///< by a cancel of all its members, and no replay has begun it anew
  std::string pauses_unread = {};  ///< why it is not known which of them are paused; empty: it is

  /// As reconcilers see it: of an active execution the latest with a lease, otherwise the latest. Null: there is none.
  const Attempt* current_attempt() const;
  /// The first whose end nobody has passed on; null: there is none.
  const Upstream* undispatched() const;
  /// The unexpired grant of this kind.
  const Grant* grant(std::string_view kind) const;
  const Inspection* inspection(std::string_view reconciler) const;
  /// The way comes back to it.
  bool waits_in_circle() const { return !way.empty() && way.back().upstream.uuid == id.uuid; }
  /// Its fan-in counts the ends that there were. True as well where an event is gone that would tell.
  bool fan_in_agrees() const;
  /// Of one whose deadline execution_deadline leaves: it passed before a replay. Otherwise the execution waits, and
  /// include_waiting is off.
  bool deadline_is_of_former_run() const;
  /// The newest event that tells its end; null: there is none among the latest.
  const CompletionEvent* told_end() const;
  /// The same of one that lives, and was not replayed: whoever waits for it is misled.
  const CompletionEvent* told_too_early() const;
  /// Of the execution itself, in one word.
  std::string state() const;
};

}  // namespace ff::explain
