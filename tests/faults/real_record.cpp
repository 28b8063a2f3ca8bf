#include "faults/real_record.hpp"

#include <fmt/format.h>

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

struct Found {
  std::string execution;
  std::int64_t success;
  std::int64_t failed;
  std::int64_t expired;
  bool revocable;
};

std::vector<Found> read(pg::Connection& db, const std::string& lane) {
  std::vector<Found> all;
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
  ++counts_.unheard;
  if (execution.empty())
    ++counts_.unheard_of_any;
  else
    ++executions_[execution].unheard;
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

std::vector<Verdict> RealRecord::verdicts(pg::Connection& db, const std::string& lane) const {
  const std::vector<Found> all = read(db, lane);
  const std::lock_guard lock(mutex_);
  Verdict work{.question = "what they were told is done, is, and once"};
  Verdict lapses{.question = "every lease they left behind was noticed, exactly once"};
  std::int64_t ends = 0;
  std::int64_t expired = 0;
  std::int64_t left_behind = 0;
  for (const Found& found : all) {
    const auto known = executions_.find(found.execution);
    const Of told = known == executions_.end() ? Of{} : known->second;
    ends += found.success + found.failed;
    expired += found.expired;
    left_behind += told.left_behind;
    const std::string ended = found.success == 1 ? "success" : found.failed == 1 ? "failed" : "";
    const bool right = told.ended == ended || (told.ended.empty() && told.unheard > 0);
    if (found.success + found.failed > 1 || !right)
      contradict(work,
                 fmt::format("{} has {} ends with success and {} with failure, its worker was told '{}'",
                             found.execution, found.success, found.failed, told.ended));
    if (found.expired + (found.revocable ? 1 : 0) + told.unheard < told.left_behind)
      contradict(lapses, fmt::format("{}: {} leases were left behind, {} were taken back", found.execution,
                                     told.left_behind, found.expired));
    // A claim that nobody heard of could be of this one.
    if (found.expired > told.left_behind + told.unheard + counts_.unheard_of_any)
      contradict(lapses, fmt::format("{}: {} leases were taken back, {} were left behind", found.execution,
                                     found.expired, told.left_behind));
  }
  work.numbers = fmt::format("{} executions, {} ends", all.size(), ends);
  lapses.numbers = fmt::format("{} left behind, {} taken back", left_behind, expired);
  Verdict late{.question = "those of them who come back too late are refused",
               .numbers = fmt::format("{} refused", counts_.late_refused)};
  for (const std::string& execution : late_accepted_) contradict(late, execution + " was let in");
  Verdict holders{.question = "no lease was taken of one of them that lives",
                  .numbers = fmt::format("{} held throughout", counts_.holding)};
  if (counts_.holding == 0) contradict(holders, "nobody held one");
  for (const std::string& execution : robbed_) contradict(holders, execution + " was taken");
  return {load(), work, lapses, late, holders};
}

}  // namespace ff::faults
