#pragma once

#include "audit/audit.hpp"
#include "support/engine.hpp"
#include "support/flow.hpp"

namespace ff::test {

/// A database with an execution in each state that there is, as FlowFabric's writers and ours leave them, and what belongs
/// to them: nothing is wrong with it. All of it lies in partition 3.
struct AuditStage {
  static constexpr PartitionKey kPartition{3};
  static constexpr std::int64_t kMinute = 60'000;

  AuditStage() {
    add_waiting();
    add_active();
    add_suspended();
    add_ended();
    add_flow();
    add_counters();
  }

  /// A text with `{name}` for the uuid of the execution of that name, `{flow}`, and `{now}`.
  std::string filled_in(std::string text) const {
    const auto replace = [&](const std::string& name, const std::string& value) {
      for (auto at = text.find(name); at != std::string::npos; at = text.find(name))
        text.replace(at, name.size(), value);
    };
    for (const auto& [name, id] : ids) replace("{" + name + "}", to_string(id));
    replace("{flow}", to_string(flow));
    replace("{now}", std::to_string(now));
    return text;
  }

  /// What is found at both of two looks, and what `meanwhile` does between them.
  audit::Report audit(const std::function<void()>& meanwhile = [] {}) {
    const Partitions one{kPartition};
    audit::Audit its(db, {one, one, one, one});
    if (its.check()) return {};
    meanwhile();
    return its.confirm();
  }

  /// Does what the audit says that mends this row.
  void mend(const std::string& remedy) {
    CAPTURE(remedy);
    constexpr std::string_view kTick = "ff-reconcilerd tick ";
    if (!remedy.starts_with(kTick)) {
      by_hand.execute_script(remedy);
      return;
    }
    const std::string line = remedy.substr(kTick.size());
    const std::string name = line.substr(0, line.find(' '));
    EngineFixture engine(database, name);
    const auto quote = line.find('\'');
    const auto report =
        quote == std::string::npos
            ? engine->tick()
            : engine->tick_one(
                  parse_execution_id(line.substr(quote + 1, line.find('\'', quote + 1) - quote - 1)).value());
    CHECK_FALSE(report.outcomes.empty());
  }

  Uuid core(const std::string& name, CoreRow row) {
    row.partition = kPartition;
    return ids[name] = insert_core(db, row);
  }
  void attempt(const std::string& name, AttemptRow row) {
    row.partition = kPartition;
    row.execution = ids.at(name);
    insert_attempt(db, row);
  }
  void set(const std::string& name, const std::string& assignments) {
    db.execute("UPDATE ff_exec_core SET " + assignments + " WHERE execution_id = $1",
               pg::Params::of(ids.at(name)));
  }

  const Database database{};
  pg::Connection db = database.connect();
  pg::Connection by_hand = database.connect();
  const std::int64_t now = now_ms(db);
  const Uuid flow = new_uuid();
  std::map<std::string, Uuid> ids{};

 private:
  void add_waiting() {
    core("submitted", {.state = {"submitted", "unowned", "eligible_now", "waiting", "pending"}});
    core("runnable", {.state = runnable()});
    core("retried", {.state = {"runnable", "unowned", "eligible_now", "running", "pending_retry_attempt"},
                     .attempt_index = 1});
    attempt("retried", {.outcome = "retry"});
    core("interrupted", {.state = {"runnable", "unowned", "eligible_now", "running", "attempt_interrupted"}});
    attempt("interrupted", {.outcome = "interrupted"});
    core("delayed", {.state = delayed(), .deadline_at_ms = now + kMinute});
    attempt("delayed", {.outcome = "interrupted"});
    core("backoff", {.state = delayed(), .raw_fields = {{"delay_until", std::to_string(now + kMinute)}}});
    attempt("backoff", {.outcome = "failure"});
    set("backoff", "blocking_reason = 'waiting_for_retry_backoff', attempt_state = 'pending_retry_attempt'");
    core("resume_delay", {.state = delayed()});
    attempt("resume_delay", {.outcome = "attempt_interrupted"});
    set("resume_delay", "blocking_reason = 'waiting_for_resume_delay'");
    core("promised", {.state = {"runnable", "unowned", "pending_claim", "waiting", "pending_first_attempt"}});
    insert(db, "ff_claim_grant",
           {{"partition_key", kPartition.value},
            {"grant_id", "\\x01"},
            {"execution_id", to_string(ids.at("promised"))},
            {"kind", "claim"},
            {"worker_id", "w2"},
            {"worker_instance_id", "w2-1"},
            {"worker_capabilities", Json::array()},
            {"grant_ttl_ms", 1000},
            {"issued_at_ms", now},
            {"expires_at_ms", now + kMinute}});
  }
  void add_active() {
    core("active", {.state = active(), .deadline_at_ms = now + kMinute});
    attempt("active", {.lease_expires_at_ms = now + kMinute});
    core("typed",
         {.state = {"active", "leased", "not_applicable", "active", "running_attempt"}, .attempt_index = 1});
    attempt("typed", {.lease_expires_at_ms = now + kMinute});
    // Taken over with a reclaim grant: the lease before is left.
    core("reclaimed", {.state = active(), .attempt_index = 1});
    attempt("reclaimed", {.lease_expires_at_ms = now + kMinute, .outcome = "interrupted_reclaimed"});
    attempt("reclaimed", {.attempt_index = 1, .lease_expires_at_ms = now + kMinute});
  }
  void add_suspended() {
    core("suspended", {.state = suspended()});
    attempt("suspended", {.lease_epoch = 2, .outcome = "attempt_interrupted"});
    insert_suspension(db, {.partition = kPartition,
                           .execution = ids.at("suspended"),
                           .suspended_at_ms = now,
                           .timeout_at_ms = now + kMinute,
                           .member_map = {{"k", Json::array()}}});
    db.execute_script(
        R"(UPDATE ff_suspension_current SET condition = '{"Single": {"waitpoint_key": "k", "matcher": "Wildcard"}}')");
    insert_waitpoint(db, {.partition = kPartition, .execution = ids.at("suspended"), .waitpoint_key = "k"});
    insert_waitpoint(
        db, {.partition = kPartition, .execution = ids.at("active"), .expires_at_ms = now + kMinute});
    db.execute(
        "UPDATE ff_waitpoint_pending SET state = 'active', activated_at_ms = $1 WHERE execution_id = $2",
        pg::Params::of(now, ids.at("suspended")));
    // A signal was delivered: the suspension stays.
    core("resumable",
         {.state = {"runnable", "released", "eligible_now", "resumable", "attempt_interrupted"}});
    attempt("resumable", {.lease_epoch = 2, .outcome = "attempt_interrupted"});
    insert_suspension(
        db, {.partition = kPartition, .execution = ids.at("resumable"), .timeout_at_ms = now + kMinute});
  }
  void add_ended() {
    core("completed", {.state = terminal(), .terminal_at_ms = now - 10 * kMinute});
    attempt("completed", {.terminal_at_ms = now - 10 * kMinute, .outcome = "success"});
    insert_completion(db, {.execution = ids.at("completed"), .dispatched_at_ms = now - 9 * kMinute});
    // As an operator's cancel of a flow leaves it: the worker has not heard of it yet.
    core("cancelled", {.state = {"cancelled", "leased", "cancelled", "cancelled", "running_attempt"},
                       .terminal_at_ms = now - 10 * kMinute});
    attempt("cancelled", {.lease_expires_at_ms = now + kMinute});
    core("replayed", {.state = {"runnable", "unowned", "eligible_now", "waiting", "pending_replay_attempt"},
                      .raw_fields = {{"replay_count", 1}}});
    insert_completion(db, {.execution = ids.at("replayed"), .dispatched_at_ms = now - 9 * kMinute});
  }
  void member(const std::string& name, const State& state, std::optional<std::string> end = {}) {
    core(name, {.flow = flow,
                .state = state,
                .terminal_at_ms = end ? std::optional(now - 5 * kMinute) : std::nullopt});
    if (end)
      insert_completion(db, {.execution = ids.at(name),
                             .flow = flow,
                             .outcome = *end,
                             .committed_ago_ms = 5 * kMinute,
                             .dispatched_at_ms = now - 4 * kMinute});
  }
  void edges(const std::string& downstream, const std::vector<std::string>& upstreams, const GroupRow& like) {
    for (const std::string& upstream : upstreams)
      insert_edge(db, kPartition, flow, ids.at(upstream), ids.at(downstream));
    GroupRow group = like;
    group.flow = flow;
    group.downstream = ids.at(downstream);
    insert_group(db, group);
  }
  // One of two has ended; any of two has, and the other is to be cancelled; children that still run.
  void add_flow() {
    member("ended_upstream", terminal(), "success");
    member("skipped_upstream", terminal("skipped"), "skipped");
    member("upstream", runnable());
    member("blocked", blocked());
    edges("blocked", {"ended_upstream", "upstream"},
          {.policy = {{"kind", "all_of"}}, .success = 1, .running = 1});
    member("satisfied", runnable());
    edges("satisfied", {"ended_upstream", "upstream"},
          {.policy = {{"kind", "any_of"}},
           .success = 1,
           .running = 1,
           .flag = true,
           .members = {to_string(ids.at("upstream"))}});
    insert_pending(db, kPartition, flow, ids.at("satisfied"), now);
    member("parent", {"runnable", "unowned", "blocked_by_dependencies", "running", "attempt_interrupted"});
    attempt("parent", {.outcome = "waiting_children"});
    set("parent", "blocking_reason = 'waiting_for_children'");
    edges("parent", {"ended_upstream", "upstream"},
          {.policy = {{"kind", "all_of"}}, .success = 1, .running = 1});
  }
  void add_counters() {
    for (const char* budget : {"b1", "it's {b2}"}) {
      insert(db, "ff_budget_policy",
             {{"partition_key", 3},
              {"budget_id", budget},
              {"policy_json", {{"reset_interval_ms", kMinute}}},
              {"created_at_ms", now},
              {"updated_at_ms", now},
              {"scope_type", ""},
              {"scope_id", ""},
              {"enforcement_mode", ""},
              {"breach_count", 0},
              {"soft_breach_count", 0},
              {"next_reset_at_ms", now + kMinute}});
      insert(db, "ff_budget_usage",
             {{"partition_key", 3},
              {"budget_id", budget},
              {"dimensions_key", "tokens"},
              {"current_value", 7},
              {"last_reset_at_ms", now - 2 * kMinute},
              {"updated_at_ms", now}});
      insert(db, "ff_budget_usage_by_exec",
             {{"partition_key", 3},
              {"budget_id", budget},
              {"execution_id", to_string(ids.at("active"))},
              {"dimensions_key", "tokens"},
              {"delta_total", 5},
              {"updated_at_ms", now}});
    }
    insert(db, "ff_quota_policy",
           {{"partition_key", 3},
            {"quota_policy_id", "q1"},
            {"requests_per_window_seconds", 60},
            {"max_requests_per_window", 10},
            {"active_concurrency_cap", 5},
            {"active_concurrency", 1},
            {"created_at_ms", now},
            {"updated_at_ms", now}});
    insert(db, "ff_quota_admitted",
           {{"partition_key", 3},
            {"quota_policy_id", "q1"},
            {"execution_id", "{fp:3}:x"},
            {"admitted_at_ms", now},
            {"expires_at_ms", now + kMinute}});
    insert(db, "ff_worker_registry",
           {{"partition_key", 3},
            {"namespace", "ns"},
            {"worker_instance_id", "w1"},
            {"worker_id", "w"},
            {"lanes", "{default}"},
            {"capabilities_csv", ""},
            {"last_heartbeat_ms", now},
            {"liveness_ttl_ms", 30'000},
            {"registered_at_ms", now}});
    insert(db, "ff_lease_event",
           {{"execution_id", to_string(ids.at("active"))},
            {"event_type", "acquired"},
            {"occurred_at_ms", now},
            {"partition_key", 3}});
  }
};

/// Damage, and what has to be said of it.
struct Damage {
  std::string check;
  std::string sql;       ///< as AuditStage::filled_in takes it
  std::string of;        ///< the execution at fault; empty: it is none's
  bool several = false;  ///< it takes others with it: mended in more than one round
};

/// Each in a database of its own: found by this check and no other, with its key, and mended by what it says.
inline void check_damages(const std::vector<Damage>& damages) {
  for (const Damage& damage : damages) {
    CAPTURE(damage.check);
    AuditStage stage;
    stage.db.execute_script(stage.filled_in(damage.sql));
    audit::Report report = stage.audit();
    for (const auto& omission : report.omissions) FAIL_CHECK(omission.checks + ": " + omission.error);
    std::string names;
    for (const auto& verdict : report.verdicts) {
      names += std::string(verdict.check->name) + " ";
      for (const auto& row : verdict.rows) names += row.key + " " + row.what + "; ";
    }
    CAPTURE(names);
    CHECK(report.verdicts.size() == 1);
    if (report.verdicts.size() != 1) continue;
    CHECK(report.verdicts[0].check->name == damage.check);
    CHECK((report.verdicts[0].rows.size() == 1 || damage.several));
    if (!damage.of.empty())
      CHECK(report.verdicts[0].rows.at(0).key ==
            to_string(ExecutionId{stage.kPartition, stage.ids.at(damage.of)}));
    for (int round = 0; round < (damage.several ? 3 : 1) && !report.verdicts.empty(); ++round) {
      for (const auto& verdict : report.verdicts)
        for (const auto& row : verdict.rows) stage.mend(row.remedy);
      report = stage.audit();
    }
    std::string left;
    for (const auto& verdict : report.verdicts)
      left += std::string(verdict.check->name) + ": " + verdict.rows.at(0).key + " " +
              verdict.rows.at(0).what + "\n" + verdict.rows.at(0).remedy;
    CHECK(left == "");
  }
}

}  // namespace ff::test
