// cancel_backlog: what becomes of each member of a cancelled flow, and of the backlog.
#include <catch2/catch.hpp>
#include <limits>

#include "cancel_stage.hpp"
#include "pg/transaction.hpp"
#include "support/plan.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

struct Stage : CancelStage {
  Uuid add_flow(const std::string& policy = "cancel_all", std::int64_t requested_at_ms = kLongAgo) {
    const Uuid flow = new_uuid();
    insert(db, "ff_cancel_backlog",
           {{"partition_key", 3},
            {"flow_id", to_string(flow)},
            {"requested_at_ms", requested_at_ms},
            {"reason", "operator"},
            {"cancellation_policy", policy}});
    return flow;
  }
  void add_row(const Uuid& flow, const std::string& member) {
    insert(db, "ff_cancel_backlog_member",
           {{"partition_key", 3}, {"flow_id", to_string(flow)}, {"execution_id", member}});
  }
  Uuid add_member(const Uuid& flow, const State& state, std::optional<std::int64_t> terminal_at_ms = kLongAgo,
                  const Json& raw_fields = origin("n", "i")) {
    const Uuid id = add_core(flow, state, terminal_at_ms, raw_fields);
    add_row(flow, "{fp:3}:" + to_string(id));
    return id;
  }
  /// Executions that the header has cancelled, each with a lease.
  void add_many(const Uuid& flow, std::int64_t lease, int count) {
    db.execute(
        "WITH m AS (SELECT gen_random_uuid() AS id FROM generate_series(1, $2)), c AS (INSERT INTO "
        "ff_exec_core"
        " (partition_key, execution_id, flow_id, lane_id, lifecycle_phase, ownership_state, "
        "eligibility_state,"
        " public_state, attempt_state, created_at_ms, terminal_at_ms) SELECT 3, id, $1, 'default', "
        "'cancelled',"
        " 'leased', 'cancelled', 'cancelled', 'running_attempt', 0, $3 FROM m), a AS (INSERT INTO ff_attempt"
        " (partition_key, execution_id, attempt_index, lease_epoch, lease_expires_at_ms)"
        " SELECT 3, id, 0, 1, $4 FROM m)"
        " INSERT INTO ff_cancel_backlog_member SELECT 3, $1, '{fp:3}:' || id FROM m",
        pg::Params::of(flow, count, kLongAgo, lease));
  }
  std::int64_t members() { return number(db, "SELECT count(*) FROM ff_cancel_backlog_member"); }
  std::int64_t flows() { return number(db, "SELECT count(*) FROM ff_cancel_backlog"); }
};

Json cancelled_for_good(const Json& core, std::int64_t at) {
  Json raw = core["raw_fields"];
  raw["completion_repaired_for"] = at;
  return changed(core, {{"lifecycle_phase", "cancelled"},
                        {"ownership_state", "unowned"},
                        {"eligibility_state", "not_applicable"},
                        {"public_state", "cancelled"},
                        {"attempt_state", "cancelled"},
                        {"terminal_at_ms", at},
                        {"cancellation_reason", "operator"},
                        {"cancelled_by", "cancel_backlog"},
                        {"raw_fields", raw}});
}

}  // namespace

TEST_CASE(
    "cancel_backlog takes all that a cancelled member has, tells its end once, and clears the backlog") {
  Stage t;
  const Uuid flow = t.add_flow();
  const Uuid id = t.add_member(flow, kHeaderCancelled);
  t.lease(id, kNow + 60'000, 1);
  t.lease(id, kNow + 60'000, 0);
  insert_suspension(t.db, {.partition = {3}, .execution = id});
  insert_waitpoint(t.db, {.partition = {3}, .execution = id});
  const Uuid bystander = insert_core(t.db, {.partition = {3}, .flow = flow});
  t.lease(bystander, kNow + 60'000);
  const Json core_before = core(t.db, id);
  const Json attempt_before = attempt(t.db, id, 1);
  const auto before = snapshot(t.db);

  CHECK(outcomes(t.tick()) == "flow_done=1 member_cancelled=1");

  CHECK(core(t.db, id) == cancelled_for_good(core_before, kLongAgo));
  CHECK(attempt(t.db, id, 1) == changed(attempt_before, {{"outcome", "cancelled"},
                                                         {"lease_expires_at_ms", nullptr},
                                                         {"lease_epoch", 8},
                                                         {"terminal_at_ms", kNow}}));
  CHECK(attempt(t.db, id, 0)["lease_epoch"] == 8);
  const Json lease_event = {{"partition_key", 3},      {"execution_id", to_string(id)},
                            {"event_type", "revoked"}, {"occurred_at_ms", kNow},
                            {"namespace", "n"},        {"instance_tag", "i"},
                            {"lease_id", nullptr}};
  CHECK(lease_events(t.db) == Json::array({lease_event, lease_event}));
  CHECK(completion_events(t.db) == Json::array({{{"partition_key", 3},
                                                 {"execution_id", to_string(id)},
                                                 {"flow_id", to_string(flow)},
                                                 {"outcome", "cancelled"},
                                                 {"namespace", "n"},
                                                 {"instance_tag", "i"},
                                                 {"occurred_at_ms", kLongAgo},
                                                 {"dispatched_at_ms", nullptr}}}));
  // The core and two attempts gone and come, suspension, waitpoint, member and backlog gone, three events come.
  CHECK(diff(before, snapshot(t.db)).size() == 13);
  const auto after = snapshot(t.db);
  CHECK(t.tick().scanned == 0);
  CHECK(diff(after, snapshot(t.db)).empty());
}

TEST_CASE("cancel_backlog leaves a flow alone until its grace is over, and a date in the future comes") {
  Stage t;
  const std::int64_t requested = GENERATE(kNow - kGrace, kNow + 1000);
  const Uuid flow = t.add_flow("cancel_all", requested);
  t.add_member(flow, kHeaderCancelled);
  const TickReport report = t.tick();
  CHECK(report.processed == 0);
  CHECK(report.next_due == unix_millis(requested + kGrace + 1));
  t.db.execute("UPDATE ff_cancel_backlog SET requested_at_ms = $1, grace_until_ms = $2",
               pg::Params::of(kNow - kGrace - 1, kNow - kGrace));
  CHECK(t.tick().processed == 0);
  t.db.execute("UPDATE ff_cancel_backlog SET grace_until_ms = NULL");
  CHECK(outcomes(t.tick()) == "flow_done=1 member_cancelled=1");
}

TEST_CASE("cancel_backlog lets the worker of a member finish under every policy but cancel_all") {
  Stage t;
  const std::string policy = GENERATE("flow_only", "cancel_pending", "a_word_that_nobody_knows");
  const Uuid flow = t.add_flow(policy);
  const Uuid working = t.add_member(flow, kHeaderCancelled);
  t.lease(working, kNow);
  const Uuid waiting = t.add_member(flow, {"cancelled", "unowned", "cancelled", "cancelled", "pending"});
  const Json working_before = core(t.db, working);
  const TickReport report = t.tick();
  CHECK(outcomes(report) == "member_cancelled=1");
  CHECK(report.next_due == unix_millis(kNow + 1));
  CHECK(core(t.db, working) == working_before);
  CHECK(core(t.db, waiting)["cancelled_by"] == "cancel_backlog");
  CHECK(t.members() == 1);
  CHECK(t.flows() == 1);
  t.db.execute("UPDATE ff_attempt SET lease_expires_at_ms = $1", pg::Params::of(kNow - 1));
  CHECK(outcomes(t.tick()) == "flow_done=1 member_cancelled=1");
  CHECK(core(t.db, working) == cancelled_for_good(working_before, kLongAgo));
}

TEST_CASE("cancel_backlog lets no worker finish once its flow was cancelled anew under cancel_all") {
  Stage t;
  const Uuid flow = t.add_flow("cancel_pending");
  const Uuid working = t.add_member(flow, kHeaderCancelled);
  t.lease(working, kNow + 60'000);
  const auto of_flow = [&](const std::string& policy) {
    insert(t.db, "ff_flow_core",
           {{"partition_key", 3},
            {"flow_id", to_string(flow)},
            {"public_flow_state", "cancelled"},
            {"created_at_ms", 0},
            {"terminal_at_ms", kLongAgo},
            {"raw_fields", {{"cancellation_policy", policy}}}});
  };
  of_flow("cancel_pending");
  CHECK(t.tick().processed == 0);
  t.db.execute("DELETE FROM ff_flow_core");
  of_flow("cancel_all");
  CHECK(outcomes(t.tick()) == "flow_done=1 member_cancelled=1");
  CHECK(core(t.db, working)["public_state"] == "cancelled");
  CHECK(lease_events(t.db).size() == 1);
}

TEST_CASE("cancel_backlog takes a lease from before all time for lapsed") {
  Stage t;
  const Uuid flow = t.add_flow("flow_only");
  const Uuid id = t.add_member(flow, kHeaderCancelled);
  t.lease(id, std::numeric_limits<std::int64_t>::min());
  t.add_member(flow, kHeaderCancelled);
  CHECK(outcomes(t.tick()) == "flow_done=1 member_cancelled=2");
  CHECK(attempt(t.db, id)["lease_expires_at_ms"].is_null());
}

TEST_CASE("cancel_backlog leaves a member alone whose lease is renewed between its scan and its act") {
  Stage t;
  const Uuid flow = t.add_flow("flow_only");
  const Uuid working = t.add_member(flow, kHeaderCancelled);
  t.lease(working, kNow - 1);
  t.check_left_alone_after("UPDATE ff_attempt SET lease_expires_at_ms = $1", pg::Params::of(kNow + 60'000));
}

TEST_CASE("cancel_backlog cancels a member that goes on where the policy or a signal's revival says so") {
  struct Case {
    const char* policy;
    std::optional<std::int64_t> signalled_at;
    const char* outcome;
    const char* public_state = "running";
  };
  const Case its = GENERATE(
      Case{"cancel_all", std::nullopt, "member_cancelled"}, Case{"flow_only", kLongAgo, "member_cancelled"},
      Case{"flow_only", kLongAgo - 1, "member_left"}, Case{"flow_only", std::nullopt, "member_left"},
      // By a clock that is behind that of whoever cancelled.
      Case{"flow_only", kLongAgo - 1, "member_cancelled", "resumable"});
  Stage t;
  const Uuid flow = t.add_flow(its.policy);
  State going = active();
  going.public_state = its.public_state;
  const Uuid id = t.add_member(flow, going, std::nullopt);
  t.lease(id, kNow + 60'000);
  if (its.signalled_at) t.add_event(id, "resumable", *its.signalled_at);
  const Json before = core(t.db, id);
  CHECK(outcomes(t.tick()) == "flow_done=1 " + std::string(its.outcome) + "=1");
  const bool ends = its.outcome == std::string("member_cancelled");
  CHECK(core(t.db, id) == (ends ? cancelled_for_good(before, kNow) : before));
  CHECK(attempt(t.db, id)["lease_epoch"] == (ends ? 8 : 7));
  CHECK(number(t.db, "SELECT count(*) FROM ff_completion_event WHERE outcome = 'cancelled'") ==
        (ends ? 1 : 0));
}

TEST_CASE("cancel_backlog leaves a member to the operator who has replayed it since the cancel") {
  const std::string policy = GENERATE("cancel_all", "flow_only");
  const std::int64_t replayed_at = GENERATE(as<std::int64_t>{}, kLongAgo, kLongAgo + 1);
  Stage t;
  const Uuid flow = t.add_flow(policy);
  const Uuid id = t.add_member(flow, active(), std::nullopt, {{"replay_count", 1}});
  t.lease(id, kNow + 60'000);
  t.add_event(id, "failed", kLongAgo + 1);
  t.add_event(id, "resumable", kLongAgo + 2);  // it was suspended in its new run
  insert(t.db, "ff_operator_event",
         {{"partition_key", 3},
          {"execution_id", to_string(id)},
          {"event_type", "replayed"},
          {"occurred_at_ms", replayed_at}});
  const Json before = core(t.db, id);
  const bool is_since = replayed_at > kLongAgo;
  CHECK(outcomes(t.tick()) == (is_since ? "flow_done=1 member_left=1" : "flow_done=1 member_cancelled=1"));
  CHECK((core(t.db, id) == before) == is_since);
  CHECK(attempt(t.db, id)["lease_epoch"] == (is_since ? 7 : 8));
}

TEST_CASE("cancel_backlog deletes the row of a member that has ended, is no more, or never was one") {
  Stage t;
  const Uuid flow = t.add_flow();
  const Uuid ended = t.add_member(flow, terminal());
  t.add_row(flow, "{fp:3}:" + to_string(new_uuid()));
  const Uuid elsewhere = insert_core(t.db, {.partition = {3}, .flow = flow});
  for (const std::string& text : {"{fp:4}:" + to_string(elsewhere), to_string(elsewhere), std::string(),
                                  "{fp:3}:x" + to_string(elsewhere), std::string("{fp:3}:nobody")})
    t.add_row(flow, text);
  const Json ended_before = core(t.db, ended);
  const Json elsewhere_before = core(t.db, elsewhere);
  CHECK(outcomes(t.tick()) == "flow_done=1 malformed=5 member_gone=2");
  CHECK(core(t.db, ended) == ended_before);
  CHECK(core(t.db, elsewhere) == elsewhere_before);
  CHECK(completion_events(t.db).empty());
}

TEST_CASE("cancel_backlog tells no end a second time") {
  Stage t;
  const Uuid flow = t.add_flow();
  const Uuid told = t.add_member(flow, kHeaderCancelled);
  t.add_event(told, "success", kLongAgo);
  t.add_member(flow, kHeaderCancelled, kLongAgo, {{"completion_repaired_for", kLongAgo}});
  const Uuid resumed = t.add_member(flow, kHeaderCancelled);
  t.add_event(resumed, "resumable", kLongAgo + 1);
  // A worker's cancel has dated the end anew.
  t.add_event(t.add_member(flow, kHeaderCancelled), "cancelled", kLongAgo - 1);
  const Uuid of_former_run = t.add_member(flow, kHeaderCancelled, kLongAgo, {{"replay_count", 1}});
  t.add_event(of_former_run, "failed", kLongAgo - 1);
  CHECK(outcomes(t.tick()) == "flow_done=1 member_cancelled=5");
  CHECK(number(t.db, "SELECT count(*) FROM ff_completion_event WHERE outcome = 'cancelled'") == 3);
  for (const Uuid& id : {resumed, of_former_run})
    CHECK(number(t.db,
                 "SELECT count(*) FROM ff_completion_event WHERE execution_id = $1 AND outcome = 'cancelled'",
                 pg::Params::of(id)) == 1);
}

TEST_CASE("cancel_backlog raises the epoch of a current attempt without a lease and keeps what is written") {
  Stage t;
  const Uuid flow = t.add_flow();
  const Uuid id = t.add_member(flow, kHeaderCancelled);
  insert_attempt(t.db, {.partition = {3}, .execution = id, .lease_epoch = 7, .outcome = "retry"});
  t.db.execute("UPDATE ff_exec_core SET cancellation_reason = 'why', cancelled_by = 'cancel_flow_header'");
  const Json before = attempt(t.db, id);
  CHECK(outcomes(t.tick()) == "flow_done=1 member_cancelled=1");
  CHECK(attempt(t.db, id) == changed(before, {{"lease_epoch", 8}, {"terminal_at_ms", kNow}}));
  CHECK(lease_events(t.db).empty());
  CHECK(core(t.db, id)["cancellation_reason"] == "why");
  CHECK(core(t.db, id)["cancelled_by"] == "cancel_flow_header");
}

TEST_CASE("cancel_backlog leaves a member with its row of which others hold anything") {
  const std::string table =
      GENERATE("ff_exec_core", "ff_attempt", "ff_suspension_current", "ff_waitpoint_pending");
  CAPTURE(table);
  Stage t;
  const Uuid flow = t.add_flow();
  const Uuid held = t.add_member(flow, kHeaderCancelled);
  t.lease(held, kNow + 60'000);
  insert_suspension(t.db, {.partition = {3}, .execution = held});
  insert_waitpoint(t.db, {.partition = {3}, .execution = held});
  t.add_member(flow, kHeaderCancelled);
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM " + table + " WHERE execution_id = $1 FOR UPDATE", pg::Params::of(held));
  const TickReport report = t.tick();
  CHECK(outcomes(report) == "member_cancelled=1");
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(t.members() == 1);
  CHECK(t.flows() == 1);
  holding.rollback();
  CHECK(outcomes(t.tick()) == "flow_done=1 member_cancelled=1");
}

TEST_CASE("cancel_backlog takes a member that two rows name once") {
  Stage t;
  const Uuid flow = t.add_flow();
  const Uuid id = t.add_member(flow, kHeaderCancelled);
  t.lease(id, kNow + 60'000);
  const Uuid other = t.add_flow();
  t.add_row(other, "{fp:3}:" + to_string(id));
  t.tick();
  t.tick();
  CHECK(t.members() == 0);
  CHECK(t.flows() == 0);
  CHECK(attempt(t.db, id)["lease_epoch"] == 9);
  CHECK(lease_events(t.db).size() == 1);
  CHECK(completion_events(t.db).size() == 1);
}

TEST_CASE("cancel_backlog goes on through a flow of many members, and past those that are left") {
  Stage t;
  const Uuid working = t.add_flow("flow_only");
  const Uuid flow = t.add_flow();
  t.add_many(working, kNow + 60'000, 60);
  t.add_many(flow, kNow + 60'000, 130);
  CHECK(outcomes(t.tick({.batch_size = 20})) == "flow_done=1 member_cancelled=130");
  CHECK(t.members() == 60);
}

TEST_CASE("cancel_backlog goes on through a very large flow, and past those that are left") {
  Stage t;
  const Uuid flow = t.add_flow("flow_only");
  t.add_many(flow, kNow + 60'000, 150);
  t.add_many(flow, kNow - 1, 2300);
  // The first of them: once few are left, they have another stretch, and who was tried last is called no longer due.
  const auto held = t.db.execute(
                            "SELECT execution_id FROM ff_attempt WHERE lease_expires_at_ms = $1"
                            " ORDER BY execution_id LIMIT 1",
                            pg::Params::of(kNow - 1))
                        .one()
                        .get<Uuid>(0);
  // Where one stretch ends and another begins, before all and behind all, and in another writing.
  for (const std::string& text : {std::string(), std::string("{fp:3}:00"), std::string("{fp:3}:a7"),
                                  std::string("{fp:3}:ff"), std::string("zzz"), std::string("{fp:3}:FF"),
                                  "{fp:4}:" + to_string(held), std::string("{fp:3}:\u00e9")})
    t.add_row(flow, text);
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_exec_core WHERE execution_id = $1 FOR UPDATE", pg::Params::of(held));
  TickReport report = t.tick({.batch_size = GENERATE(70, 1000)});
  CHECK(outcomes(report) == "malformed=8 member_cancelled=2299");
  CHECK(report.scanned >= 2308);
  CHECK(t.members() == 151);
  CHECK(report.skipped[Skip::locked] >= 1);
  holding.rollback();
  t.db.execute("UPDATE ff_attempt SET lease_expires_at_ms = $1 WHERE lease_expires_at_ms IS NOT NULL",
               pg::Params::of(kNow - 1));
  CHECK(outcomes(t.tick()) == "flow_done=1 member_cancelled=151");
}

// Of one flow, at the beginning and far behind it: what a page costs must not rise with the members.
TEST_CASE("cancel_backlog reads no more members for a page than it shows, however many there are") {
  constexpr int kMembers = 20'000;
  constexpr int kLimit = 20;
  constexpr double kProbe =
      2 * 251 + 1;  // so many tell that partition and flow have many, and which is the last
  Stage t;
  const Uuid flow = t.add_flow(GENERATE("cancel_all", "cancel_pending"));
  t.add_many(flow, kNow - 1, kMembers);
  if (GENERATE(false, true)) t.db.execute_script("ANALYZE");
  const reconcile::Reconciler& reconciler = *reconcile::find_reconciler("cancel_backlog");
  const reconcile::Statements statements(reconciler);
  const auto params = page_params(reconciler, {{3}}, Milliseconds{0}, kLimit);
  for (const Partitions& group : {Partitions{{3}}, sixteen_partitions()}) {
    auto read = rows_read(run_plan_of(t.db, statements.page.over(group), params, pg::Plan::generic));
    CHECK(read["ff_cancel_backlog_member"] <= kProbe + 2 * kLimit);
    CHECK(read["ff_attempt"] <= 2 * kLimit);
    CHECK(read["ff_exec_core"] <= 2 * kLimit);
    // Behind a row that has stayed: the stretch that it is in, and the next.
    auto behind = page_params(reconciler, {{3}}, Milliseconds{0}, kLimit, {}, kLongAgo);
    behind.add(std::string("130")).add(to_string(flow)).add(std::string("{fp:3}:81"));
    read = rows_read(run_plan_of(t.db, statements.rest.over(group), behind, pg::Plan::generic));
    CHECK(read["ff_attempt"] <= 2.0 * kMembers / 256 + 10 * kLimit);
    CHECK(read["ff_exec_core"] <= 2.0 * kMembers / 256 + 10 * kLimit);
    CHECK(read["ff_cancel_backlog_member"] <= kProbe + 2.0 * kMembers / 256 + 10 * kLimit);
  }
}
