// stray_waitpoint: an active waitpoint whose key FlowFabric has lost while it suspended gets it back.
#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "support/stalled_act.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;

namespace {

constexpr std::int64_t kThen = kNow - 5000;

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("stray_waitpoint");
}

Json single(const std::string& key, const Json& matcher = "Wildcard") {
  return {{"Single", {{"waitpoint_key", key}, {"matcher", matcher}}}};
}
Json all_of(const Json& members) {
  return {{"Composite", {{"kind", "AllOf"}, {"members", members}}}};
}
Json count_of(const Json& keys, const Json& matcher) {
  return {{"Composite",
           {{"kind", "Count"},
            {"n", 2},
            {"count_kind", "DistinctWaitpoints"},
            {"matcher", matcher},
            {"waitpoints", keys}}}};
}
Json signal(const std::string& name) {
  return {{"signal_id", to_string(new_uuid())}, {"signal_name", name}};
}

struct Stage : StillStage {
  Stage() : StillStage(reconciler()) {}

  Uuid suspended_on(const Json& condition, const Json& member_map = Json::object(),
                    const State& state = suspended(), const Json& raw_fields = Json::object()) {
    const Uuid id = insert_core(db, {.partition = {3}, .state = state, .raw_fields = raw_fields});
    insert_suspension(
        db, {.partition = {3}, .execution = id, .suspended_at_ms = kThen, .member_map = member_map});
    db.execute("UPDATE ff_suspension_current SET condition = $2::jsonb WHERE execution_id = $1",
               pg::Params::of(id, condition.dump()));
    return id;
  }
  Uuid waitpoint(const Uuid& execution, const std::string& key = "", const std::string& state = "active",
                 std::optional<std::int64_t> activated_at_ms = kThen) {
    const Uuid id = insert_waitpoint(db, {.partition = {3}, .execution = execution, .waitpoint_key = key});
    db.execute("UPDATE ff_waitpoint_pending SET state = $2, activated_at_ms = $3 WHERE waitpoint_id = $1",
               pg::Params::of(id, state, activated_at_ms));
    return id;
  }
  /// Its key, and the signals that are waited for there.
  std::string of(const Uuid& waitpoint) {
    return row(db,
               "SELECT waitpoint_key || ': ' || array_to_string(required_signal_names, ', ') AS it"
               " FROM ff_waitpoint_pending WHERE waitpoint_id = $1",
               pg::Params::of(waitpoint))["it"];
  }
  Json signals(const Uuid& execution) {
    return row(db, "SELECT member_map FROM ff_suspension_current WHERE execution_id = $1",
               pg::Params::of(execution))["member_map"];
  }
};

}  // namespace

TEST_CASE("a waitpoint without its key gets the only key of the condition that no other waitpoint has") {
  Stage t;
  const Uuid any = t.waitpoint(t.suspended_on(single("k")));
  const Uuid named = t.waitpoint(t.suspended_on(single("it's", {{"ByName", "go"}})));
  const Uuid all = t.suspended_on(all_of({single("a", {{"ByName", "one"}}), single("b", {{"ByName", "two"}}),
                                          all_of({single("b", {{"ByName", "also"}}), "OperatorOnly"})}));
  t.waitpoint(all, "a");
  const Uuid last = t.waitpoint(all);
  const Uuid count = t.suspended_on(count_of({"a", "b", "c"}, {{"ByName", "go"}}));
  for (const char* key : {"c", "b"}) t.waitpoint(count, key);
  const Uuid counted = t.waitpoint(count);
  // What is only announced, or left of a former suspension, is not of this one.
  const Uuid announced = t.suspended_on(single("k"));
  t.waitpoint(announced, "k", "pending", std::nullopt);
  const Uuid beside = t.waitpoint(announced);
  const auto before = snapshot(t.db);

  CHECK(outcomes(t.tick()) == "rekeyed=5");

  CHECK(t.of(any) == "k: ");
  CHECK(t.of(named) == "it's: go");
  CHECK(t.of(last) == "b: two, also");
  CHECK(t.of(counted) == "a: go");
  CHECK(t.of(beside) == "k: ");
  CHECK(diff(before, snapshot(t.db)).size() == 10);  // five rows, before and after
  CHECK(t.tick().scanned == 0);
}

TEST_CASE("a waitpoint stays without a key where the condition does not tell which one it was to have") {
  Stage t;
  const std::vector<Json> telling_nothing{Json::object(),
                                          "OperatorOnly",
                                          "TimeoutOnly",
                                          single(""),
                                          all_of({single("a"), single("b")}),
                                          all_of({single(""), single("b")}),
                                          all_of(Json::array()),
                                          Json::array({1, "waitpoint_key"}),
                                          7};
  for (const Json& condition : telling_nothing) t.waitpoint(t.suspended_on(condition));
  const Uuid bound = t.suspended_on(single("k"));
  t.waitpoint(bound, "k");
  t.waitpoint(bound);
  const Uuid both = t.suspended_on(single("k"));
  t.waitpoint(both);
  t.waitpoint(both);
  // It has a key; nobody has suspended on it; its suspension is over, by a signal or for good.
  const Uuid other = t.suspended_on(single("k"));
  t.waitpoint(other, "another");
  t.waitpoint(other, "", "pending", std::nullopt);
  t.waitpoint(t.suspended_on(single("k"), Json::object(), cancelled()));
  const auto before = snapshot(t.db);
  CHECK(t.tick().scanned == 0);
  CHECK(diff(before, snapshot(t.db)).empty());
}

TEST_CASE("the signals that a waitpoint was sent while it had no key count for the key that it gets") {
  Stage t;
  const Json early = signal("early");
  const Json late = signal("late");
  const Uuid moved = t.suspended_on(single("k"), {{"", {late}}, {"k", {early}}, {"other", {early}}});
  const Uuid alone = t.suspended_on(single("k"), {{"", {late}}});
  // No list of signals: deliver_signal refuses it as well.
  const Json broken{{"", {late}}, {"k", 7}};
  const Uuid kept = t.suspended_on(single("k"), broken);
  const Uuid odd = t.suspended_on(single("k"), "odd");
  for (const Uuid& id : {moved, alone, kept, odd}) t.waitpoint(id);

  CHECK(outcomes(t.tick()) == "rekeyed=4");

  CHECK(t.signals(moved) == Json{{"k", {early, late}}, {"other", {early}}});
  CHECK(t.signals(alone) == Json{{"k", {late}}});
  CHECK(t.signals(kept) == broken);
  CHECK(t.signals(odd) == "odd");
  CHECK(number(t.db, "SELECT count(*) FROM ff_exec_core WHERE lifecycle_phase = 'suspended'") == 4);
  CHECK(snapshot(t.db, "ff_completion_event").empty());
}

TEST_CASE("a signal that comes while a waitpoint gets its key back is not lost") {
  Stage t;
  const Uuid id = t.suspended_on(single("k"));
  const Uuid waitpoint = t.waitpoint(id);
  StalledAct stalled(t.database, reconciler(), {{{3}, {to_string(waitpoint)}}});
  t.db.execute("UPDATE ff_suspension_current SET member_map = '{\"\": [{\"signal_name\": \"now\"}]}'");
  CHECK(stalled.finish().size() == 1);
  CHECK(t.of(waitpoint) == "k: ");
  CHECK(t.signals(id) == Json{{"k", {{{"signal_name", "now"}}}}});
}

TEST_CASE("a waitpoint keeps the key '' that a new suspension uses while an act is under way") {
  Stage t;
  const Uuid id = t.suspended_on(single("k"));
  const Uuid waitpoint = t.waitpoint(id);
  StalledAct stalled(t.database, reconciler(), {{{3}, {to_string(waitpoint)}}});
  t.db.execute("UPDATE ff_suspension_current SET condition = $1::jsonb",
               pg::Params::of(single("another").dump()));
  t.db.execute("UPDATE ff_exec_core SET lifecycle_phase = 'suspended'");
  CHECK(stalled.finish().empty());
  CHECK(t.of(waitpoint) == ": ");
}

TEST_CASE("a waitpoint gets its key back by the lease event of its suspension, before any walk comes by") {
  Stage t;
  const auto add = [&](const std::string& event) {
    const Uuid id = t.suspended_on(single("k"), Json::object(), suspended(), origin("a", "1"));
    if (!event.empty())
      insert(t.db, "ff_lease_event",
             {{"execution_id", to_string(id)},
              {"event_type", event},
              {"occurred_at_ms", kNow - 100},
              {"partition_key", 3}});
    return t.waitpoint(id);
  };
  const Uuid told = add("revoked");
  const std::vector<Uuid> others{add(""), add("renewed")};
  // As a daemon looks between two scans of the others.
  const auto look = [&](const EngineOptions& options) {
    EngineFixture engine(t.database, reconciler(), options);
    return engine->tick({.scan = false, .companions_scan = false, .shortcuts_scan = true, .in_slices = true});
  };
  CHECK(look({.filter = for_both("b", {"cairn.instance_id", "1"})}).scanned == 0);

  CHECK(outcomes(look({})) == "rekeyed=1");

  CHECK(t.of(told) == "k: ");
  for (const Uuid& other : others) CHECK(t.of(other) == ": ");
  CHECK(look({}).scanned == 0);
}
