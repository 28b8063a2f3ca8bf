// What a stage remembers of the steps that were performed.
#include <algorithm>

#include "histories/ageing.hpp"
#include "histories/stage.hpp"

namespace ff::test {
void Stage::hear_of(const Step& step, const Json& told, const RowsByName& before, const RowsByName& after) {
  names_.learn(step, told, step.value("execution", ""));
  for (const auto& [execution, rows] : before) excluded_.note(execution, step, rows, after.at(execution));
}

void Stage::remember(const Step& step, const Json& told, const RowsByName& before) {
  const std::string what = step.at("do");
  const std::vector<std::string> executions = subjects_of(step);
  names_.learn(step, told, executions.empty() ? "" : executions.front());
  remember_spending(step);
  const RowsByName after = rows_of_all(executions);
  for (const auto& [execution, rows] : before) excluded_.note(execution, step, rows, after.at(execution));
  if (disturbs(what))
    for (Lease& lease : leases_)
      if (before.contains(lease.execution)) lease.lost = true;
  if (what == "replay_execution") ended_by_a_turn_.erase(step.at("execution"));
  if (claims(what)) remember_lease(step, told);
  if (step.contains("handle")) remember_work(step, before.begin()->second);
}

void Stage::remember_spending(const Step& step) {
  if (!step.contains("budget")) return;
  const std::string what = step.at("do");
  const std::string budget = step.at("budget");
  if (what == "report_usage" || what == "report_usage_admin")
    unledgered_[budget] += step.at("deltas").at("tokens").get<std::int64_t>();
  if (what == "reset_budget") unledgered_.erase(budget);
  excluded_.note(budget, step, {}, {});
}

// What a worker did with its lease, or with one that it only thinks it has.
void Stage::remember_work(const Step& step, const ExecutionRows& before) {
  const std::string what = step.at("do");
  Lease& lease = *lease_named(step.at("handle"));
  if (lease.fenced && is_fenced(what))
    blame({Fault::unfenced, lease.execution, step.dump() + " was done to " + before.state()});
  // What a reconciler has ended is excluded for nobody, but for who had given the lease up before: FlowFabric left it that
  // epoch, and no reconciler saw a lease to take.
  if (ends(what) && before.ended() && ended_by_a_turn_.contains(lease.execution) && !lease.given_up)
    verdicts_.push_back(
        {Fault::ended_twice, lease.execution, step.dump() + " ended what was " + before.state()});
  // FlowFabric lets it: whoever holds the execution now has to expect everything.
  if (lease.given_up || lease.lost || what == "cancel")
    for (Lease& other : leases_)
      if (other.execution == lease.execution) other.lost = true;
  if (gives_up(what)) lease.given_up = true;
  if (what == "renew" || what == "renew_lease") remember_lease(step, Json::object());
}

void Stage::remember_lease(const Step& step, const Json& told) {
  Lease* lease = step.contains("handle") ? lease_named(step.at("handle")) : nullptr;
  if (lease == nullptr) {
    leases_.push_back({.handle = step.at("as"),
                       .execution = step.at("execution"),
                       .attempt = told.at("attempt"),
                       .epoch = told.at("epoch"),
                       .ttl_ms = step.at("ttl_ms"),
                       .behind = step.value("behind", false)});
    lease = &leases_.back();
  }
  lease->ends_at_ms = now_ms() + lease->ttl_ms;
  if (lease->behind) set_clock_back(*lease);
}

// FlowFabric stamps leases by its host's clock, and this worker's is behind.
void Stage::set_clock_back(const Lease& lease) {
  connection_.execute(
      "UPDATE ff_attempt SET lease_expires_at_ms = lease_expires_at_ms - $3"
      " WHERE partition_key = ANY(" +
          std::string(kHistoryPartitions) + ") AND execution_id = $1::uuid AND attempt_index = $2",
      pg::Params::of(names_.uuid_of(lease.execution), lease.attempt, kBehindMs));
}

}  // namespace ff::test
