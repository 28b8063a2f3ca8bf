#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "histories/coverage.hpp"
#include "histories/exclusions.hpp"
#include "histories/judge.hpp"
#include "histories/names.hpp"
#include "histories/recount.hpp"
#include "histories/rescuer.hpp"
#include "histories/snapshot.hpp"
#include "histories/step.hpp"
#include "histories/theatre.hpp"
#include "histories/verdict.hpp"
#include "support/flowfabric.hpp"

namespace ff::test {

enum class Rescue { daemon, scanners, nobody };

struct StageOptions {
  Rescue rescue = Rescue::daemon;
  std::int64_t grace_ms = 0;
  std::uint64_t seed = 1;  ///< of the identifiers that FlowFabric draws
  bool forgive = true;     ///< what exclusions() name
};

/// Executions by name.
using RowsByName = std::map<std::string, ExecutionRows>;

/// A database on which a history is played, step by step, and what is wrong with what came of it. One object
/// at a time.
class Stage final : public Theatre {
 public:
  explicit Stage(const StageOptions& options);

  bool perform(const Step& step) override;
  /// A step that somebody else performed on this database, of which run_out() has to know: one that names its
  /// execution, no handle. The executions that it was about, as they stood before and after.
  void hear_of(const Step& step, const Json& told, const RowsByName& before, const RowsByName& after);
  /// The end: every clock runs out, and what is left must have a future.
  void run_out();

  const std::vector<Verdict>& verdicts() const { return verdicts_; }
  const Coverage& coverage() const { return coverage_; }
  std::size_t executions() const { return names_.executions.size(); }
  const FlowFabricDatabase& database() const { return database_; }
  /// Says it, unless it is excluded.
  void blame(const Verdict& verdict);

  const std::map<std::string, std::string>& names() const override { return names_.executions; }
  const std::map<std::string, std::string>& flows() const override { return names_.flows; }
  const std::vector<Lease>& leases() const override { return leases_; }
  const std::vector<std::string>& budgets() const override { return names_.budgets; }
  const std::vector<std::string>& quotas() const override { return names_.quotas; }
  ExecutionRows rows_of(const std::string& execution) override;
  std::vector<std::string> members_of(const std::string& flow) const override;
  std::vector<std::string> staged_edges() const override { return names_.staged_edges(); }
  std::vector<std::string> waitpoints_of(const std::string& execution) const override {
    return names_.waitpoints_of(execution);
  }

 private:
  friend class LastCall;

  const Snapshot& everything();
  void take_turn(const Step& step);
  void judge_turn(const Snapshot& before, const Snapshot& after);
  void judge_recounts(const Snapshot& before, const Snapshot& after);
  bool operate(const Step& step);
  /// The executions that a step is about, by name.
  std::vector<std::string> subjects_of(const Step& step) const;
  void refused(const Step& step, const std::string& kind);

  RowsByName rows_of_all(const std::vector<std::string>& executions);
  void remember(const Step& step, const Json& told, const RowsByName& before);
  void remember_lease(const Step& step, const Json& told);
  void remember_work(const Step& step, const ExecutionRows& before);
  void remember_spending(const Step& step);
  void set_clock_back(const Lease& lease);

  /// As far as its worker can know.
  bool holds(const Lease& lease) const;
  Lease* lease_named(const std::string& handle);
  const Lease* lease_named(const std::string& handle) const;
  std::int64_t now_ms() const;
  void recount_budgets(const Snapshot& now);

  const StageOptions options_;
  FlowFabricDatabase database_;
  FlowFabric flowfabric_;
  pg::Connection connection_;
  std::unique_ptr<Rescuer> rescuer_;
  std::optional<Snapshot> seen_;  // nothing has changed since
  std::int64_t aged_ms_ = 0;
  Names names_;
  std::vector<Lease> leases_;
  std::map<std::string, std::int64_t> unledgered_;  // by budget: reported without an execution in this period
  std::set<std::string> miscounted_;                // budgets of which it was said
  std::set<std::string> ended_by_a_turn_;           // by name
  std::map<std::string, Recounted> recounted_;      // the last time, by downstream
  Excluded excluded_;
  std::vector<Verdict> verdicts_;
  Coverage coverage_;
};

}  // namespace ff::test
