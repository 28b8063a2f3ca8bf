#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "demo/simulation/ledger.hpp"
#include "demo/simulation/past.hpp"
#include "demo/simulation/plans.hpp"
#include "demo/simulation/worker.hpp"
#include "pg/connect.hpp"

namespace ff::simulation {

struct WorkloadOptions {
  /// Namespace and lane of every execution: what tells them from those of others in the same database.
  std::string name;
  Partitions partitions;
  int workers = 6;
  Milliseconds lease_ttl{1200};
  int backlog = 24;     ///< so many executions are kept waiting
  bool budgets = true;  ///< they belong to no namespace, so only where all budgets are the workload's own
  /// Executions that are deleted seconds after their end: only where execution_retention runs.
  bool short_lived = false;
  /// Workers that fall silent under a long lease: only where dead_worker runs.
  bool silent_workers = false;
  /// Flows whose cancel is left half done: only where cancel_backlog runs.
  bool cancelled_flows = false;
  Past past{};  ///< what was there before, for the books
  /// Whoever loses the database comes back when it is there again, empty-handed: what was under way is left behind,
  /// and counted as `interrupted`.
  bool outlives_outages = false;
};

/// What one simulated worker is doing, for people.
struct WorkerState {
  enum class Doing { waiting, working, crashed, ended };
  std::string id;
  Doing doing = Doing::waiting;
  std::optional<Claim> claim;  ///< what it holds, or held when it crashed
  SteadyTime since;
  Milliseconds planned{0};  ///< how long the work or the restart takes; 0: for ever
  std::string note = {};    ///< what is special about it, or empty
};

/// The key of the waitpoint of those that are answered, and how long they are worked on afterwards.
inline constexpr const char* kAnswered = "question";
inline constexpr Milliseconds kWorkAfterAnswer{1600};

/// Something worth telling, for people.
struct Happening {
  SteadyTime at;
  std::string text;
};

/// Makes executions and works on them with simulated workers, each a thread with a connection of its own:
/// most work is completed, some fails with or without a retry, longer work renews its lease. About every
/// fifth claim is abandoned as by a crash, and its worker starts again under another name; a few executions
/// crash every worker. Some of the crashed come back after their lease was taken from them and try to go on:
/// they have to be refused.
///
/// They claim in all of FlowFabric's ways: by handle, with grants, and what was suspended before.
///
/// Some executions follow a plan: they are delayed, suspended with waitpoints and each kind of time-out, answered
/// by a signal, taken over with a reclaim grant, hang until their deadline, or are left behind under a long lease. Flows
/// make executions wait for others; workers are registered and send heartbeats while they live; budgets are used up. Whatever can fall due falls due within seconds.
///
/// All members are safe from any thread.
class Workload {
 public:
  /// Starts at once. `connector` must outlive it.
  Workload(const pg::Connector& connector, WorkloadOptions options);
  /// Ends everything at once, cancelling statements that run.
  ~Workload();
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  /// No further execution is made or claimed; the workers finish what they hold and end. Those that wait for an
  /// answer get none any more, and budgets are not renewed after their next reset.
  void finish();
  /// All threads have ended, be it by an error.
  bool ended() const { return running_ == 0; }

  const Ledger& ledger() const { return ledger_; }
  std::vector<WorkerState> workers() const;
  /// The latest happenings, oldest first, at most `most`.
  std::vector<Happening> latest(std::size_t most) const;
  void tell(std::string text);
  /// What ended a thread before its time: after it the ledger is incomplete.
  std::vector<std::string> errors() const;

  const WorkloadOptions& options() const { return options_; }

 private:
  friend class SimulatedWorker;
  friend class SpecialCases;
  friend class FlowMaker;
  friend class BudgetSpender;
  friend class QuotaUser;
  friend class ShortLived;
  friend class SignalSender;
  friend class Register;

  void start();
  void end();
  void run(const std::string& name, const std::function<void(pg::Connection&)>& body);
  bool live_until_an_outage(const std::function<void(pg::Connection&)>& body);
  void keep_backlog(pg::Connection& connection);
  /// Notes that whoever goes on with it after an answer takes a while to complete it.
  void will_go_on(const ExecutionId& execution);
  void answer_in(const ExecutionId& execution, Milliseconds time);
  /// Those whose answer is due, each once.
  std::vector<ExecutionId> answers_due();
  /// False: cut short, because everything ends now.
  bool pause(Milliseconds length) const;
  void show(std::size_t slot, WorkerState state);

  const pg::Connector& connector_;
  const WorkloadOptions options_;
  Ledger ledger_;
  Plans plans_;
  pg::Interrupt interrupt_;
  std::atomic<bool> finishing_{false};
  std::atomic<int> running_{0};

  mutable std::mutex mutex_;
  mutable std::condition_variable stopped_;
  bool stopping_ = false;                                    // guarded by mutex_
  std::vector<WorkerState> workers_;                         // guarded by mutex_
  std::deque<Happening> happenings_;                         // guarded by mutex_
  std::vector<std::string> errors_;                          // guarded by mutex_
  std::vector<std::pair<SteadyTime, ExecutionId>> answers_;  // guarded by mutex_
  std::vector<std::jthread> threads_;
};

}  // namespace ff::simulation
