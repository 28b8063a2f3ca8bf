#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "histories/exclusions.hpp"
#include "histories/judge.hpp"
#include "histories/rescuer.hpp"
#include "histories/snapshot.hpp"
#include "histories/step.hpp"
#include "histories/verdict.hpp"
#include "support/flowfabric.hpp"

namespace ff::test {

/// A worker's clock that is behind: in the time of a history (a second of life is two of its minutes) as far as
/// a `grace` has to cover. A lease of such a worker ends that much earlier by the database's clock.
constexpr std::int64_t kBehindMs = 240'000;

enum class Rescue { daemon, scanners, nobody };

struct StageOptions {
  Rescue rescue = Rescue::daemon;
  std::int64_t grace_ms = 0;
  std::uint64_t seed = 1;  ///< of the identifiers that FlowFabric draws
  bool forgive = true;     ///< what exclusions() name
};

/// A lease that some worker believes to have.
struct Lease {
  std::string handle;
  std::string execution;  ///< by name
  std::int64_t attempt = 0;
  std::int64_t ttl_ms = 0;
  std::int64_t ends_at_ms = 0;  ///< by the worker's own clock, in the time of the history
  bool behind = false;
  bool typed = false;
  bool given_up = false;  ///< by the worker itself
  bool lost = false;      ///< taken for a good reason
  bool fenced = false;    ///< by a turn of a reconciler
};

/// A database on which a history is played, step by step, and what is wrong with what came of it. One object
/// at a time.
class Stage {
 public:
  explicit Stage(const StageOptions& options);

  /// False: it did nothing, because a name in it means nothing (yet) or FlowFabric refused.
  bool perform(const Step& step);
  /// The end: every clock runs out, and what is left must have a future.
  void run_out();

  const std::vector<Verdict>& verdicts() const { return verdicts_; }
  /// What workers ended a second time all by themselves.
  int ended_twice_by_workers() const { return ended_twice_by_workers_; }
  std::size_t executions() const { return executions_.size(); }

  // For who invents steps.
  const std::map<std::string, std::string>& flows() const { return flows_; }
  const std::map<std::string, std::string>& names() const { return executions_; }
  const std::vector<Lease>& leases() const { return leases_; }
  const std::vector<std::string>& budgets() const { return budget_names_; }
  ExecutionRows rows_of(const std::string& execution);
  /// The name of an open waitpoint by its uuid; "" where it has none.
  std::string waitpoint_name(const std::string& uuid) const;

 private:
  friend class LastCall;
  struct Waitpoint {
    std::string id;
    std::string token;
    std::string execution;
  };

  void tick(const Step& step);
  bool operate(const Step& step);
  std::optional<Json> resolved(const Step& step) const;
  void remember(const Step& step, const Json& told, const ExecutionRows& before);
  void remember_lease(const Step& step, const Json& told);
  void remember_names(const Step& step, const Json& told);
  void remember_work(const Step& step, const ExecutionRows& before);
  void remember_exclusions(const Step& step, const ExecutionRows& before);
  void disturb(const Step& step);
  void refused(const Step& step, const std::string& kind);
  void note_second_end(const Step& step, const ExecutionRows& before);
  std::string subject_of(const Step& step);
  Lease* lease_named(const std::string& handle);
  std::string name_of(const std::string& uuid) const;
  std::string uuid_of(const std::string& execution) const;
  std::int64_t now_ms() const;
  void judge_turn(const Snapshot& before, const Snapshot& after);
  bool forgiven(const Verdict& verdict);
  bool forgiven_to(const std::string& execution, Fault fault, bool as_upstream);
  void blame(Fault fault, const std::string& who, const std::string& what);

  const StageOptions options_;
  FlowFabricDatabase database_;
  FlowFabric flowfabric_;
  pg::Connection connection_;
  std::unique_ptr<Rescuer> rescuer_;
  std::int64_t aged_ms_ = 0;
  std::map<std::string, std::string> executions_;  // name -> {fp:N}:uuid
  std::map<std::string, std::string> names_;       // uuid -> name
  std::map<std::string, std::string> flows_;
  std::map<std::string, std::vector<std::string>> members_;  // of a flow, by name
  std::map<std::string, std::vector<std::string>> upstreams_;
  std::map<std::string, std::string> budgets_;
  std::vector<std::string> budget_names_;
  std::map<std::string, Waitpoint> waitpoints_;
  std::vector<Lease> leases_;
  std::set<std::string> ended_by_a_turn_;                    // by name
  std::map<std::string, std::set<std::size_t>> exclusions_;  // execution -> indexes of exclusions()
  std::vector<Verdict> verdicts_;
  int ended_twice_by_workers_ = 0;
};

}  // namespace ff::test
