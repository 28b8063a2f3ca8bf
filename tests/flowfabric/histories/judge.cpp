#include "histories/judge.hpp"

#include <algorithm>

namespace ff::test {
namespace {

constexpr std::int64_t kMostRetries = 4'294'967'295;

std::int64_t max_retries(const ExecutionRows& rows) {
  const Json& policy = rows.core.at("policy");
  if (!policy.is_object() || !policy.contains("retry_policy")) return 0;
  const Json& retry = policy.at("retry_policy");
  if (!retry.is_object() || !retry.contains("max_retries") || !retry.at("max_retries").is_number_integer())
    return 0;
  const auto value = retry.at("max_retries").get<std::int64_t>();
  return value < 0 || value > kMostRetries ? 0 : value;
}

// One execution before and after.
class Case {
 public:
  Case(const Turn& turn, const std::string& id, Judgement& judgement)
      : turn_(turn),
        id_(id),
        before_(turn.before.executions.at(id)),
        after_(turn.after.executions.at(id)),
        judgement_(judgement) {}

  void hear() {
    const bool ends = !before_.ended() && after_.ended();
    if (ends) {
      judgement_.ended.insert(id_);
      if (!may_end()) blame(Fault::ended_healthy, before_.state() + " became " + after_.state());
    }
    count_ends(ends);
    check_leases();
    if (!ends) check_core();
    check_waitpoints();
    check_grants();
  }

 private:
  void blame(Fault fault, const std::string& what) const {
    judgement_.verdicts.push_back({fault, turn_.name_of(id_), what});
  }

  bool was(std::string_view column, std::string_view word) const { return before_.text(column) == word; }
  bool past(std::optional<std::int64_t> moment) const { return moment && *moment < turn_.after.now_ms; }

  bool lapsed(int attempt) const {
    const auto end = before_.lease_of(attempt);
    return end && *end + turn_.grace_ms < turn_.after.now_ms;
  }

  bool current_lapsed() const {
    const auto current = before_.current_attempt();
    return current && lapsed(*current) && !before_.live_grant("reclaim", turn_.after.now_ms);
  }

  bool deadline_passed() const {
    const auto deadline = before_.moment("deadline_at_ms");
    if (!past(deadline) || !was("lifecycle_phase", "active")) return false;
    return !before_.replayed_at_ms || *deadline > *before_.replayed_at_ms;
  }

  bool suspension_over() const {
    return was("lifecycle_phase", "suspended") && before_.suspension.is_object() &&
           before_.suspension.at("timeout_at_ms").is_number() &&
           past(before_.suspension.at("timeout_at_ms").get<std::int64_t>());
  }

  bool resumes_by_itself() const {
    return before_.suspension.is_object() &&
           before_.suspension.at("timeout_behavior") == "auto_resume_with_timeout_signal";
  }

  bool retries_spent() const {
    const auto current = before_.current_attempt();
    return was("lifecycle_phase", "active") && current && current_lapsed() &&
           *current >= max_retries(before_);
  }

  bool group_is(GroupState state) const {
    const auto found = turn_.after.groups.find(id_);
    return found != turn_.after.groups.end() && decide(found->second) == state;
  }

  bool listed_as_sibling() const {
    return std::any_of(turn_.before.groups.begin(), turn_.before.groups.end(), [&](const auto& entry) {
      const Json& members = entry.second.at("cancel_siblings_pending_members");
      return entry.second.at("cancel_siblings_pending_flag") == true &&
             decide(entry.second) == GroupState::satisfied &&
             std::find(members.begin(), members.end(), Json(id_)) != members.end();
    });
  }

  // The row of its flow's cancel went, which is what a turn does last.
  bool worked_off() const {
    return before_.cancel.is_object() && !after_.cancel.is_object() &&
           past(before_.cancel.at("requested_at_ms").get<std::int64_t>());
  }

  bool cancelled_with_its_flow() const {
    return worked_off() && after_.text("lifecycle_phase") == "cancelled" &&
           after_.text("eligibility_state") == "not_applicable";
  }

  static bool has_lease(const ExecutionRows& rows) {
    return std::any_of(rows.attempts.begin(), rows.attempts.end(),
                       [&](const auto& attempt) { return rows.lease_of(attempt.first).has_value(); });
  }

  // Cancelled, or revived since by its worker, and nobody is to finish it; no row of its flow's cancel is there.
  bool left_to_its_worker() const {
    const std::string by = before_.text("cancelled_by");
    const bool with_its_flow = by == "cancel_flow" || by == "cancel_flow_header";
    if (before_.cancel.is_object() || !(has_lease(before_) || was("lifecycle_phase", "suspended")))
      return false;
    if (was("lifecycle_phase", "cancelled"))
      return !with_its_flow || before_.flow_policy.empty() || before_.flow_policy == "cancel_all";
    return !before_.ended() && !by.empty() && (!with_its_flow || before_.flow_policy == "cancel_all");
  }

  bool lease_revoked() const {
    const auto mark = [](const ExecutionRows& rows) {
      return rows.core.at("raw_fields").value("completion_repaired_for", Json());
    };
    return left_to_its_worker() && !has_lease(after_) && after_.text("lifecycle_phase") == "cancelled" &&
           after_.text("eligibility_state") == "not_applicable" && mark(before_) != mark(after_) &&
           mark(after_) == after_.core.at("terminal_at_ms");
  }

  bool cancelled_for_good() const { return cancelled_with_its_flow() || lease_revoked(); }

  bool its_worker_may_finish(int attempt) const {
    const auto end = before_.lease_of(attempt);
    return was("lifecycle_phase", "cancelled") && before_.cancel.is_object() &&
           before_.cancel.at("cancellation_policy") != "cancel_all" && before_.flow_policy != "cancel_all" &&
           end && *end >= turn_.after.now_ms;
  }

  bool may_end() const {
    return cancelled_for_good() || deadline_passed() || (suspension_over() && !resumes_by_itself()) ||
           retries_spent() || group_is(GroupState::impossible) || listed_as_sibling();
  }

  // An end that nobody was told is told once somebody waits for it.
  void count_ends(bool ends) {
    const std::size_t told = after_.ends.size() - before_.ends.size();
    const bool owed = cancelled_for_good() && !before_.told();
    repaired_ = told > 0 && before_.ended() && !before_.told() && turn_.before.is_waited_for(id_);
    if (repaired_ || (owed && before_.ended())) judgement_.repaired.insert(id_);
    if (owed && told == 0) blame(Fault::untold, after_.state());
    if (told > (ends || owed || repaired_ ? 1 : 0))
      blame(Fault::ended_twice, std::to_string(told) + " ends were told, " + after_.state());
    if (ends && told == 0 && !cancelled_for_good()) blame(Fault::untold, after_.state());
  }

  void check_leases() {
    const auto current = before_.current_attempt();
    std::int64_t to_tell = 0;
    for (const auto& [index, row] : before_.attempts) {
      if (!before_.lease_of(index)) continue;
      const auto now = after_.attempts.find(index);
      if (now != after_.attempts.end() && after_.lease_of(index) &&
          now->second.at("lease_epoch") == row.at("lease_epoch"))
        continue;
      judgement_.taken.insert({id_, index});
      if (index == current || cancelled_for_good() || repaired_) ++to_tell;
      if (cancelled_for_good() && its_worker_may_finish(index))
        blame(Fault::robbed, "attempt " + std::to_string(index) + " of a flow whose workers may finish");
      const bool mine_to_take = lapsed(index) && (index != current || !was("lifecycle_phase", "active") ||
                                                  !before_.live_grant("reclaim", turn_.after.now_ms));
      if (mine_to_take) judgement_.lapsed.insert({id_, index});
      if (!mine_to_take && !before_.ended() && !(after_.ended() && may_end()))
        blame(Fault::robbed, "attempt " + std::to_string(index) + " of " + before_.state());
      if (now != after_.attempts.end() && now->second.at("lease_epoch") == row.at("lease_epoch"))
        blame(Fault::meddled, "a lease was taken and its epoch left");
    }
    const std::int64_t told = after_.lease_events - before_.lease_events;
    if (told != to_tell)
      blame(Fault::unnoticed, std::to_string(to_tell) + " leases were taken and " + std::to_string(told) +
                                  " announced, " + before_.state() + " became " + after_.state());
  }

  bool delay_over() const {
    const std::string reason = before_.text("blocking_reason");
    if (was("public_state", "delayed") && reason == "waiting_for_resume_delay") return true;
    if (was("public_state", "delayed") && reason == "waiting_for_retry_backoff") {
      const Json& raw = before_.core.at("raw_fields");
      return raw.contains("delay_until") && past(std::stoll(raw.at("delay_until").get<std::string>()));
    }
    return past(before_.moment("deadline_at_ms"));
  }

  bool has_own_deadline() const {
    return was("public_state", "delayed") && !before_.text("blocking_reason").empty();
  }

  // 0 is never.
  bool over(const Json& grant) const {
    const auto end = grant.at("expires_at_ms").get<std::int64_t>();
    return end > 0 && end + turn_.grace_ms < turn_.after.now_ms;
  }

  // Whom it was promised to did not come, and it is returned as it was before.
  bool is_returned() const {
    const bool promised = std::any_of(before_.grants.begin(), before_.grants.end(), [&](const Json& grant) {
      return grant.at("kind") == "claim" && !over(grant);
    });
    if (promised || !was("lifecycle_phase", "runnable") || was("ownership_state", "leased")) return false;
    Json returned = before_.core;
    returned["eligibility_state"] = "eligible_now";
    returned.at("raw_fields").erase("claim_grant");
    return after_.core == returned;
  }

  // It is to go on with an attempt that is not there, and names the one that is.
  bool is_repaired() const {
    const auto current = before_.current_attempt();
    const bool waits = was("lifecycle_phase", "suspended") || was("lifecycle_phase", "runnable");
    if (!waits || !current || !was("attempt_state", "attempt_interrupted") ||
        before_.attempts.contains(before_.core.at("attempt_index").get<int>()))
      return false;
    Json repaired = before_.core;
    repaired["attempt_index"] = *current;
    repaired.at("raw_fields")["total_attempt_count"] = std::to_string(*current);
    return after_.core == repaired;
  }

  // Why an execution that does not end may change.
  bool may_move_on() const {
    const std::string eligibility = before_.text("eligibility_state");
    if (is_repaired()) return true;
    if (eligibility == "pending_claim" && is_returned()) return true;
    if (was("lifecycle_phase", "active")) return current_lapsed();
    if (was("lifecycle_phase", "suspended")) return suspension_over() && resumes_by_itself();
    if (was("ownership_state", "leased")) return after_.text("ownership_state") == "unowned";
    if (before_.ended()) return false;
    if (eligibility == "not_eligible_until_time") return delay_over();
    if (eligibility == "blocked_by_dependencies" || was("lifecycle_phase", "blocked"))
      return group_is(GroupState::satisfied) || children_ended();
    return eligibility != "pending_claim" && !was("public_state", "resumable") &&
           group_is(GroupState::satisfied);
  }

  bool is_only_marked() const {
    Json expected = before_.core;
    expected["raw_fields"]["completion_repaired_for"] = before_.core.at("terminal_at_ms");
    if (was("ownership_state", "leased")) expected["ownership_state"] = "unowned";
    return expected == after_.core;
  }

  bool children_ended() const {
    const auto found = turn_.after.groups.find(id_);
    return found != turn_.after.groups.end() && found->second.at("running_count") == 0;
  }

  void check_core() const {
    if (before_.core == after_.core || (repaired_ && is_only_marked())) return;
    if (before_.ended() && cancelled_for_good()) return;
    if (!may_move_on()) {
      blame(after_.text("lifecycle_phase") != "active" && was("lifecycle_phase", "active") ? Fault::robbed
                                                                                           : Fault::meddled,
            before_.state() + " became " + after_.state());
      return;
    }
    if (was("eligibility_state", "not_eligible_until_time") && has_own_deadline() &&
        before_.core.at("deadline_at_ms") != after_.core.at("deadline_at_ms"))
      blame(Fault::meddled, "a deadline was erased");
  }

  void check_waitpoints() const {
    const bool may_go = after_.ended() || (suspension_over() && resumes_by_itself());
    for (const Json& waitpoint : before_.waitpoints) {
      const bool stays = std::any_of(
          after_.waitpoints.begin(), after_.waitpoints.end(),
          [&](const Json& one) { return one.at("waitpoint_id") == waitpoint.at("waitpoint_id"); });
      const bool expired = waitpoint.at("state") == "pending" && waitpoint.at("expires_at_ms").is_number() &&
                           past(waitpoint.at("expires_at_ms").get<std::int64_t>());
      if (!stays && !may_go && !expired && !is_stray(waitpoint))
        blame(Fault::meddled, "a waitpoint of " + before_.state() + " went: " + waitpoint.dump());
    }
  }

  void check_grants() const {
    for (const Json& grant : before_.grants) {
      const bool stays = std::find(after_.grants.begin(), after_.grants.end(), grant) != after_.grants.end();
      if (!stays && !over(grant)) blame(Fault::meddled, "a grant went that lives: " + grant.dump());
    }
  }

  // Of no present suspension.
  bool is_stray(const Json& waitpoint) const {
    return waitpoint.at("state") == "active" &&
           (!before_.suspension.is_object() || !was("lifecycle_phase", "suspended") ||
            before_.suspension.at("suspended_at_ms") != waitpoint.at("activated_at_ms"));
  }

  const Turn& turn_;
  const std::string& id_;
  const ExecutionRows& before_;
  const ExecutionRows& after_;
  Judgement& judgement_;
  bool repaired_ = false;
};

}  // namespace

GroupState decide(const Json& group) {
  const auto count = [&](const char* column) { return group.at(column).get<std::int64_t>(); };
  const std::int64_t success = count("success_count");
  const std::int64_t bad = count("fail_count") + count("skip_count");
  const std::int64_t all = success + bad + count("running_count");
  const std::string kind = group.at("policy").value("kind", "all_of");
  if (kind == "any_of")
    return success >= 1            ? GroupState::satisfied
           : all > 0 && bad >= all ? GroupState::impossible
                                   : GroupState::open;
  if (kind == "quorum") {
    const std::int64_t wanted = group.at("policy").value("k", 1);
    return success >= wanted    ? GroupState::satisfied
           : all - bad < wanted ? GroupState::impossible
                                : GroupState::open;
  }
  return all > 0 && success == all ? GroupState::satisfied
         : bad > 0                 ? GroupState::impossible
                                   : GroupState::open;
}

namespace {

std::set<std::string> budgets_reset(const Turn& turn) {
  std::set<std::string> found;
  for (const Json& was : turn.before.budgets)
    for (const Json& is : turn.after.budgets)
      if (was.at("budget_id") == is.at("budget_id") &&
          was.at("last_reset_at_ms") != is.at("last_reset_at_ms"))
        found.insert(is.at("budget_id").get<std::string>());
  return found;
}

// Whoever beats in time stays, whoever does not is announced when it goes.
void judge_workers(const Turn& turn, Judgement& judgement) {
  std::int64_t swept = 0;
  for (const auto& [instance, row] : turn.before.workers) {
    if (turn.after.workers.contains(instance)) continue;
    ++swept;
    const std::int64_t silent_at =
        row.at("last_heartbeat_ms").get<std::int64_t>() + row.at("liveness_ttl_ms").get<std::int64_t>();
    if (silent_at >= turn.after.now_ms)
      judgement.verdicts.push_back({Fault::robbed, instance, "it was swept away alive"});
  }
  if (turn.after.sweeps - turn.before.sweeps != swept)
    judgement.verdicts.push_back({Fault::unnoticed, "workers",
                                  std::to_string(swept) + " were swept away, and " +
                                      std::to_string(turn.after.sweeps - turn.before.sweeps) + " announced"});
}

}  // namespace

Judgement judge(const Turn& turn) {
  Judgement judgement;
  judgement.reset = budgets_reset(turn);
  judge_workers(turn, judgement);
  for (const auto& [id, rows] : turn.before.executions)
    if (rows.core.is_object() && turn.after.executions.contains(id)) Case(turn, id, judgement).hear();
  return judgement;
}

}  // namespace ff::test
