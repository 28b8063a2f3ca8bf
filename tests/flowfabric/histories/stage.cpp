#include "histories/stage.hpp"

#include <algorithm>

#include "histories/ageing.hpp"

namespace ff::test {
namespace {

std::int64_t wall_ms() {
  return count(Clock::system().wall());
}

/// An answer that says that nothing was done.
bool says_no(const Json& told) {
  if (told.is_null()) return true;
  const auto outcome = told.find("outcome");
  if (!told.is_object() || outcome == told.end() || !outcome->is_string()) return false;
  for (const char* no : {"not_reclaimable", "cap_exceeded", "grant_not_found", "unknown"})
    if (*outcome == no) return true;
  return false;
}

std::unique_ptr<Rescuer> rescuer_of(const StageOptions& options, const FlowFabricDatabase& database,
                                    FlowFabric& flowfabric) {
  if (options.rescue == Rescue::daemon) return std::make_unique<Daemon>(database, options.grace_ms);
  if (options.rescue == Rescue::scanners) return std::make_unique<Scanners>(flowfabric);
  return std::make_unique<Nobody>();
}

}  // namespace

Stage::Stage(const StageOptions& options)
    : options_(options),
      flowfabric_(database_.url(), {"--seed", std::to_string(options.seed)}),
      connection_(database_.connect()),
      rescuer_(rescuer_of(options, database_, flowfabric_)) {}

bool Stage::perform(const Step& step) {
  const std::string what = step.at("do");
  if (what == "age") {
    seen_.reset();
    age(connection_, step.at("ms"));
    aged_ms_ += step.at("ms").get<std::int64_t>();
    return true;
  }
  if (what == "tick" || what == "cut" || what == "kill") {
    take_turn(step);
    return true;
  }
  return operate(step);
}

void Stage::take_turn(const Step& step) {
  const std::string what = step.at("do");
  const std::string reconciler = step.at("reconciler");
  const Snapshot before = everything();
  seen_.reset();
  bool stopped = false;
  if (what == "tick")
    for (const auto& [outcome, rows] : rescuer_->tick(reconciler))
      coverage_.note(reconciler + ": " + outcome, rows);
  if (what == "cut") stopped = rescuer_->cut(reconciler, step.at("table"));
  if (what == "kill") stopped = rescuer_->kill(reconciler, Moment::of(step));
  if (what == "tick" || stopped) coverage_.note(step);
  judge_turn(before, everything());
  if (reconciler == "group_recount") judge_recounts(before, everything());
}

void Stage::judge_recounts(const Snapshot& before, const Snapshot& after) {
  for (const auto& [downstream, group] : after.groups) {
    const auto was = before.groups.find(downstream);
    if (was == before.groups.end() || was->second == group) continue;
    if (const std::string wrong = wrongly_recounted(before, group); !wrong.empty())
      verdicts_.push_back(
          {Fault::miscounted, names_.execution_of(downstream), wrong + ", but " + group.dump()});
    recounted_[downstream] = {group, after.now_ms + aged_ms_};
  }
}

const Snapshot& Stage::everything() {
  if (!seen_) seen_ = read_snapshot(connection_);
  return *seen_;
}

void Stage::judge_turn(const Snapshot& before, const Snapshot& after) {
  const Judgement judgement = judge(
      {before, after, options_.grace_ms, [&](const std::string& id) { return names_.execution_of(id); }});
  // What a turn does is forgiven to nobody.
  verdicts_.insert(verdicts_.end(), judgement.verdicts.begin(), judgement.verdicts.end());
  for (const std::string& id : judgement.ended) ended_by_a_turn_.insert(names_.execution_of(id));
  // Of an end that the backlog of a cancel has still to tell nothing was forgiven.
  for (const std::string& id : judgement.repaired)
    if (!before.executions.at(id).to_be_told()) excluded_.repaired(names_.execution_of(id));
  for (const std::string& budget : judgement.reset) {
    unledgered_.erase(names_.budget_of(budget));
    excluded_.forget(names_.budget_of(budget));
  }
  for (Lease& lease : leases_) {
    const std::string id = names_.uuid_of(lease.execution);
    // An older attempt of the same execution may be cleared while this one is at work.
    const bool taken = judgement.taken.contains({id, lease.attempt});
    if (judgement.lapsed.contains({id, lease.attempt}) && holds(lease))
      verdicts_.push_back({Fault::robbed, lease.execution, "by its worker's clock the lease has not lapsed"});
    if (judgement.ended.contains(id) || judgement.repaired.contains(id) || taken) lease.lost = true;
    if (taken && !lease.given_up) lease.fenced = true;
  }
  recount_budgets(after);
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
  const RowsByName before = rows_of_all(subjects_of(step));
  seen_.reset();
  Json told;
  try {
    told = flowfabric_.call(what, *request);
  } catch (const FlowFabricError& error) {
    if (error.kind() == "Usage" || error.kind() == "Database") throw;
    refused(step, error.kind());
    return false;
  }
  if (says_no(told)) return false;
  coverage_.note(step, told);
  remember(step, told, before);
  return true;
}

std::vector<std::string> Stage::subjects_of(const Step& step) const {
  if (step.contains("handle")) return {lease_named(step.at("handle"))->execution};
  if (step.contains("execution")) return {step.at("execution")};
  if (step.contains("upstream")) return {step.at("upstream")};
  if (step.contains("edge")) return {names_.edges.at(step.at("edge")).upstream};
  const std::string what = step.at("do");
  if (what != "cancel_flow" && what != "cancel_flow_header") return {};
  return members_of(step.at("flow"));
}

std::vector<std::string> Stage::members_of(const std::string& flow) const {
  const auto found = names_.members.find(flow);
  return found == names_.members.end() ? std::vector<std::string>{} : found->second;
}

RowsByName Stage::rows_of_all(const std::vector<std::string>& executions) {
  RowsByName all;
  for (const std::string& execution : executions) all.emplace(execution, rows_of(execution));
  return all;
}

// Only a worker that holds a live lease, as far as it can know, may complain.
void Stage::refused(const Step& step, const std::string& kind) {
  if (!step.contains("handle")) return;
  const Lease* lease = lease_named(step.at("handle"));
  if (!holds(*lease)) return;
  if (kind == "State.LeaseExpired" && lease->behind) return;  // by the clock of a host that is not its own
  if (!kind.starts_with("Contention.LeaseConflict") && !kind.starts_with("State.") &&
      !kind.starts_with("Contention.ExecutionNotActive"))
    return;
  blame({Fault::robbed, lease->execution, step.dump() + " was refused: " + kind, step.at("do")});
}

bool Stage::holds(const Lease& lease) const {
  return !lease.lost && !lease.given_up && lease.ends_at_ms > now_ms();
}

const Lease* Stage::lease_named(const std::string& handle) const {
  const auto found =
      std::find_if(leases_.rbegin(), leases_.rend(), [&](const Lease& l) { return l.handle == handle; });
  return found == leases_.rend() ? nullptr : &*found;
}

Lease* Stage::lease_named(const std::string& handle) {
  return const_cast<Lease*>(std::as_const(*this).lease_named(handle));
}

ExecutionRows Stage::rows_of(const std::string& execution) {
  return read_rows(connection_, names_.uuid_of(execution));
}

std::int64_t Stage::now_ms() const {
  return wall_ms() + aged_ms_;
}

// Usage is what executions spent, and what was reported without one.
void Stage::recount_budgets(const Snapshot& now) {
  for (const Json& usage : now.budgets) {
    const std::string budget = names_.budget_of(usage.at("budget_id"));
    const auto reported = unledgered_.find(budget);
    const std::int64_t spent =
        usage.at("spent").get<std::int64_t>() + (reported == unledgered_.end() ? 0 : reported->second);
    if (usage.at("current_value") == spent)
      miscounted_.erase(budget);
    else if (miscounted_.insert(budget).second)
      blame({Fault::miscounted, budget,
             "usage " + usage.at("current_value").dump() + ", but spent " + std::to_string(spent)});
  }
}

void Stage::blame(const Verdict& verdict) {
  if (options_.forgive) {
    const ExecutionRows now =
        names_.executions.contains(verdict.who) ? rows_of(verdict.who) : ExecutionRows{};
    if (const Exclusion* exclusion = excluded_.explains(verdict, now)) {
      coverage_.note("excluded: " + std::string(exclusion->name));
      return;
    }
  }
  verdicts_.push_back(verdict);
}

}  // namespace ff::test
