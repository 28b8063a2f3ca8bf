#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "demo/simulation/past.hpp"
#include "demo/simulation/worker.hpp"

namespace ff::simulation {

/// What the simulation has done so far; each number counts committed steps, unless it says otherwise.
struct WorkCounts {
  std::int64_t created = 0;
  std::int64_t claimed = 0;
  std::int64_t renewed = 0;
  std::int64_t completed = 0;
  std::int64_t retried = 0;  ///< failed, and put back as the next attempt
  std::int64_t failed = 0;   ///< failed for good
  std::int64_t delayed = 0;  ///< by a worker, or until a failed attempt may be repeated
  std::int64_t waited = 0;   ///< for children
  std::int64_t suspended = 0;
  std::int64_t answered = 0;    ///< suspensions ended by a signal
  std::int64_t waitpoints = 0;  ///< made to be used later, and never used
  std::int64_t taken_over = 0;  ///< claims made with a reclaim grant: the lease before was left behind
  std::int64_t crashed = 0;     ///< claims that were just abandoned
  std::int64_t silent = 0;      ///< of these, under a lease that held for long still
  std::int64_t lost = 0;  ///< claims of workers that lived, but whose next step was refused: too slow, past
                          ///< the deadline, or a sibling that is not needed any more
  std::int64_t hung = 0;  ///< claims of executions that never end by themselves
  std::int64_t ghosts_refused = 0;   ///< steps of workers that came back with a claim taken from them
  std::int64_t ghosts_accepted = 0;  ///< the same, but not refused: there must be none
  std::int64_t flows = 0;
  std::int64_t leftovers = 0;    ///< pending sibling cancellations without a purpose
  std::int64_t untold = 0;       ///< members of flows that were cancelled without an event
  std::int64_t strays = 0;       ///< waitpoints that an operator's resume has left open
  std::int64_t doomed = 0;       ///< members of flows of which only the header was cancelled
  std::int64_t registered = 0;   ///< entries made in the register of workers
  std::int64_t admitted = 0;     ///< to a quota, and never given back
  std::int64_t short_lived = 0;  ///< ended, and kept for a second only: in none of the other numbers
  Past past{};                   ///< that was there before
  /// Steps that an outage cut short, so that nobody knows whether they were committed: they are in none of the other
  /// numbers.
  std::int64_t interrupted = 0;
};

/// The workers' side of the books: what the database has to agree with in the end. Safe from any thread.
class Ledger {
 public:
  /// What one execution's leases came to.
  struct Leases {
    std::int64_t released = 0;   ///< by the worker that held it
    std::int64_t abandoned = 0;  ///< lapsed or taken away: no worker has ended it
  };

  void created(const std::vector<ExecutionId>& executions, std::optional<std::int32_t> max_retries);
  void claimed();
  void renewed();
  void completed(const Claim& claim);
  void failed(const Claim& claim, bool for_good);
  void delayed(const Claim& claim);
  /// Failed, to be repeated after a while.
  void backed_off(const Claim& claim);
  void waited(const Claim& claim);
  void suspended(const Claim& claim, const Suspension& suspension);
  /// A signal has ended its suspension.
  void answered(const ExecutionId& execution);
  void waitpoint();
  void taken_over();
  /// The claim's lease lapses, or has lapsed, and no worker ends it.
  void crashed(const Claim& claim);
  /// Before crashed(): the claim's worker was on the register, and the claim's lease would hold for long.
  void fell_silent(const Claim& claim);
  void lost(const Claim& claim);
  void hung();
  void ghost(bool refused);
  void flow(bool with_leftover);
  /// A flow of which a member was cancelled, with a waitpoint that nobody uses any more.
  void cancelled_member();
  /// A flow with so many members, whose header was cancelled, and nothing else.
  void cancelled_header(std::int64_t members);
  void registered(std::int64_t number);
  void admitted();
  void short_lived();
  void interrupted();
  void found(const Past& past);

  /// The policy of its execution allows another attempt.
  bool may_retry(const Claim& claim) const;

  WorkCounts counts() const;
  /// By execution; those that nobody has claimed are not in it.
  std::map<Uuid, Leases> leases() const;
  /// How the suspension of each execution has to end: by its timeout_behavior, unless a signal was first.
  struct Suspended {
    std::optional<std::string> timeout_behavior;
    bool answered = false;
  };
  std::map<Uuid, Suspended> suspensions() const;
  /// The executions whose worker fell silent.
  std::set<Uuid> silent() const;

 private:
  mutable std::mutex mutex_;
  WorkCounts counts_;
  std::map<Uuid, std::int32_t> max_retries_;
  std::map<Uuid, Leases> leases_;
  std::map<Uuid, Suspended> suspensions_;
  std::set<Uuid> silent_;
};

}  // namespace ff::simulation
