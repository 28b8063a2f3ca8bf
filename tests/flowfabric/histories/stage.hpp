#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "histories/exclusions.hpp"
#include "histories/judge.hpp"
#include "histories/names.hpp"
#include "histories/rescuer.hpp"
#include "histories/theatre.hpp"
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

/// A database on which a history is played, step by step, and what is wrong with what came of it. One object
/// at a time.
class Stage final : public Theatre {
 public:
  explicit Stage(const StageOptions& options);

  bool perform(const Step& step) override;
  /// A step that somebody else performed on this database, of which run_out() has to know: one that names its
  /// execution, no handle.
  void hear_of(const Step& step, const Json& told, const ExecutionRows& before);
  /// The end: every clock runs out, and what is left must have a future.
  void run_out();

  const std::vector<Verdict>& verdicts() const { return verdicts_; }
  /// What workers ended a second time all by themselves.
  int ended_twice_by_workers() const { return ended_twice_by_workers_; }
  std::size_t executions() const { return names_.executions.size(); }
  const FlowFabricDatabase& database() const { return database_; }
  /// Unless it is forgiven.
  void blame(Fault fault, const std::string& who, const std::string& what);

  const std::map<std::string, std::string>& names() const override { return names_.executions; }
  const std::map<std::string, std::string>& flows() const override { return names_.flows; }
  const std::vector<Lease>& leases() const override { return leases_; }
  const std::vector<std::string>& budgets() const override { return names_.budgets; }
  ExecutionRows rows_of(const std::string& execution) override;
  std::string waitpoint_name(const std::string& uuid) const override { return names_.waitpoint_of(uuid); }

 private:
  friend class LastCall;

  void tick(const Step& step);
  bool operate(const Step& step);
  void remember(const Step& step, const Json& told, const ExecutionRows& before);
  void remember_lease(const Step& step, const Json& told);
  void remember_work(const Step& step, const ExecutionRows& before);
  void remember_exclusions(const Step& step, const ExecutionRows& before);
  void disturb(const Step& step);
  void refused(const Step& step, const std::string& kind);
  void note_second_end(const Step& step, const ExecutionRows& before);
  std::string subject_of(const Step& step);
  Lease* lease_named(const std::string& handle);
  std::int64_t now_ms() const;
  void judge_turn(const Snapshot& before, const Snapshot& after);
  bool forgiven(const Verdict& verdict);
  bool forgiven_to(const std::string& execution, Fault fault, bool as_upstream);

  const StageOptions options_;
  FlowFabricDatabase database_;
  FlowFabric flowfabric_;
  pg::Connection connection_;
  std::unique_ptr<Rescuer> rescuer_;
  std::int64_t aged_ms_ = 0;
  Names names_;
  std::vector<Lease> leases_;
  std::set<std::string> ended_by_a_turn_;                    // by name
  std::map<std::string, std::set<std::size_t>> exclusions_;  // execution -> indexes of exclusions()
  std::vector<Verdict> verdicts_;
  int ended_twice_by_workers_ = 0;
};

}  // namespace ff::test
