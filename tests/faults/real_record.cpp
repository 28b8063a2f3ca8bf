#include "faults/real_record.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ff::faults {
namespace {

using simulation::contradict;
using simulation::Verdict;

// Of each execution: its name, how often it ended well and badly, how often its lease was taken back, and whether
// somebody may have revoked one.
constexpr const char* kFound = R"sql(
  WITH core AS MATERIALIZED (
    SELECT partition_key, execution_id, public_state FROM ff_exec_core WHERE lane_id = $1),
  ends AS (
    SELECT partition_key, execution_id, count(*) FILTER (WHERE outcome = 'success') AS success,
           count(*) FILTER (WHERE outcome = 'failed') AS failed
      FROM ff_completion_event GROUP BY 1, 2),
  lapses AS (
    SELECT partition_key, execution_id, count(*) AS expired
      FROM ff_lease_event WHERE event_type = 'expired' GROUP BY 1, 2)
  SELECT '{fp:' || c.partition_key || '}:' || c.execution_id, coalesce(e.success, 0), coalesce(e.failed, 0),
         coalesce(l.expired, 0), c.public_state IN ('cancelled', 'skipped')
    FROM core c
    LEFT JOIN ends e ON e.partition_key = c.partition_key AND e.execution_id = c.execution_id
    LEFT JOIN lapses l ON l.partition_key = c.partition_key AND l.execution_id = c.execution_id::text)sql";

std::vector<FoundExecution> read(pg::Connection& db, const std::string& lane) {
  std::vector<FoundExecution> all;
  for (const pg::Row row : db.execute(kFound, pg::Params::of(lane)))
    all.push_back({row.get<std::string>(0), row.get<std::int64_t>(1), row.get<std::int64_t>(2),
                   row.get<std::int64_t>(3), row.get<bool>(4)});
  return all;
}

}  // namespace

void RealRecord::claimed() {
  const std::lock_guard lock(mutex_);
  ++counts_.claimed;
}

void RealRecord::ended(const std::string& execution, const std::string& outcome) {
  const std::lock_guard lock(mutex_);
  std::string& told = executions_[execution].ended;
  told = told.empty() ? outcome : told + " and " + outcome;
}

void RealRecord::left_behind(const std::string& execution) {
  const std::lock_guard lock(mutex_);
  ++executions_[execution].left_behind;
  ++counts_.killed;
}

void RealRecord::refused(const std::string& execution) {
  const std::lock_guard lock(mutex_);
  ++executions_[execution].left_behind;
  ++counts_.refused;
}

void RealRecord::unheard(const std::string& execution) {
  const std::lock_guard lock(mutex_);
  ++executions_[execution].unheard;
  ++counts_.unheard;
}

void RealRecord::unheard_claim() {
  const std::lock_guard lock(mutex_);
  ++counts_.unheard_claims;
  ++counts_.unheard;
}

void RealRecord::came_back_late(const std::string& execution, bool was_refused) {
  const std::lock_guard lock(mutex_);
  if (was_refused)
    ++counts_.late_refused;
  else
    late_accepted_.push_back(execution);
}

void RealRecord::holds() {
  const std::lock_guard lock(mutex_);
  ++counts_.holding;
}

void RealRecord::robbed(const std::string& execution) {
  const std::lock_guard lock(mutex_);
  robbed_.push_back(execution);
}

Verdict RealRecord::load() const {
  Verdict verdict{.question = "FlowFabric's own workers were at work",
                  .numbers = fmt::format("{} claims, {} killed, {} refused, {} steps unheard",
                                         counts_.claimed, counts_.killed, counts_.refused, counts_.unheard)};
  if (counts_.claimed == 0 || counts_.killed == 0) contradict(verdict, "nobody worked, or nobody was killed");
  return verdict;
}

Verdict RealRecord::work(const std::vector<FoundExecution>& all) const {
  Verdict verdict{.question = "what they were told is done, is, and once"};
  auto missing = executions_;
  std::int64_t ends = 0;
  for (const FoundExecution& found : all) {
    const Of told = of(found.execution);
    missing.erase(found.execution);
    ends += found.success + found.failed;
    const std::string ended = found.success == 1 ? "success" : found.failed == 1 ? "failed" : "";
    const bool right = told.ended == ended || (told.ended.empty() && told.unheard > 0);
    if (found.success + found.failed > 1 || !right)
      contradict(verdict,
                 fmt::format("{} has {} ends with success and {} with failure, its worker was told '{}'",
                             found.execution, found.success, found.failed, told.ended));
  }
  for (const auto& [execution, told] : missing) contradict(verdict, execution + " is gone");
  verdict.numbers = fmt::format("{} executions, {} ends", all.size(), ends);
  return verdict;
}

// A lease of which nobody heard that it was claimed may have been of any of them, once.
Verdict RealRecord::lapses(const std::vector<FoundExecution>& all) const {
  Verdict verdict{.question = "every lease they left behind was noticed, exactly once"};
  std::int64_t expired = 0;
  std::int64_t left_behind = 0;
  std::int64_t unexplained = 0;
  for (const FoundExecution& found : all) {
    const Of told = of(found.execution);
    expired += found.expired;
    left_behind += told.left_behind;
    if (found.expired + (found.revocable ? 1 : 0) + told.unheard < told.left_behind)
      contradict(verdict, fmt::format("{}: {} leases were left behind, {} were taken back", found.execution,
                                      told.left_behind, found.expired));
    const std::int64_t beyond = std::max<std::int64_t>(found.expired - told.left_behind - told.unheard, 0);
    unexplained += beyond;
    if (beyond > counts_.unheard_claims)
      contradict(verdict, fmt::format("{}: {} leases were taken back, {} were left behind", found.execution,
                                      found.expired, told.left_behind));
  }
  if (unexplained > counts_.unheard_claims)
    contradict(
        verdict,
        fmt::format("{} leases were taken back that nobody had left behind, and {} claims were unheard",
                    unexplained, counts_.unheard_claims));
  verdict.numbers = fmt::format("{} left behind, {} taken back", left_behind, expired);
  return verdict;
}

RealRecord::Of RealRecord::of(const std::string& execution) const {
  const auto known = executions_.find(execution);
  return known == executions_.end() ? Of{} : known->second;
}

std::vector<Verdict> RealRecord::verdicts(pg::Connection& db, const std::string& lane) const {
  const std::vector<FoundExecution> all = read(db, lane);
  const std::lock_guard lock(mutex_);
  Verdict late{.question = "those of them who come back too late are refused",
               .numbers = fmt::format("{} refused", counts_.late_refused)};
  for (const std::string& execution : late_accepted_) contradict(late, execution + " was let in");
  Verdict holders{.question = "no lease was taken of one of them that lives",
                  .numbers = fmt::format("{} held throughout", counts_.holding)};
  if (counts_.holding == 0) contradict(holders, "nobody held one");
  for (const std::string& execution : robbed_) contradict(holders, execution + " was taken");
  return {load(), work(all), lapses(all), late, holders};
}

}  // namespace ff::faults
