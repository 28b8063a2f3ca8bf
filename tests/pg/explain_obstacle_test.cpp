// What is in the way of the daemon: `explain` names it and what would help, and waits for nobody.
#include <catch2/catch.hpp>
#include <limits>

#include "explain_stage.hpp"

using namespace ff;
using namespace ff::test;

namespace {

std::string_view word_of(const explain::Facts& facts, std::string_view reconciler) {
  for (const explain::Verdict& verdict : explain::verdicts(facts))
    if (verdict.reconciler == reconciler) return verdict.word;
  return "not asked";
}

}  // namespace

TEST_CASE("explain names the sessions that hold the execution's rows, and waits for none") {
  ExplainStage stage;
  const Uuid id = stage.leased(-kMinute);
  const auto* const table = GENERATE("ff_exec_core", "ff_attempt");
  const auto* const statement = GENERATE("SELECT * FROM %s WHERE execution_id = $1 FOR NO KEY UPDATE",
                                         "UPDATE %s SET raw_fields = raw_fields WHERE execution_id = $1");
  std::string sql = statement;
  sql.replace(sql.find("%s"), 2, table);
  auto somebody = stage.database.connect();
  somebody.execute("SET application_name = 'some worker'");
  somebody.execute("BEGIN");
  somebody.execute(sql, pg::Params::of(id));
  const int pid = somebody.execute("SELECT pg_backend_pid()").one().get<std::int32_t>(0);

  const explain::Facts facts = stage.ask(id);
  const auto found = explain::findings(facts);
  const explain::Finding* its = finding(found, "locked");
  REQUIRE(its != nullptr);
  CHECK_THAT(its->text, Catch::Contains(std::string(table) + " is held by pid " + std::to_string(pid) +
                                        " (some worker, idle in transaction) for "));
  CHECK_THAT(its->next, Catch::Contains("pg_terminate_backend(" + std::to_string(pid) + ")"));
  CHECK(word_of(facts, "lease_expiry") == "locked");
  CHECK(finding(found, "lease_lapsed") != nullptr);

  somebody.execute("ROLLBACK");
  const explain::Facts later = stage.ask(id);
  CHECK(later.holders.empty());
  CHECK(word_of(later, "lease_expiry") == "due");
}

TEST_CASE("explain says what a row fails with") {
  ExplainStage stage;
  const Uuid id = stage.leased(-kMinute);
  stage.db.execute_script(
      "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
      " $$BEGIN RAISE EXCEPTION 'not this one' USING ERRCODE = '23514', DETAIL = 'a secret'; END$$;"
      "CREATE TRIGGER refuse BEFORE UPDATE ON ff_exec_core FOR EACH ROW EXECUTE FUNCTION refuse()");
  const explain::Facts facts = stage.ask(id);
  const auto found = explain::findings(facts);
  const explain::Finding* its = finding(found, "failed");
  REQUIRE(its != nullptr);
  CHECK_THAT(its->text, Catch::Contains("lease_expiry fails on it: ") &&
                            Catch::Contains("SQLSTATE 23514 check_violation") &&
                            Catch::Contains("not this one") && !Catch::Contains("secret"));
  CHECK(its->text.find("SQLSTATE") == its->text.rfind("SQLSTATE"));
  CHECK_THAT(its->next, Catch::Contains("tick lease_expiry"));
  CHECK(word_of(facts, "lease_expiry") == "failed");
}

TEST_CASE("explain says of one whose upstream's end cannot be passed on why, and holds no tick out to it") {
  ExplainStage stage;
  const FanIn made = fan_in(stage, {});
  const Uuid other = stage.core({.flow = made.flow, .state = blocked()});
  const int full = std::numeric_limits<std::int32_t>::max();
  insert_group(stage.db, {.flow = made.flow,
                          .downstream = other,
                          .policy = {{"kind", "all_of"}},
                          .success = full,
                          .running = 1});
  insert_edge(stage.db, {3}, made.flow, made.upstreams[0], other);
  end_upstream(stage.db, made, 0);
  for (const Uuid& waiting : {made.downstream, other}) {
    const auto found = explain::findings(stage.ask(waiting));
    const explain::Finding* its = finding(found, "upstream_not_dispatched");
    REQUIRE(its != nullptr);
    CHECK_THAT(its->text, Catch::Contains("dependency fails on it, for this one or for another") &&
                              Catch::Contains("SQLSTATE 22003"));
    CHECK_THAT(its->next, Catch::Contains("# once what the error names is mended"));
  }
  stage.db.execute("UPDATE ff_edge_group SET success_count = 0");
  const auto mended = found_of(stage, made.downstream);
  CHECK_THAT(text_of(mended, "upstream_not_dispatched"), !Catch::Contains("fails"));
}

TEST_CASE("explain says that storm control of a running daemon holds a lease that has lapsed") {
  ExplainStage stage;
  const Uuid id = stage.leased(-kMinute);
  explain::Facts facts = stage.ask(id);
  const auto storm_of = [&](std::string_view reconciler) -> std::optional<explain::StormHold>& {
    return std::ranges::find(facts.inspections, reconciler, &explain::Inspection::reconciler)->storm;
  };
  CHECK(finding(explain::findings(facts), "breaker_open") == nullptr);
  storm_of("lease_expiry") = {.open_for = Milliseconds{21'500}, .queued = 0};
  storm_of("suspension_timeout") = {.open_for = {}, .queued = 7};  // has nothing to do with it
  auto found = explain::findings(facts);
  REQUIRE(finding(found, "breaker_open") != nullptr);
  CHECK(found.front().cause == "breaker_open");
  CHECK(word_of(facts, "lease_expiry") == "held");
  for (const explain::Finding& each : found) CHECK_THAT(each.next, !Catch::Contains("tick lease_expiry"));
  CHECK_THAT(finding(found, "breaker_open")->text, Catch::Contains("takes no lease for 21.5 s more"));
  CHECK(finding(found, "queued") == nullptr);
  storm_of("lease_expiry") = {.open_for = {}, .queued = 4'711};
  found = explain::findings(facts);
  CHECK_THAT(finding(found, "queued")->text,
             Catch::Contains("4711 rows of lease_expiry wait for their turn"));
}

TEST_CASE("explain says that the filter leaves an execution out, and how to move it all the same") {
  ExplainStage stage;
  const Uuid id = stage.leased(-kMinute, Json::object(), {.raw_fields = origin("tenant-b", "i-2")});
  const auto next = [&] {
    const explain::Facts facts = stage.ask(id);
    CHECK(word_of(facts, "lease_expiry") == "filtered");
    const auto found = explain::findings(facts);
    const explain::Finding* its = finding(found, "filtered");
    REQUIRE(its != nullptr);
    return its->text + " " + its->next;
  };
  stage.filter = for_namespace("tenant-a");
  CHECK_THAT(next(), Catch::Contains("namespace tenant-a") && Catch::Contains("--namespace tenant-b"));
  stage.filter = for_tag("i-1");
  CHECK_THAT(next(), Catch::Contains("cairn.instance_id=i-1") && !Catch::Contains("--namespace"));
  // What is no part of the command is a comment.
  CHECK_THAT(next(), Catch::EndsWith("' # with the --config of a file that has not this filter"));

  // A name may hold anything, and the line is pasted into a shell.
  stage.set(id, "raw_fields = '{\"namespace\": \"b; reboot\"}'");
  stage.filter = for_namespace("tenant-a");
  CHECK_THAT(next(), Catch::EndsWith(" --namespace 'b; reboot'"));

  stage.filter = for_namespace("b; reboot");
  CHECK(word_of(stage.ask(id), "lease_expiry") == "due");
}

TEST_CASE("explain does not say that what the filter leaves out will be moved all the same") {
  ExplainStage stage;
  stage.filter = for_namespace("tenant-a");
  const auto other = [](State state, std::optional<std::int64_t> deadline_at_ms = {}) {
    return CoreRow{
        .state = std::move(state), .deadline_at_ms = deadline_at_ms, .raw_fields = origin("tenant-b", "i-2")};
  };
  const auto said = [&](const Uuid& id) {
    std::string all;
    for (const explain::Finding& each : explain::findings(stage.ask(id)))
      all += std::string(each.cause) + ": " + each.next + "\n";
    return all;
  };
  const Found lapsed = found_of(stage, stage.leased(-kMinute, Json::object(), other(active())));
  REQUIRE(lapsed.size() == 1);
  CHECK(lapsed[0].cause == "filtered");
  CHECK_THAT(said(stage.leased(kHour, Json::object(), other(active()))),
             Catch::Contains("lease_runs: wait: that worker is at work; its lease is not taken by a daemon"));
  CHECK_THAT(said(stage.core(other(delayed(), stage.now + kHour))),
             Catch::Contains("makes it claimable then -- but by its filter delayed_promoter leaves it out"));
  const Uuid over = stage.core(other(delayed(), stage.now - kHour));
  const std::string by_hand = "ff-reconcilerd tick delayed_promoter --execution '{fp:3}:" + to_string(over) +
                              "' --namespace tenant-b\n";
  CHECK(said(over) == "filtered: " + by_hand + "delay_over: " + by_hand);
  const Uuid promised = stage.core(other(runnable()));
  stage.set(promised, "eligibility_state = 'pending_claim'");
  stage.grant(promised, "claim", -kMinute);
  CHECK_THAT(said(promised), Catch::Contains("claim_abandoned: UPDATE ff_exec_core"));
}

TEST_CASE("explain says that a reconciler is switched off") {
  ExplainStage stage;
  stage.off = {"lease_expiry", "attempt_timeout"};
  const Uuid id = stage.leased(-kMinute);
  const auto found = explain::findings(stage.ask(id));
  const explain::Finding* its = finding(found, "switched_off");
  REQUIRE(its != nullptr);
  CHECK_THAT(its->next, Catch::Contains("tick lease_expiry --execution"));
}

TEST_CASE(
    "explain does not blame the one of the two that take leases which is off where the other one is on") {
  const bool expiry_off = GENERATE(true, false);
  ExplainStage stage;
  stage.off = {expiry_off ? "lease_expiry" : "attempt_timeout"};
  const std::string other = expiry_off ? "attempt_timeout" : "lease_expiry";
  // One that would be left to the one that is off, were it on.
  const Uuid id = stage.leased(-kHour, expiry_off ? Json::object() : Json{{"lease_reclaims", 3}});
  const Found found = found_of(stage, id);
  CHECK(finding(found, "switched_off") == nullptr);
  for (const explain::Finding& each : found)
    CHECK_THAT(each.next, !Catch::Contains("tick ") || Catch::Contains("tick " + other + " "));
  CHECK(finding(found, expiry_off ? "retries_spent" : "lease_lapsed") != nullptr);
}

TEST_CASE("explain says that it is not known what is paused, where a reconciler has a row of it") {
  ExplainStage stage;
  explain::Facts facts = stage.ask(stage.leased(-kMinute));
  CHECK(finding(explain::findings(facts), "pauses_unread") == nullptr);
  facts.pauses_unread = "no privilege";
  const auto found = explain::findings(facts);
  REQUIRE(finding(found, "pauses_unread") != nullptr);
  CHECK_THAT(finding(found, "pauses_unread")->text, Catch::Contains("not known: no privilege"));
  for (explain::Inspection& each : facts.inspections) each.rows.clear();
  CHECK(finding(explain::findings(facts), "pauses_unread") == nullptr);
}

TEST_CASE("explain finds an execution that is in another partition") {
  ExplainStage stage;
  const Uuid id = insert_core(stage.db, {.partition = {7}});
  const explain::Facts facts = stage.ask(id);
  CHECK_FALSE(facts.core);
  const auto found = explain::findings(facts);
  REQUIRE(finding(found, "not_found") != nullptr);
  CHECK_THAT(finding(found, "not_found")->next, Catch::Contains("explain '{fp:7}:" + to_string(id) + "'"));

  const auto of_none = explain::findings(stage.ask(new_uuid()));
  REQUIRE(finding(of_none, "not_found") != nullptr);
  CHECK_THAT(finding(of_none, "not_found")->next, !Catch::Contains("explain"));
}

TEST_CASE("explain counts the workers that could claim an execution") {
  ExplainStage stage;
  const Uuid id = stage.core({.state = runnable(), .lane = "gpu", .raw_fields = origin("a", "i")});
  stage.set(id, "required_capabilities = '{cuda}'");
  const auto worker = [&](const std::string& name_space, const std::string& lane,
                          const std::string& capabilities, std::int64_t heard_ago_ms) {
    insert(stage.db, "ff_worker_registry",
           {{"partition_key", 0},
            {"namespace", name_space},
            {"worker_instance_id", to_string(new_uuid())},
            {"worker_id", "w"},
            {"lanes", {lane}},
            {"capabilities_csv", capabilities},
            {"last_heartbeat_ms", stage.now - heard_ago_ms},
            {"liveness_ttl_ms", kHour},
            {"registered_at_ms", 0}});
  };
  worker("a", "default", "cuda", 0);
  worker("a", "gpu", "", 0);
  worker("a", "gpu", "cuda", 2 * kHour);
  worker("b", "gpu", "cuda", 0);
  const explain::Facts facts = stage.ask(id);
  CHECK(facts.workers.alive == 2);
  CHECK(facts.workers.for_lane == 1);
  CHECK(facts.workers.capable == 0);
  const auto found = explain::findings(facts);
  REQUIRE(finding(found, "unclaimed") != nullptr);
  CHECK_THAT(finding(found, "unclaimed")->next, Catch::Contains("start a worker"));

  worker("a", "gpu", "avx,cuda", 0);
  CHECK(stage.ask(id).workers.capable == 1);
}
