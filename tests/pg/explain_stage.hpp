#pragma once

#include <algorithm>
#include <set>

#include "explain/finding.hpp"
#include "explain/read.hpp"
#include "explain/verdict.hpp"
#include "support/engine.hpp"
#include "support/flow.hpp"
#include "support/spans.hpp"

namespace ff::test {

/// A database in which one execution is stuck, and what is said of it.
struct ExplainStage {
  Uuid core(CoreRow row) {
    row.partition = {3};
    return insert_core(db, row);
  }
  void attempt(AttemptRow row) {
    row.partition = {3};
    insert_attempt(db, row);
  }
  void set(const Uuid& id, const std::string& assignments) {
    db.execute("UPDATE ff_exec_core SET " + assignments + " WHERE execution_id = $1", pg::Params::of(id));
  }
  /// Active, with a lease that ends (or ended) so much later.
  Uuid leased(std::int64_t ends_in_ms, const Json& attempt_fields = Json::object(), CoreRow row = {}) {
    const Uuid id = core(row);
    attempt({.execution = id, .lease_expires_at_ms = now + ends_in_ms, .raw_fields = attempt_fields});
    return id;
  }
  void grant(const Uuid& id, const std::string& kind, std::int64_t ends_in_ms) {
    insert(db, "ff_claim_grant",
           {{"partition_key", 3},
            {"grant_id", "\\x" + to_string(new_uuid()).substr(0, 8)},
            {"execution_id", to_string(id)},
            {"kind", kind},
            {"worker_id", "w2"},
            {"worker_instance_id", "w2-1"},
            {"grant_ttl_ms", 1000},
            {"issued_at_ms", now - kHour},
            {"expires_at_ms", now + ends_in_ms}});
  }

  /// Every reconciler with its defaults, all switched on but those named in `off`.
  std::vector<explain::Member> family() const {
    std::vector<explain::Member> members;
    reconcile::Family all{.enabled = {}, .delays_reclaims = true};
    for (const reconcile::Reconciler& r : reconcile::registry())
      if (!off.contains(r.name)) all.enabled.emplace(r.name, settings_of(r.name, settings_for(r)));
    for (const reconcile::Reconciler& r : reconcile::registry())
      members.push_back({&r,
                         !off.contains(r.name),
                         {{PartitionKey{3}},
                          r.filterable ? filter : ScannerFilter{},
                          1000,
                          settings_of(r.name, settings_for(r)),
                          all}});
    return members;
  }
  Settings settings_for(const reconcile::Reconciler& r) const {
    const auto found = settings.find(r.name);
    return found == settings.end() ? Settings{} : found->second;
  }

  explain::Facts ask(const Uuid& id) {
    pg::Pool pool(database.connector(), 1, Milliseconds{10'000});
    explain::Facts facts =
        explain::Reader(family(), partition_range({0}, {15})).read(*pool.acquire(), {{3}, id});
    explain::try_due(facts, pool, family());
    return facts;
  }

  /// One reconciler's turn on this execution, in earnest.
  reconcile::TickReport turn(const explain::Member& member, const Uuid& id) {
    pg::Pool pool(database.connector(), 1, Milliseconds{10'000});
    reconcile::Engine engine(*member.reconciler, member.scope, pool);
    return engine.tick_one({{3}, id});
  }

  const Database database{};
  pg::Connection db = database.connect();
  const std::int64_t now = now_ms(db);
  ScannerFilter filter{};
  std::map<std::string_view, Settings> settings{};
  std::set<std::string_view> off{};
};

/// How an execution gets stuck, and what has to be said of it.
struct Cause {
  std::string word;
  std::function<Uuid(ExplainStage&)> make;
  std::string next{};  ///< stands in the next step, with the execution for "{id}"
};

inline const explain::Finding* finding(const std::vector<explain::Finding>& all, std::string_view cause) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const explain::Finding& f) { return f.cause == cause; });
  return found == all.end() ? nullptr : &*found;
}

using Found = std::vector<explain::Finding>;

inline Found found_of(ExplainStage& stage, const Uuid& id) {
  return explain::findings(stage.ask(id));
}

inline std::string text_of(const Found& found, std::string_view cause) {
  const explain::Finding* its = finding(found, cause);
  return its == nullptr ? "none" : its->text;
}

inline std::string next_of(const Found& found, std::string_view cause) {
  const explain::Finding* its = finding(found, cause);
  return its == nullptr ? "none" : its->next;
}

inline std::string with_id(std::string text, const Uuid& id) {
  const std::string name = to_string(ExecutionId{{3}, id});
  if (const auto at = text.find("{id}"); at != std::string::npos) text.replace(at, 4, name);
  return text;
}

/// What is called due is moved by the daemon, with the outcome that was foretold; where nothing is, nobody moves
/// anything.
inline void check_foretold(ExplainStage& stage, const Uuid& id, const explain::Facts& facts) {
  const auto all = explain::verdicts(facts);
  const auto due =
      std::find_if(all.begin(), all.end(), [](const explain::Verdict& v) { return v.word == "due"; });
  for (const explain::Member& member : stage.family()) {
    if (member.reconciler->execution_column.empty()) continue;
    if (due != all.end() && due->reconciler != member.reconciler->name) continue;
    CAPTURE(member.reconciler->name);
    const auto report = stage.turn(member, id);
    CHECK((due != all.end()) == !report.outcomes.empty());
    for (const auto& [outcome, count] : report.outcomes) CHECK_THAT(due->text, Catch::Contains(outcome));
  }
}

/// Makes each cause in a database of its own.
inline void check_causes(const std::vector<Cause>& causes) {
  for (const Cause& cause : causes) {
    CAPTURE(cause.word);
    ExplainStage stage;
    const Uuid id = cause.make(stage);
    const auto before = snapshot(stage.db);
    const explain::Facts facts = stage.ask(id);
    CHECK(diff(before, snapshot(stage.db)).empty());
    const auto found = explain::findings(facts);
    std::string words;
    for (const explain::Finding& f : found) words += std::string(f.cause) + ": " + f.text + "\n";
    CAPTURE(words);
    const explain::Finding* its = finding(found, cause.word);
    CHECK(its != nullptr);
    if (its == nullptr) continue;
    CHECK_FALSE(its->next.empty());
    CHECK_THAT(its->next, Catch::Contains(with_id(cause.next, id)));
    check_foretold(stage, id, facts);
  }
}

inline CoreRow in_state(State state) {
  return {.state = std::move(state)};
}

// What else is set in its row.
inline Uuid core_with(ExplainStage& stage, CoreRow row, const std::string& assignments) {
  const Uuid id = stage.core(std::move(row));
  stage.set(id, assignments);
  return id;
}

// As FlowFabric writes them: the suspension and its waitpoints from one reading of the clock.
inline void insert_open_waitpoint(ExplainStage& stage, const Uuid& execution, const std::string& key) {
  const Uuid waitpoint =
      insert_waitpoint(stage.db, {.partition = {3}, .execution = execution, .waitpoint_key = key});
  stage.db.execute(
      "UPDATE ff_waitpoint_pending SET state = 'active', activated_at_ms = s.suspended_at_ms"
      " FROM ff_suspension_current s WHERE waitpoint_id = $1 AND s.execution_id = $2",
      pg::Params::of(waitpoint, execution));
}

inline Json any_signal_at(const std::string& key) {
  return {{"Single", {{"waitpoint_key", key}, {"matcher", "Wildcard"}}}};
}

inline void set_condition(ExplainStage& stage, const Uuid& execution, const Json& condition,
                          const Json& signals = Json::object()) {
  stage.db.execute(
      "UPDATE ff_suspension_current SET condition = $2::jsonb, member_map = $3::jsonb WHERE execution_id = "
      "$1",
      pg::Params::of(execution, condition.dump(), signals.dump()));
}

inline Uuid suspended_with(ExplainStage& stage, std::optional<std::int64_t> timeout_in_ms,
                           bool with_waitpoint = true) {
  const Uuid id = stage.core(in_state(suspended()));
  stage.attempt({.execution = id});
  const auto timeout = timeout_in_ms ? std::optional(stage.now + *timeout_in_ms) : std::nullopt;
  insert_suspension(stage.db, {.partition = {3}, .execution = id, .timeout_at_ms = timeout});
  set_condition(stage, id, any_signal_at("approval"));
  if (with_waitpoint) insert_open_waitpoint(stage, id, "approval");
  return id;
}

// What the cancel of its flow still owes it.
inline void insert_cancel_backlog(pg::Connection& db, PartitionKey partition, const Uuid& flow,
                                  const Uuid& execution, std::int64_t requested_at_ms) {
  insert(db, "ff_cancel_backlog",
         {{"partition_key", partition.value},
          {"flow_id", to_string(flow)},
          {"requested_at_ms", requested_at_ms},
          {"cancellation_policy", "cancel_all"}});
  insert(db, "ff_cancel_backlog_member",
         {{"partition_key", partition.value},
          {"flow_id", to_string(flow)},
          {"execution_id", to_string(ExecutionId{partition, execution})}});
}

// Of two upstreams, the first with this in its row.
inline FanIn fan_in(ExplainStage& stage, GroupRow group, const std::string& upstream = {}) {
  if (group.policy.is_null()) group.policy = {{"kind", "all_of"}};
  const FanIn made = insert_fan_in(stage.db, 2, std::move(group));
  for (const Uuid& id : made.upstreams)
    insert_attempt(stage.db, {.partition = {3}, .execution = id, .lease_expires_at_ms = stage.now + kHour});
  if (!upstream.empty()) stage.set(made.upstreams[0], upstream);
  return made;
}

// Satisfied, with an upstream that is to be cancelled.
inline FanIn one_too_many(ExplainStage& stage) {
  FanIn made = fan_in(stage, {.policy = {{"kind", "any_of"}}, .success = 1, .running = 1});
  stage.db.execute(
      "UPDATE ff_edge_group SET cancel_siblings_pending_flag = true,"
      " cancel_siblings_pending_members = ARRAY[$1::text]",
      pg::Params::of(made.upstreams[1]));
  return made;
}

/// These have succeeded, and that was passed on.
inline void end_and_pass_on(ExplainStage& stage, const FanIn& made,
                            std::initializer_list<std::size_t> upstreams) {
  for (const std::size_t upstream : upstreams) end_upstream(stage.db, made, upstream);
  stage.db.execute("UPDATE ff_completion_event SET dispatched_at_ms = 5");
}

const char* const kEnded =
    "lifecycle_phase = 'cancelled', public_state = 'cancelled', eligibility_state = 'not_applicable'";

// A parent that has one child, which is counted or not.
inline FanIn parent(ExplainStage& stage, GroupRow group) {
  group.policy = {{"kind", "all_of"}};
  const FanIn made = insert_fan_in(stage.db, 1, std::move(group), in_state(runnable()));
  stage.set(made.downstream,
            "eligibility_state = 'blocked_by_dependencies', blocking_reason = 'waiting_for_children'");
  return made;
}

}  // namespace ff::test
