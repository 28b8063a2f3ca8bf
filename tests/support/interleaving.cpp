#include "support/interleaving.hpp"

#include <stdexcept>

namespace ff::test {
namespace {

using simulation::Claim;
constexpr Milliseconds kLease{60'000};

constexpr const char* kAcknowledgement = "server's acknowledgement";
constexpr const char* kGrant = "grant of somebody's own scheduler";
constexpr const char* kOperatorsClaim = "operator's claim";
constexpr const char* kResumedClaim = "worker's claim of what goes on";

Claim claim_of(const Scene& scene, const Seed& seed) {
  return {{seed.partition, seed.id}, 0, scene.lease_epoch};
}

}  // namespace

std::vector<Scene> scenes() {
  const Columns late{{"deadline_at_ms", "due_ms"}};
  const Part stopped = attempt_part("id", "NULL", {{"lease_epoch", "2"}});
  const Part acquired = lease_event_part("id", "acquired");
  return {
      {"running, lapsed and late", active(), late, {attempt_part("id", "due_ms"), acquired}, "failed", 1},
      {"suspended for too long",
       suspended(),
       late,
       {stopped, acquired, suspension_part("id", {{"timeout_at_ms", "due_ms"}}),
        waitpoint_part("id", "id", {{"expires_at_ms", "due_ms"}})},
       "failed",
       0},
      {"delayed until now", delayed(), late, {stopped, acquired}, "failed", 0},
      {"waiting", runnable(), late, {}, "success", 0},
      {"blocked, and satisfied", blocked(), late, {}, "success", 0},
      {"blocked in vain", blocked(), late, {}, "failed", 0},
      // Whoever else has an eye on these rows, and no other: each pair takes its time.
      {.name = "a member of a cancelled flow, and at work",
       .state = active(),
       .core = {},
       .parts = {attempt_part("id", "due_ms + 86400000"), acquired, backlog_part("id"),
                 backlog_member_part("id", "id")},
       .upstream_ended = "failed",
       .lease_epoch = 1,
       .only = {"cancel_backlog", "dependency", "edge_cancel_dispatcher", kAcknowledgement}},
      {.name = "promised to a worker that did not come",
       .state = {"runnable", "unowned", "pending_claim", "waiting", "pending_first_attempt"},
       .core = {},
       .parts = {grant_part("id", "due_ms")},
       .upstream_ended = "success",
       .lease_epoch = 0,
       .only = {"grant_expiry", "dependency", "edge_cancel_dispatcher", kGrant, kOperatorsClaim}},
      {.name = "waiting for an upstream that is over",
       .state = blocked(),
       .core = {},
       .parts = {},
       .upstream_ended = "success",
       .lease_epoch = 0,
       .only = {"group_recount", "dependency", "execution_deadline", "edge_cancel_dispatcher"},
       .is_dispatched = true},
      {.name = "to go on after a typed claim",
       .state = {"runnable", "released", "eligible_now", "resumable", "attempt_interrupted"},
       .core = {{"attempt_index", "1"}},
       .parts = {stopped, acquired},
       .upstream_ended = "success",
       .lease_epoch = 0,
       .only = {"index_repair", "edge_cancel_dispatcher", kResumedClaim, kOperatorsClaim}},
      {.name = "suspended anew, beside the waitpoint of before",
       .state = suspended(),
       .core = {},
       .parts = {stopped, acquired, suspension_part("id", {{"suspended_at_ms", "due_ms + 1"}}),
                 waitpoint_part("id", "id", {{"state", "'active'"}, {"activated_at_ms", "due_ms"}})},
       .upstream_ended = "success",
       .lease_epoch = 0,
       .only = {"stray_waitpoint", "suspension_timeout", "pending_waitpoint_expiry"}},
  };
}

bool is_taken_in(const Scene& scene, const Step& step) {
  if (scene.only.empty()) return !step.is_of_few;
  return scene.only.contains(step.name) || (!step.reconciles && !step.is_of_few);
}

std::vector<Part> parts_of(const Scene& scene) {
  const Columns in_flow{{"flow_id", "id"}};
  Columns core = scene.core;
  core.insert(in_flow.begin(), in_flow.end());
  const std::string ended = scene.upstream_ended;
  std::vector<Part> parts{
      core_part(scene.state, "id", core),
      core_part(terminal(ended == "success" ? "completed" : ended), "earlier",
                {{"flow_id", "id"}, {"terminal_at_ms", "due_ms"}}),
      completion_part(
          "earlier", ended,
          merged(in_flow, scene.is_dispatched ? Columns{{"dispatched_at_ms", "due_ms"}} : Columns{})),
      edge_part("id", "earlier", "id"),
      group_part("id", "id", {{"running_count", "1"}}),
      core_part(runnable(), "later", in_flow),
      edge_part("id", "id", "later"),
      group_part("id", "later",
                 {{"policy", R"('{"kind": "any_of"}')"},
                  {"success_count", "1"},
                  {"running_count", "1"},
                  {"cancel_siblings_pending_flag", "true"},
                  {"cancel_siblings_pending_members", "ARRAY[id::text]"}}),
      pending_part("id", "later")};
  parts.insert(parts.end(), scene.parts.begin(), scene.parts.end());
  return parts;
}

Actor::Actor(const Database& database)
    : connection_(database.connect()),
      worker_(connection_, "w1", kLease),
      granted_worker_(connection_, "w2", kLease) {
  for (const auto& reconciler : reconcile::registry())
    if (!reconciler.execution_column.empty()) add(database, reconciler);
  add_verbs();
  add_verbs_of_few();
}

void Actor::add(const Database& database, const reconcile::Reconciler& reconciler) {
  // As eager as they can be configured.
  Settings settings;
  for (const auto& setting : reconciler.settings) {
    if (setting.kind == SettingDecl::Kind::flag) settings[std::string(setting.name)] = setting.most;
    if (setting.kind == SettingDecl::Kind::duration) settings[std::string(setting.name)] = setting.least;
  }
  EngineFixture& engine = *engines_.emplace_back(std::make_unique<EngineFixture>(
      database, reconciler, EngineOptions{.settings = settings, .clock = &clock_}));
  steps_.push_back({std::string(reconciler.name), true, [this, &engine](const Scene&, const Seed& seed) {
                      std::int64_t processed = 0;
                      for (const Uuid& execution : {seed.earlier, seed.id, seed.later}) {
                        clock_.tick_starts();
                        const auto report = engine->tick_one({seed.partition, execution});
                        if (report.failure) throw *report.failure;
                        if (report.error_count() > 0) throw std::runtime_error("a row was set aside");
                        processed += report.processed;
                      }
                      return processed > 0;
                    }});
}

void Actor::add_verbs() {
  const auto add_verb = [this](const char* name, std::function<bool(const Claim&)> verb) {
    steps_.push_back({std::string("worker's ") + name, false,
                      [verb = std::move(verb)](const Scene& scene, const Seed& seed) {
                        return verb(claim_of(scene, seed));
                      }});
  };
  add_verb("claim", [this](const Claim& claim) { return worker_.claim_one(claim.execution).has_value(); });
  add_verb("renew", [this](const Claim& claim) { return worker_.renew(claim); });
  add_verb("complete", [this](const Claim& claim) { return worker_.complete(claim); });
  add_verb("fail, to be retried", [this](const Claim& claim) { return worker_.fail(claim, true); });
  add_verb("fail, finally", [this](const Claim& claim) { return worker_.fail(claim, false); });
  add_verb("delay", [this](const Claim& claim) { return worker_.delay(claim, Milliseconds{0}); });
  add_verb("suspend", [this](const Claim& claim) {
    return worker_.suspend(claim, {.timeout_in = Milliseconds{0}, .waitpoints = {{.key = "k"}}});
  });
}

// As FlowFabric writes them, and in the order in which it locks.
void Actor::add_verbs_of_few() {
  const auto add_verb = [this](const char* name, std::function<bool(const Seed&)> verb) {
    steps_.push_back({.name = name,
                      .reconciles = false,
                      .take = [verb = std::move(verb)](const Scene&, const Seed& seed) { return verb(seed); },
                      .is_of_few = true});
  };
  add_verb(kAcknowledgement, [this](const Seed& seed) {
    return connection_
               .execute_prepared(
                   "DELETE FROM ff_cancel_backlog_member WHERE partition_key = $1 AND flow_id = $2"
                   " AND execution_id = '{fp:' || $1 || '}:' || $2",
                   pg::Params::of(seed.partition, seed.id))
               .affected() == 1;
  });
  add_verb(kGrant, [this](const Seed& seed) {
    granted_worker_.grant({seed.partition, seed.id}, kLease);
    return true;
  });
  add_verb(kOperatorsClaim, [this](const Seed& seed) {
    return granted_worker_.grant_and_claim({seed.partition, seed.id}).has_value();
  });
  add_verb(kResumedClaim, [this](const Seed& seed) {
    return worker_.claim_resumed({seed.partition, seed.id}).has_value();
  });
}

}  // namespace ff::test
