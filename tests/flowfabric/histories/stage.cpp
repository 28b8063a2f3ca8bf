#include "histories/stage.hpp"

#include <algorithm>

#include "histories/ageing.hpp"

namespace ff::test {
namespace {

std::int64_t wall_ms() {
  return count(Clock::system().wall());
}

}  // namespace

Stage::Stage(const StageOptions& options)
    : options_(options),
      flowfabric_(database_.url(), {"--seed", std::to_string(options.seed)}),
      connection_(database_.connect()) {
  if (options.rescue == Rescue::daemon) rescuer_ = std::make_unique<Daemon>(database_, options.grace_ms);
  if (options.rescue == Rescue::scanners) rescuer_ = std::make_unique<Scanners>(flowfabric_);
  if (options.rescue == Rescue::nobody) rescuer_ = std::make_unique<Nobody>();
}

bool Stage::perform(const Step& step) {
  const std::string what = step.at("do");
  if (what == "age") {
    age(connection_, step.at("ms"));
    aged_ms_ += step.at("ms").get<std::int64_t>();
    return true;
  }
  if (what == "tick" || what == "kill") {
    tick(step);
    return true;
  }
  return operate(step);
}

void Stage::tick(const Step& step) {
  const Snapshot before = look(connection_);
  const std::string reconciler = step.at("reconciler");
  if (step.at("do") == "kill")
    rescuer_->kill(reconciler, step.value("table", "ff_exec_core"));
  else
    rescuer_->tick(reconciler, step.value("cut", ""));
  judge_turn(before, look(connection_));
}

void Stage::judge_turn(const Snapshot& before, const Snapshot& after) {
  const Judgement judgement = judge(
      {before, after, options_.grace_ms, [&](const std::string& id) { return names_.execution_of(id); }});
  // What a turn does is forgiven to nobody.
  verdicts_.insert(verdicts_.end(), judgement.verdicts.begin(), judgement.verdicts.end());
  for (const std::string& id : judgement.ended) ended_by_a_turn_.insert(names_.execution_of(id));
  for (Lease& lease : leases_) {
    const std::string id = names_.uuid_of(lease.execution);
    // An older attempt of the same execution may be cleared while this one is at work.
    const bool taken = judgement.taken.contains({id, lease.attempt});
    if (judgement.ended.contains(id) || taken) lease.lost = true;
    if (taken && !lease.given_up) lease.fenced = true;
  }
}

bool Stage::operate(const Step& step) {
  const std::string what = step.at("do");
  auto request = names_.resolved(step);
  if (!request) return false;
  if (step.contains("handle")) {
    const Lease* lease = lease_named(step.at("handle"));
    if (lease == nullptr) return false;
    if (lease->behind) (*request)["now_ms"] = wall_ms() - kBehindMs;
  }
  const std::string execution = subject_of(step);
  const ExecutionRows before = execution.empty() ? ExecutionRows{} : rows_of(execution);
  Json told;
  try {
    told = flowfabric_.call(what, *request);
  } catch (const FlowFabricError& error) {
    if (error.kind() == "Usage" || error.kind() == "Database") throw;
    refused(step, error.kind());
    return false;
  }
  if (told.is_null()) return false;
  remember(step, told, before);
  return true;
}

void Stage::hear_of(const Step& step, const Json& told, const ExecutionRows& before) {
  names_.learn(step, told);
  remember_exclusions(step, before);
}

/// Of the rows of which a step is told apart.
std::string Stage::subject_of(const Step& step) {
  if (step.contains("handle")) return lease_named(step.at("handle"))->execution;
  return step.value("execution", step.value("upstream", ""));
}

void Stage::remember(const Step& step, const Json& told, const ExecutionRows& before) {
  const std::string what = step.at("do");
  names_.learn(step, told);
  remember_exclusions(step, before);
  if (disturbs(what)) disturb(step);
  if (what == "replay_execution") ended_by_a_turn_.erase(step.at("execution"));
  if (claims(what) && told.contains("epoch")) remember_lease(step, told);
  if (step.contains("handle")) remember_work(step, before);
}

// What a worker did with its lease, or with one that it only thinks it has.
void Stage::remember_work(const Step& step, const ExecutionRows& before) {
  const std::string what = step.at("do");
  Lease& lease = *lease_named(step.at("handle"));
  if (lease.fenced && is_fenced(what))
    blame(Fault::unfenced, lease.execution, step.dump() + " was done to " + before.state());
  if (ends(what)) note_second_end(step, before);
  // FlowFabric lets it: whoever holds the execution now has to expect everything.
  if (lease.given_up || lease.lost || what == "cancel")
    for (Lease& other : leases_)
      if (other.execution == lease.execution) other.lost = true;
  if (gives_up(what)) lease.given_up = true;
  if (what == "renew" || what == "renew_lease") remember_lease(step, Json::object());
}

void Stage::remember_exclusions(const Step& step, const ExecutionRows& before) {
  for (std::size_t i = 0; i < exclusions().size(); ++i) {
    if (!exclusions()[i].is(step, before)) continue;
    if (const std::string execution = subject_of(step); !execution.empty())
      exclusions_[execution].insert(i);
    else if (step.contains("flow"))
      for (const std::string& member : names_.members[step.at("flow")]) exclusions_[member].insert(i);
  }
}

void Stage::remember_lease(const Step& step, const Json& told) {
  Lease* lease = step.contains("handle") ? lease_named(step.at("handle")) : nullptr;
  if (lease == nullptr) {
    leases_.push_back({.handle = step.at("as"),
                       .execution = step.at("execution"),
                       .attempt = told.at("attempt"),
                       .epoch = told.at("epoch"),
                       .ttl_ms = step.at("ttl_ms"),
                       .behind = step.value("behind", false),
                       .typed = step.at("do") != "claim" && step.at("do") != "claim_resumed_execution"});
    lease = &leases_.back();
  }
  lease->ends_at_ms = now_ms() + lease->ttl_ms;
  if (!lease->behind) return;
  // FlowFabric took its host's clock, this worker's is behind.
  const std::string uuid = names_.uuid_of(lease->execution);
  connection_.execute(
      "UPDATE ff_attempt SET lease_expires_at_ms = lease_expires_at_ms - $2 WHERE partition_key = ANY(" +
          std::string(kHistoryPartitions) +
          ") AND execution_id = $1::uuid AND lease_expires_at_ms = (SELECT max(lease_expires_at_ms)"
          " FROM ff_attempt WHERE execution_id = $1::uuid)",
      pg::Params::of(uuid, kBehindMs));
}

void Stage::disturb(const Step& step) {
  std::vector<std::string> all;
  if (step.contains("execution")) all.push_back(step.at("execution"));
  if (step.contains("flow")) all = names_.members[step.at("flow")];
  for (Lease& lease : leases_)
    if (std::find(all.begin(), all.end(), lease.execution) != all.end()) lease.lost = true;
}

// Only a worker that holds a live lease, as far as it can know, may complain.
void Stage::refused(const Step& step, const std::string& kind) {
  if (!step.contains("handle")) return;
  const Lease* lease = lease_named(step.at("handle"));
  if (lease->lost || lease->given_up || lease->ends_at_ms <= now_ms()) return;
  if (kind == "State.LeaseExpired" && lease->behind) return;  // by the clock of a host that is not its own
  if (!kind.starts_with("Contention.LeaseConflict") && !kind.starts_with("State.") &&
      !kind.starts_with("Contention.ExecutionNotActive"))
    return;
  blame(Fault::robbed, lease->execution, step.dump() + " was refused: " + kind);
}

void Stage::note_second_end(const Step& step, const ExecutionRows& before) {
  if (!before.ended()) return;
  ++ended_twice_by_workers_;
  const std::string execution = lease_named(step.at("handle"))->execution;
  if (ended_by_a_turn_.contains(execution) || !options_.forgive)
    blame(Fault::ended_twice, execution, step.dump() + " ended what was " + before.state());
}

Lease* Stage::lease_named(const std::string& handle) {
  const auto found =
      std::find_if(leases_.rbegin(), leases_.rend(), [&](const Lease& l) { return l.handle == handle; });
  return found == leases_.rend() ? nullptr : &*found;
}

ExecutionRows Stage::rows_of(const std::string& execution) {
  return look_at(connection_, names_.uuid_of(execution));
}

std::int64_t Stage::now_ms() const {
  return wall_ms() + aged_ms_;
}

void Stage::blame(Fault fault, const std::string& who, const std::string& what) {
  const Verdict verdict{fault, who, what};
  if (!options_.forgive || !forgiven(verdict)) verdicts_.push_back(verdict);
}

bool Stage::forgiven(const Verdict& verdict) {
  if (forgiven_to(verdict.who, verdict.fault, false)) return true;
  std::vector<std::string> open{verdict.who};
  std::set<std::string> seen;
  while (!open.empty()) {
    const std::string one = open.back();
    open.pop_back();
    const auto found = names_.upstreams.find(one);
    if (found == names_.upstreams.end()) continue;
    for (const std::string& upstream : found->second) {
      if (!seen.insert(upstream).second) continue;
      if (forgiven_to(upstream, verdict.fault, true)) return true;
      open.push_back(upstream);
    }
  }
  return false;
}

bool Stage::forgiven_to(const std::string& execution, Fault fault, bool as_upstream) {
  const auto found = exclusions_.find(execution);
  if (found == exclusions_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](std::size_t i) {
    const Exclusion& exclusion = exclusions()[i];
    const auto& faults = as_upstream ? exclusion.of_its_dependents : exclusion.of_the_execution;
    return std::find(faults.begin(), faults.end(), fault) != faults.end() &&
           (exclusion.still == nullptr || exclusion.still(rows_of(execution)));
  });
}

}  // namespace ff::test
