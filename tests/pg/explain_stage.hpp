#pragma once

#include <algorithm>
#include <set>

#include "explain/finding.hpp"
#include "explain/read.hpp"
#include "explain/verdict.hpp"
#include "support/engine.hpp"
#include "support/flow.hpp"

namespace ff::test {

constexpr std::int64_t kMinute = 60'000;
constexpr std::int64_t kHour = 60 * kMinute;

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
    explain::Facts facts = explain::read(*pool.acquire(), {{3}, id}, family(), partition_range({0}, {15}));
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

}  // namespace ff::test
