#include "support/interleaving.hpp"

#include <stdexcept>

namespace ff::test {
namespace {

using sandbox::Claim;
constexpr Milliseconds kLease{60'000};

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
  };
}

std::vector<Part> parts_of(const Scene& scene) {
  const Columns in_flow{{"flow_id", "id"}};
  Columns core = scene.core;
  core.insert(in_flow.begin(), in_flow.end());
  const std::string ended = scene.upstream_ended;
  std::vector<Part> parts{core_part(scene.state, "id", core),
                          core_part(terminal(ended == "success" ? "completed" : ended), "earlier",
                                    {{"flow_id", "id"}, {"terminal_at_ms", "due_ms"}}),
                          completion_part("earlier", ended, in_flow),
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

Actor::Actor(const Database& database) : connection_(database.connect()), worker_(connection_, "w1", kLease) {
  for (const auto& reconciler : reconcile::registry())
    if (!reconciler.execution_column.empty()) add(database, reconciler);
  add_verbs();
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

}  // namespace ff::test
