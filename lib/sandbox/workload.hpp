#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "pg/connect.hpp"
#include "sandbox/ledger.hpp"
#include "sandbox/worker.hpp"

namespace ff::sandbox {

struct WorkloadOptions {
  /// Namespace and lane of every execution: what tells them from those of others in the same database.
  std::string name;
  Partitions partitions;
  int workers = 6;
  Milliseconds lease_ttl{1200};
  int backlog = 24;  ///< so many executions are kept waiting
};

/// What one simulated worker is doing, for people.
struct WorkerState {
  enum class Doing { waiting, working, crashed, ended };
  std::string id;
  Doing doing = Doing::waiting;
  std::optional<Claim> claim;  ///< what it holds, or held when it crashed
  SteadyTime since;
  Milliseconds planned{0};  ///< how long the work or the restart takes
};

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
/// All members are safe from any thread.
class Workload {
 public:
  /// Starts at once. `connector` must outlive it.
  Workload(const pg::Connector& connector, WorkloadOptions options);
  /// Ends everything at once, cancelling statements that run.
  ~Workload();
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  /// No further execution is made or claimed; the workers finish what they hold and end.
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

  void start();
  void end();
  void run(const std::string& name, const std::function<void(pg::Connection&)>& body);
  void keep_backlog(pg::Connection& connection);
  /// False: cut short, because everything ends now.
  bool pause(Milliseconds length) const;
  void show(std::size_t slot, WorkerState state);

  const pg::Connector& connector_;
  const WorkloadOptions options_;
  Ledger ledger_;
  pg::Interrupt interrupt_;
  std::atomic<bool> finishing_{false};
  std::atomic<int> running_{0};

  mutable std::mutex mutex_;
  mutable std::condition_variable stopped_;
  bool stopping_ = false;             // guarded by mutex_
  std::vector<WorkerState> workers_;  // guarded by mutex_
  std::deque<Happening> happenings_;  // guarded by mutex_
  std::vector<std::string> errors_;   // guarded by mutex_
  std::vector<std::jthread> threads_;
};

}  // namespace ff::sandbox
