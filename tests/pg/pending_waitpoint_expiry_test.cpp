#include <catch2/catch.hpp>

#include "pg/transaction.hpp"
#include "sandbox/audit.hpp"
#include "sandbox/worker.hpp"
#include "support/still_stage.hpp"

using namespace ff;
using namespace ff::test;
using reconcile::RowKey;
using reconcile::Skip;
using reconcile::TickReport;

namespace {

constexpr std::int64_t kPast = kNow - 5000;

const reconcile::Reconciler& reconciler() {
  return *reconcile::find_reconciler("pending_waitpoint_expiry");
}

struct Stage : StillStage {
  Stage() : StillStage(reconciler()) {}

  /// A suspended execution.
  Uuid add_execution(const Json& raw_fields = Json::object()) {
    const Uuid id = insert_core(db, {.partition = {3}, .state = suspended(), .raw_fields = raw_fields});
    insert_suspension(db,
                      {.partition = {3}, .execution = id, .timeout_at_ms = kPast, .member_map = {{"m", 1}}});
    return id;
  }
  Uuid add(const Uuid& execution, const std::string& key = "", std::optional<std::int64_t> expires = kPast,
           PartitionKey partition = {3}) {
    return insert_waitpoint(
        db, {.partition = partition, .execution = execution, .expires_at_ms = expires, .waitpoint_key = key});
  }
  Json suspension(const Uuid& id) {
    return row(db, "SELECT * FROM ff_suspension_current WHERE partition_key = 3 AND execution_id = $1",
               pg::Params::of(id));
  }
  bool pending(const Uuid& waitpoint) {
    return number(db, "SELECT count(*) FROM ff_waitpoint_pending WHERE waitpoint_id = $1",
                  pg::Params::of(waitpoint)) == 1;
  }
};

RowKey key_of(const Uuid& waitpoint) {
  return {{3}, {to_string(waitpoint)}};
}

const Json kMark = {{"status", "never_committed"}, {"closed_at_ms", kNow}, {"source", "pending_wp_expiry"}};

}  // namespace

TEST_CASE(
    "pending_waitpoint_expiry closes a waitpoint, marks it in the suspension and touches nothing else") {
  Stage t;
  const Uuid id = t.add_execution();
  const Uuid neighbour = t.add_execution();
  t.add(id, "later", kNow + 60'000);
  t.add(id, "unlimited", std::nullopt);
  t.add(neighbour, "k", kNow + 60'000);
  // The same execution's number in another partition is another execution.
  insert_suspension(t.db, {.partition = {4}, .execution = id});
  const auto without = snapshot(t.db);
  const Uuid closed = t.add(id, "k");
  const Json before = t.suspension(id);

  const TickReport report = t.tick();
  CHECK(t.suspension(id) == changed(before, {{"member_map", {{"m", 1}, {"k", kMark}}}}));
  CHECK_FALSE(t.pending(closed));
  CHECK(diff(without, snapshot(t.db)).size() == 2);
  CHECK(outcomes(report) == "closed=1");
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK(report.skipped.empty());
}

TEST_CASE("pending_waitpoint_expiry names a waitpoint without a key by its uuid") {
  Stage t;
  const Uuid id = t.add_execution();
  const Uuid waitpoint = t.add(id);
  CHECK(t.tick().processed == 1);
  CHECK(t.suspension(id)["member_map"] == Json{{"m", 1}, {to_string(waitpoint), kMark}});
}

TEST_CASE("pending_waitpoint_expiry marks every one of many waitpoints that expire together") {
  const int batch_size = GENERATE(1, 2, 1000);
  Stage t;
  const Uuid first = t.add_execution();
  const Uuid second = t.add_execution();
  Json of_first = {{"m", 1}};
  Json of_second = {{"m", 1}};
  for (const char* key : {"a", "b", "c", "", ""}) {
    const std::string name(key);
    const Uuid one = t.add(first, name);
    const Uuid other = t.add(second, name);
    of_first[name.empty() ? to_string(one) : name] = kMark;
    of_second[name.empty() ? to_string(other) : name] = kMark;
  }
  t.add(first, "a");  // the same key twice is one mark
  CHECK(outcomes(t.tick({.batch_size = batch_size})) == "closed=11");
  CHECK(t.suspension(first)["member_map"] == of_first);
  CHECK(t.suspension(second)["member_map"] == of_second);
  CHECK(snapshot(t.db, "ff_waitpoint_pending").empty());
}

TEST_CASE("pending_waitpoint_expiry overwrites the member that the waitpoint stands for") {
  Stage t;
  const Uuid id = t.add_execution();
  t.add(id, "m");
  CHECK(t.tick().processed == 1);
  CHECK(t.suspension(id)["member_map"] == Json{{"m", kMark}});
}

TEST_CASE("pending_waitpoint_expiry makes an object of a member_map that is none") {
  const std::string odd = GENERATE("null", "5", "\"text\"", "true", "[]", "[{\"k\": 1}]", "{}");
  Stage t;
  const Uuid id = t.add_execution();
  t.add(id, "k");
  t.db.execute("UPDATE ff_suspension_current SET member_map = $1::jsonb", pg::Params::of(odd));
  CHECK(outcomes(t.tick()) == "closed=1");
  CHECK(t.suspension(id)["member_map"] == Json{{"k", kMark}});
}

TEST_CASE(
    "pending_waitpoint_expiry closes the waitpoints of executions without a suspension or without a core") {
  Stage t;
  t.add_execution();  // another's suspension, which is none of theirs
  const Uuid running = insert_core(t.db, {.partition = {3}});
  const Uuid ended = insert_core(t.db, {.partition = {3}, .state = terminal(), .terminal_at_ms = 5});
  const auto before = snapshot(t.db);
  for (const Uuid& id : {running, ended, new_uuid()}) t.add(id, "k");
  CHECK(outcomes(t.tick()) == "closed=3");
  CHECK(diff(before, snapshot(t.db)).empty());
  // Without a core nobody can say whose it was, so a filter does not match it.
  t.add(new_uuid(), "k", kPast);
  CHECK(t.tick({.filter = for_namespace("a")}).scanned == 0);
}

TEST_CASE("pending_waitpoint_expiry leaves a waitpoint open to the end of the last millisecond") {
  Stage t;
  const Uuid id = t.add_execution();
  const Uuid past = t.add(id, "past", kNow - 1);
  const Uuid present = t.add(id, "present", kNow);
  CHECK(act_on(t.db, reconciler(), {key_of(present)}).empty());
  const TickReport report = t.tick();
  CHECK(report.scanned == 1);
  CHECK(report.processed == 1);
  CHECK_FALSE(t.pending(past));
  CHECK(t.pending(present));
  CHECK(t.suspension(id)["member_map"] == Json{{"m", 1}, {"past", kMark}});
  CHECK(report.next_due == unix_millis(kNow + 1));
}

TEST_CASE(
    "pending_waitpoint_expiry skips what somebody holds of waitpoint and suspension and takes it later") {
  const std::string table = GENERATE("ff_waitpoint_pending", "ff_suspension_current");
  Stage t;
  const Uuid held_execution = t.add_execution();
  const Uuid held = t.add(held_execution, "k");
  const Uuid free = t.add(t.add_execution(), "k");
  const Json before = t.suspension(held_execution);
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM " + table + " WHERE execution_id = $1 FOR UPDATE",
                  pg::Params::of(held_execution));
  const TickReport report = t.tick();
  CHECK(outcomes(report) == "closed=1");
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(t.suspension(held_execution) == before);
  CHECK(t.pending(held));
  CHECK_FALSE(t.pending(free));
  holding.rollback();
  CHECK(outcomes(t.tick()) == "closed=1");
  CHECK_FALSE(t.pending(held));
}

TEST_CASE("pending_waitpoint_expiry closes a waitpoint while another of its execution is held") {
  Stage t;
  const Uuid id = t.add_execution();
  t.add(id, "held");
  t.add(id, "free");
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_waitpoint_pending WHERE waitpoint_key = 'held' FOR UPDATE");
  CHECK(t.tick().processed == 1);
  CHECK(t.suspension(id)["member_map"] == Json{{"m", 1}, {"free", kMark}});
  holding.rollback();
  CHECK(t.tick().processed == 1);
  CHECK(t.suspension(id)["member_map"] == Json{{"m", 1}, {"free", kMark}, {"held", kMark}});
}

TEST_CASE("pending_waitpoint_expiry does not mind who holds the core or refers to the suspension's key") {
  Stage t;
  t.add(t.add_execution(), "k");
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_exec_core FOR UPDATE");
  holding.execute("SELECT FROM ff_suspension_current FOR KEY SHARE");
  CHECK(outcomes(t.tick()) == "closed=1");
}

TEST_CASE("pending_waitpoint_expiry leaves a waitpoint alone that is committed between looking and acting") {
  Stage t;
  const Uuid id = t.add_execution();
  t.add(id, "k");
  const Json before = t.suspension(id);
  const SteppingInClock clock(SteppingInClock::kBeforeActing,
                              [&] { t.db.execute("DELETE FROM ff_waitpoint_pending"); });
  CHECK(t.tick({.clock = &clock}).skipped == std::map<Skip, std::int64_t>{{Skip::no_longer_due, 1}});
  CHECK(t.suspension(id) == before);
}

TEST_CASE(
    "pending_waitpoint_expiry goes by the filter of the execution and is not disturbed by odd raw_fields") {
  Stage t;
  const Uuid mine = t.add(t.add_execution(origin("a", "1")), "k");
  std::vector<Uuid> others;
  for (const Json& raw_fields : {origin("b", "1"), origin("a", "2"), Json(5), Json("text"),
                                 Json::array({"namespace"}), Json{{"namespace", 5}, {"tags", {1, 2}}}})
    others.push_back(t.add(t.add_execution(raw_fields), "k"));
  const auto filter = for_both("a", {"cairn.instance_id", "1"});
  for (const Uuid& waitpoint : others) CHECK(act_on(t.db, reconciler(), {key_of(waitpoint)}, filter).empty());
  CHECK(t.tick({.filter = filter}).scanned == 1);
  CHECK_FALSE(t.pending(mine));
  CHECK(outcomes(t.tick()) == "closed=6");
}

TEST_CASE("pending_waitpoint_expiry changes nothing when it runs again") {
  Stage t;
  t.add(t.add_execution(), "k");
  REQUIRE(t.tick().processed == 1);
  const auto after = snapshot(t.db);
  CHECK(t.tick().scanned == 0);
  CHECK(diff(after, snapshot(t.db)).empty());
}

TEST_CASE("a worker's expired waitpoints are closed and its suspension goes on in order") {
  const Database database;
  auto db = database.connect();
  sandbox::Worker worker(db, "w1", Milliseconds{30'000});
  const auto id = sandbox::create(db, {.partition = {3}});
  REQUIRE(worker.suspend(worker.claim_one(id).value(),
                         {.waitpoints = {{.key = "a", .expires_in = Milliseconds{-1000}},
                                         {.expires_in = Milliseconds{-1000}},
                                         {.key = "b"}}}));
  EngineFixture engine(database, "pending_waitpoint_expiry");
  CHECK(outcomes(engine->tick()) == "closed=2");
  CHECK(snapshot(db, "ff_waitpoint_pending").size() == 1);
  CHECK(row(db, "SELECT member_map FROM ff_suspension_current")["member_map"].size() == 2);
  CHECK(sandbox::audit(db).empty());
}

TEST_CASE("pending_waitpoint_expiry tells executions of the same number in two partitions apart") {
  Stage t;
  const Uuid id = t.add_execution();
  const Uuid waitpoint = t.add(id, "k");
  insert_suspension(t.db, {.partition = {4}, .execution = id});
  insert_waitpoint(t.db, {.partition = {4}, .waitpoint = waitpoint, .execution = id, .expires_at_ms = kNow});
  const auto twin = "SELECT * FROM ff_suspension_current WHERE partition_key = 4 AND execution_id = $1";
  const Json before = row(t.db, twin, pg::Params::of(id));
  // Due as well, so that one statement is about both partitions.
  const Uuid stranger = new_uuid();
  t.add(stranger, "k", kPast, {4});
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_suspension_current WHERE partition_key = 4 FOR UPDATE");
  CHECK(outcomes(t.tick()) == "closed=2");
  CHECK(row(t.db, twin, pg::Params::of(id)) == before);
  CHECK(number(t.db, "SELECT partition_key::bigint FROM ff_waitpoint_pending") == 4);
  holding.rollback();
  // One without a suspension does not wait for that of its namesake, nor does it write there.
  insert_suspension(t.db, {.partition = {3}, .execution = stranger});
  t.add(stranger, "k", kPast, {4});
  t.add(new_uuid(), "k");
  pg::Transaction again(other);
  again.execute("SELECT FROM ff_suspension_current WHERE partition_key = 3 FOR UPDATE");
  CHECK(outcomes(t.tick()) == "closed=2");
  CHECK(t.suspension(stranger)["member_map"] == Json::object());
  again.rollback();
  const Uuid both = t.add(stranger, "both");
  insert_waitpoint(t.db, {.partition = {4}, .waitpoint = both, .execution = id, .expires_at_ms = kPast});
  CHECK(outcomes(t.tick()) == "closed=2");
}

TEST_CASE(
    "pending_waitpoint_expiry waits for a suspension although one of the same number elsewhere is free") {
  Stage t;
  const Uuid id = t.add_execution();
  insert_suspension(t.db, {.partition = {4}, .execution = id});
  const Uuid held = t.add(id, "k");
  t.add(id, "k", kPast, {4});
  auto other = t.database.connect();
  pg::Transaction holding(other);
  holding.execute("SELECT FROM ff_suspension_current WHERE partition_key = 3 FOR UPDATE");
  const TickReport report = t.tick();
  CHECK(report.processed == 1);
  CHECK(report.skipped == std::map<Skip, std::int64_t>{{Skip::locked, 1}});
  CHECK(t.pending(held));
}

TEST_CASE("pending_waitpoint_expiry closes the waitpoints of a single execution by hand") {
  Stage t;
  const Uuid id = t.add_execution();
  const Uuid mine = t.add(id, "k");
  const Uuid other = t.add(t.add_execution(), "k");
  EngineFixture engine(t.database, "pending_waitpoint_expiry");
  CHECK(outcomes(engine->tick_one({{3}, id})) == "closed=1");
  CHECK_FALSE(t.pending(mine));
  CHECK(t.pending(other));
}
