#include "long/audit.hpp"

#include <algorithm>

namespace ff::test {
namespace {

std::set<std::string> executions_in(const Commit& commit) {
  std::set<std::string> uuids;
  for (const Change& change : commit.changes) uuids.insert(execution_of(change));
  return uuids;
}

bool moves(const Change& change) {
  return change.table == "ff_exec_core" || change.table == "ff_attempt";
}

bool is_of_a_lease(const std::string& refusal) {
  return refusal.starts_with("Contention.LeaseConflict") || refusal.starts_with("State.") ||
         refusal.starts_with("Contention.ExecutionNotActive");
}

const char* name(Deed::Outcome outcome) {
  switch (outcome) {
    case Deed::Outcome::done:
      return "done";
    case Deed::Outcome::nothing:
      return "nothing found";
    case Deed::Outcome::refused:
      return "refused";
    case Deed::Outcome::unknown:
      return "unanswered";
  }
  return "";
}

/// Gives a deed that was done unheard the answer that its worker would have got, as far as what follows needs it.
/// False: it gave a name to what nobody else could name.
bool answer(Deed& deed, const Json& created) {
  const std::string what = deed.step.at("do");
  for (const char* naming : {"create_flow", "create_budget", "create_waitpoint", "suspend"})
    if (what == naming) return false;
  deed.told = Json::object();
  if (created.is_object()) {
    deed.told["uuid"] = created.at("execution_id");
    deed.told["execution"] =
        "{fp:" + created.at("partition_key").dump() + "}:" + created.at("execution_id").get<std::string>();
  }
  return true;
}

}  // namespace

Audit::Audit(std::vector<Commit> commits, std::vector<Deed> deeds)
    : commits_(std::move(commits)), deeds_(std::move(deeds)) {
  std::stable_sort(deeds_.begin(), deeds_.end(),
                   [](const Deed& a, const Deed& b) { return a.sent_ms < b.sent_ms; });
  traces_.resize(deeds_.size());
  for (std::size_t i = 0; i < deeds_.size(); ++i) {
    by_who_[deeds_[i].who].push_back(i);
    if (deeds_[i].outcome == Deed::Outcome::refused) ++counts_.refusals[deeds_[i].refusal];
  }
}

void Audit::judge_commits() {
  for (const Commit& commit : commits_) {
    if (commit.who == kDaemonSessions) {
      judge_commit(commit);
    } else {
      if (commit.who == kServerSessions) ++counts_.by_the_server;
      trace(commit);
    }
    for (const std::string& uuid : executions_in(commit))
      if (ledger_.at(uuid).ended())
        ended_by_.emplace(uuid, commit.who);
      else
        ended_by_.erase(uuid);
    for (const Change& change : commit.changes)
      if (moves(change)) touched_[execution_of(change)].push_back({commit.at_ms, commit.who});
  }
}

// What is due is decided by the moment of its first change, which is a little after it looked at the clock.
void Audit::judge_commit(const Commit& commit) {
  const auto uuids = executions_in(commit);
  const Snapshot before = ledger_.excerpt(uuids, commit.at_ms);
  for (const Change& change : commit.changes) ledger_.apply(change);
  const Snapshot after = ledger_.excerpt(uuids, commit.at_ms);
  const Judgement judgement = judge({before, after, 0, [&](const std::string& id) { return name_of(id); }});
  verdicts_.insert(verdicts_.end(), judgement.verdicts.begin(), judgement.verdicts.end());
  for (const auto& [uuid, attempt] : judgement.taken) {
    const auto index = static_cast<int>(attempt);
    const Json& row = before.executions.at(uuid).attempts.at(index);
    taken_[{uuid, index}].push_back({commit.at_ms, row.at("lease_epoch")});
  }
  ++counts_.of_the_daemon;
  counts_.leases_taken += static_cast<int>(judgement.taken.size());
  counts_.ended += static_cast<int>(judgement.ended.size());
}

// By whose process it was, and when: it did one thing at a time.
std::optional<std::size_t> Audit::deed_of(const Commit& commit) const {
  const auto found = by_who_.find(commit.who);
  if (found == by_who_.end()) return std::nullopt;
  const auto after = std::partition_point(found->second.begin(), found->second.end(),
                                          [&](std::size_t i) { return deeds_[i].sent_ms <= commit.at_ms; });
  if (after == found->second.begin()) return std::nullopt;
  return *std::prev(after);
}

void Audit::trace(const Commit& commit) {
  const auto deed = deed_of(commit);
  Trace nobodys;
  Trace& trace = deed ? traces_[*deed] : nobodys;
  trace.committed = true;
  // What is done to a whole flow is done to those that changed.
  std::set<std::string> uuids = executions_in(commit);
  if (deed && uuids_.contains(deeds_[*deed].execution)) {
    const std::string& uuid = uuids_.at(deeds_[*deed].execution);
    uuids = {uuid};
    trace.found_ended_by_the_daemon = ended_by_.contains(uuid) && ended_by_.at(uuid) == kDaemonSessions;
  }
  trace.before = named(uuids);
  for (const Change& change : commit.changes) {
    ledger_.apply(change);
    if (change.table != "ff_exec_core" || change.operation != "INSERT") continue;
    trace.created = change.row;
    uuids_[change.row.at("lane_id")] = change.row.at("execution_id");
  }
  trace.after = named(uuids);
}

RowsByName Audit::named(const std::set<std::string>& uuids) {
  RowsByName found;
  for (const std::string& uuid : uuids)
    if (const ExecutionRows& rows = ledger_.at(uuid); rows.core.is_object())
      found.emplace(rows.text("lane_id"), rows);
  return found;
}

std::string Audit::name_of(const std::string& uuid) {
  return ledger_.at(uuid).text("lane_id");
}

void Audit::tell(Stage& stage) {
  for (std::size_t i = 0; i < deeds_.size(); ++i) {
    Deed& deed = deeds_[i];
    if (deed.outcome == Deed::Outcome::unknown && traces_[i].committed) {
      ++counts_.done_unheard;
      if (answer(deed, traces_[i].created)) deed.outcome = Deed::Outcome::done;
    }
    if (deed.outcome != Deed::Outcome::done) continue;
    Step step = deed.step;
    if (step.erase("handle") > 0) step["execution"] = deed.execution;
    stage.hear_of(step, deed.told, traces_[i].before, traces_[i].after);
  }
  for (std::size_t i = 0; i < deeds_.size(); ++i) {
    check_refusal(stage, deeds_[i]);
    check_fence(stage, deeds_[i]);
    check_second_end(stage, deeds_[i], traces_[i]);
  }
}

// Only who held a live lease may complain, and only when nobody else had a hand in it: what the daemon does is
// judged by itself, what others do is FlowFabric's business.
void Audit::check_refusal(Stage& stage, const Deed& deed) const {
  if (deed.outcome != Deed::Outcome::refused || !is_of_a_lease(deed.refusal)) return;
  if (deed.held_at_ms == 0 || deed.lease.ends_at_ms <= deed.answered_ms) return;
  const auto found = touched_.find(uuids_.at(deed.execution));
  const bool others =
      found != touched_.end() &&
      std::any_of(found->second.begin(), found->second.end(), [&](const Touch& touch) {
        return touch.who != deed.who && touch.at_ms >= deed.held_at_ms && touch.at_ms <= deed.answered_ms;
      });
  if (!others)
    stage.blame({Fault::robbed, deed.execution, deed.step.dump() + " was refused: " + deed.refusal});
}

// The epoch is what fences.
void Audit::check_fence(Stage& stage, const Deed& deed) const {
  if (deed.outcome != Deed::Outcome::done || deed.lease.epoch == 0 || !is_fenced(deed.step.at("do"))) return;
  const auto found = taken_.find({uuids_.at(deed.execution), static_cast<int>(deed.lease.attempt)});
  if (found == taken_.end()) return;
  for (const Taken& taken : found->second)
    if (taken.epoch == deed.lease.epoch && taken.at_ms < deed.sent_ms)
      stage.blame(
          {Fault::unfenced, deed.execution, deed.step.dump() + " was done after its lease was taken"});
}

void Audit::check_second_end(Stage& stage, const Deed& deed, const Trace& trace) {
  if (deed.outcome != Deed::Outcome::done || deed.lease.epoch == 0) return;
  const auto before = trace.before.find(deed.execution);
  if (!ends(deed.step.at("do")) || before == trace.before.end() || !before->second.ended()) return;
  ++counts_.ended_twice_by_workers;
  if (trace.found_ended_by_the_daemon)
    stage.blame(
        {Fault::ended_twice, deed.execution, deed.step.dump() + " ended what was " + before->second.state()});
}

std::string Audit::biography(const std::string& execution) const {
  const auto uuid = uuids_.find(execution);
  if (uuid == uuids_.end()) return "";
  std::string text;
  for (const Commit& commit : commits_)
    for (const Change& change : commit.changes)
      if (execution_of(change) == uuid->second)
        text += std::to_string(commit.at_ms) + ' ' + commit.who + ' ' + change.operation + ' ' +
                change.table + ' ' + change.row.dump() + '\n';
  for (const Deed& deed : deeds_)
    if (deed.execution == execution)
      text += std::to_string(deed.sent_ms) + '-' + std::to_string(deed.answered_ms) + ' ' + deed.who + ' ' +
              deed.step.dump() + ' ' + name(deed.outcome) + ' ' + deed.refusal + '\n';
  return text;
}

}  // namespace ff::test
