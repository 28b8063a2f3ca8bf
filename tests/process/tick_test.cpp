// `tick`: one pass by hand. Its JSON and its exit codes are contracts.
#include <catch2/catch.hpp>
#include <set>

#include "support/database.hpp"
#include "support/engine.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;

namespace {

struct Bench {
  Ended tick(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "tick");
    return run_binary(std::move(arguments), {{"FF_DATABASE_URL", database.conninfo()}});
  }
  Uuid lapsed(std::int16_t partition = 0, const Json& raw_fields = Json::object(),
              const Json& policy = max_retries(3)) {
    const Uuid id = insert_core(db, {.partition = {partition}, .policy = policy, .raw_fields = raw_fields});
    insert_attempt(db, {.partition = {partition}, .execution = id, .lease_expires_at_ms = now_ms(db) - 1000});
    return id;
  }
  bool moved(const Uuid& id) { return core(db, id)["lifecycle_phase"] != "active"; }
  std::string name(const Uuid& id) {
    return "{fp:" + std::to_string(core(db, id)["partition_key"].get<int>()) + "}:" + to_string(id);
  }

  Database database;
  pg::Connection db = database.connect();
};

std::vector<Json> lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<Json> all;
  for (std::string line; std::getline(stream, line);) all.push_back(Json::parse(line));
  return all;
}

std::set<std::string> keys(const Json& object) {
  std::set<std::string> all;
  for (const auto& [key, value] : object.items()) all.insert(key);
  return all;
}

const std::set<std::string> kLine{"reconciler", "partitions", "scanned",          "processed", "skipped",
                                  "errors",     "outcomes",   "duration_seconds", "dry_run"};

}  // namespace

TEST_CASE("tick moves what is due and says so to people") {
  Bench bench;
  const Uuid id = bench.lapsed(200);
  const Ended done = bench.tick({"attempt_timeout"});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  CHECK_THAT(done.out, Catch::StartsWith("attempt_timeout: 1 due, 1 moved in "));
  CHECK_THAT(done.out, Catch::Contains(" retried=1\n"));
  CHECK_THAT(done.out, Catch::EndsWith("nothing is left due\n"));
  CHECK(bench.moved(id));
  const Ended again = bench.tick({"attempt_timeout"});
  CHECK(again.code == 0);
  CHECK_THAT(again.out, Catch::StartsWith("attempt_timeout: 0 due, 0 moved in "));
}

TEST_CASE("tick goes on until the last slice of a large flow is gone") {
  Bench bench;
  bench.db.execute(
      "INSERT INTO ff_flow_core (partition_key, flow_id, public_flow_state, created_at_ms)"
      " VALUES (3, gen_random_uuid(), 'open', 1)");
  bench.db.execute(
      "INSERT INTO ff_exec_core (partition_key, execution_id, flow_id, lane_id, lifecycle_phase, "
      "ownership_state,"
      "  eligibility_state, public_state, attempt_state, created_at_ms, terminal_at_ms)"
      " SELECT 3, gen_random_uuid(), flow_id, 'default', 'terminal', 'unowned', 'not_applicable', "
      "'completed',"
      "  'attempt_terminal', 1, 1 FROM ff_flow_core, generate_series(1, 2100)");
  const Ended done = bench.tick({"execution_retention"});
  CHECK(done.code == 0);
  CHECK_THAT(done.out, Catch::Contains(" flows_deleted=1\n"));
  CHECK_THAT(done.out, Catch::EndsWith("nothing is left due\n"));
  CHECK(number(bench.db, "SELECT count(*) FROM ff_exec_core") == 0);
}

TEST_CASE("tick --json is one object a line with exactly the keys that scripts rely on") {
  Bench bench;
  bench.lapsed(1);
  bench.lapsed(2, Json::object(), Json(nullptr));
  const Ended done = bench.tick({"attempt_timeout", "--json", "--partitions", "0-3,7"});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  const auto all = lines(done.out);
  REQUIRE(all.size() == 1);
  const Json& line = all[0];
  CHECK(keys(line) == kLine);
  CHECK(line["reconciler"] == "attempt_timeout");
  CHECK(line["partitions"] == "0-3,7");
  CHECK(line["scanned"] == 2);
  CHECK(line["processed"] == 2);
  CHECK(line["skipped"] == Json{{"locked", 0}, {"no_longer_due", 0}, {"quarantined", 0}});
  CHECK(line["errors"] == 0);
  CHECK(line["outcomes"] == Json{{"retried", 1}, {"expired", 1}});
  CHECK(line["duration_seconds"].is_number_float());
  CHECK(line["dry_run"] == false);
}

TEST_CASE("tick all --json has a line for each reconciler") {
  Bench bench;
  bench.lapsed();
  const Ended done = bench.tick({"all", "--json"});
  CHECK(done.code == 0);
  std::set<std::string> reconcilers;
  std::int64_t processed = 0;
  for (const Json& line : lines(done.out)) {
    CHECK(keys(line) == kLine);
    reconcilers.insert(line["reconciler"].get<std::string>());
    processed += line["processed"].get<std::int64_t>();
  }
  CHECK(reconcilers.contains("attempt_timeout"));
  CHECK(reconcilers.contains("lease_expiry"));
  CHECK(processed == 1);
}

TEST_CASE("tick --dry-run lists each row and writes nothing") {
  Bench bench;
  const Uuid id = bench.lapsed(3);
  const auto before = snapshot(bench.db);
  const std::int64_t due_at = attempt(bench.db, id)["lease_expires_at_ms"];

  const auto all = lines(bench.tick({"attempt_timeout", "--dry-run", "--json"}).out);
  REQUIRE(all.size() == 2);
  CHECK(all[0] == Json{{"reconciler", "attempt_timeout"},
                       {"would", "retried"},
                       {"partition", 3},
                       {"key", {{"execution_id", to_string(id)}, {"attempt_index", 0}}},
                       {"execution", "{fp:3}:" + to_string(id)},
                       {"due_at_ms", due_at}});
  CHECK(keys(all[1]) == kLine);
  CHECK(all[1]["dry_run"] == true);
  CHECK(all[1]["processed"] == 1);

  const Ended text = bench.tick({"attempt_timeout", "--dry-run"});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Catch::Contains("would retried") &&
                           Catch::Contains(" '{fp:3}:" + to_string(id) + "' due_at_ms=") &&
                           Catch::Contains("1 due, 1 would move"));
  CHECK(diff(before, snapshot(bench.db)).empty());
}

TEST_CASE("tick --dry-run names each row that would fail, and why") {
  Bench bench;
  const Uuid id = bench.lapsed(3);
  bench.lapsed(4);
  bench.db.execute_script(
      "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS"
      " $$BEGIN RAISE EXCEPTION 'not this one' USING ERRCODE = '22012'; END$$;"
      "CREATE TRIGGER poison BEFORE UPDATE ON ff_attempt FOR EACH ROW WHEN (old.partition_key = 3)"
      " EXECUTE FUNCTION poison()");
  const Ended json = bench.tick({"attempt_timeout", "--dry-run", "--json"});
  CHECK(json.code == 1);
  const auto all = lines(json.out);
  REQUIRE(all.size() == 3);
  CHECK(all[0]["would"] == "retried");
  CHECK(all[1]["would"] == "fail");
  CHECK(all[1]["key"]["execution_id"] == to_string(id));
  CHECK(all[1]["sqlstate"] == "22012");
  CHECK_THAT(all[1]["message"].get<std::string>(), Catch::Contains("not this one"));
  const Ended text = bench.tick({"attempt_timeout", "--dry-run"});
  CHECK_THAT(text.out, Catch::Contains("would fail") && Catch::Contains(to_string(id)) &&
                           Catch::Contains("not this one") && Catch::Contains("1 would move"));
}

TEST_CASE("tick --execution moves one row and leaves its neighbours alone") {
  Bench bench;
  const Uuid id = bench.lapsed(5);
  const Uuid neighbour = bench.lapsed(5);
  const Ended done = bench.tick({"attempt_timeout", "--execution", bench.name(id), "--json"});
  CHECK(done.code == 0);
  CHECK(bench.moved(id));
  CHECK_FALSE(bench.moved(neighbour));
  REQUIRE(lines(done.out).size() >= 1);
  CHECK(lines(done.out)[0]["processed"] == 1);
}

TEST_CASE("tick --execution reports a row that is not due") {
  Bench bench;
  const Uuid id = insert_core(bench.db, {.partition = {5}, .policy = max_retries(1)});
  insert_attempt(bench.db,
                 {.partition = {5}, .execution = id, .lease_expires_at_ms = now_ms(bench.db) + 3'600'000});
  const auto before = snapshot(bench.db);
  const Ended done = bench.tick({"attempt_timeout", "--execution", bench.name(id), "--json"});
  CHECK(done.code == 0);
  REQUIRE(lines(done.out).size() == 1);
  CHECK(lines(done.out)[0]["skipped"]["no_longer_due"] == 1);
  CHECK(diff(before, snapshot(bench.db)).empty());
}

TEST_CASE("tick --execution counts no row that never was due beside one that is") {
  Bench bench;
  const Uuid id = insert_core(bench.db, {.partition = {5}, .attempt_index = 1, .policy = max_retries(1)});
  for (const int attempt : {0, 1})
    insert_attempt(bench.db,
                   {.partition = {5},
                    .execution = id,
                    .attempt_index = attempt,
                    .lease_expires_at_ms = now_ms(bench.db) + (attempt == 0 ? -60'000 : 3'600'000)});
  const Ended done = bench.tick({"lease_expiry", "--execution", bench.name(id), "--json"});
  CHECK(done.code == 0);
  REQUIRE(lines(done.out).size() == 1);
  CHECK(lines(done.out)[0]["outcomes"] == Json{{"stale_cleared", 1}});
  CHECK(lines(done.out)[0]["skipped"]["no_longer_due"] == 0);
}

TEST_CASE("tick --execution tells people when a row falls due that is not due yet") {
  Bench bench;
  const Uuid id = insert_core(bench.db, {.partition = {5}, .policy = max_retries(1)});
  insert_attempt(bench.db,
                 {.partition = {5}, .execution = id, .lease_expires_at_ms = now_ms(bench.db) + 3'600'000});
  const Ended done = bench.tick({"attempt_timeout", "--execution", bench.name(id)});
  CHECK(done.code == 0);
  CHECK_THAT(done.out, Catch::StartsWith("attempt_timeout: not yet due: in 59 m ") ||
                           Catch::StartsWith("attempt_timeout: not yet due: in 1 h"));
  CHECK_THAT(done.out, !Catch::Contains("nothing is left due") && !Catch::Contains("no_longer_due"));
}

TEST_CASE("tick --execution goes on with the next reconciler where a table is locked") {
  Bench bench;
  const Uuid id = insert_core(bench.db, {.partition = {5}, .policy = max_retries(1)});
  insert_attempt(bench.db,
                 {.partition = {5}, .execution = id, .lease_expires_at_ms = now_ms(bench.db) + 3'600'000});
  pg::Transaction holding(bench.db);
  holding.execute("LOCK TABLE ff_attempt IN ACCESS EXCLUSIVE MODE");
  const Ended done =
      bench.tick({"attempt_timeout", "pending_waitpoint_expiry", "--execution", bench.name(id)});
  CHECK(done.code == 1);
  CHECK_THAT(done.err, Catch::Contains("attempt_timeout: "));
  CHECK_THAT(done.out, Catch::Contains("attempt_timeout: ") && Catch::Contains("pending_waitpoint_expiry: "));
}

TEST_CASE(
    "tick --execution of another partition than --partitions names, or than there are, is a usage error") {
  Bench bench;
  const Uuid id = bench.lapsed(130);
  const Ended other =
      bench.tick({"attempt_timeout", "--execution", bench.name(id), "--partitions", "6,128-129"});
  CHECK(other.code == 64);
  CHECK(other.out.empty());
  CHECK_THAT(other.err, Catch::Contains("is not in --partitions 6,128-129"));
  CHECK_FALSE(bench.moved(id));
  const Ended beyond = bench.tick({"attempt_timeout", "--execution", "{fp:256}:" + to_string(id)});
  CHECK(beyond.code == 64);
  CHECK(beyond.out.empty());
  CHECK_THAT(beyond.err, Catch::Contains("--execution: partitions 256 are not there"));
  CHECK(bench.tick({"attempt_timeout", "--execution", bench.name(id), "--partitions", "6,128-130"}).code ==
        0);
  CHECK(bench.moved(id));
}

TEST_CASE("tick with a filter that does not apply to what is named is a usage error, and of all it is said") {
  Bench bench;
  const Ended named = bench.tick({"lease_expiry", "budget_reset", "quota_window", "--namespace", "x"});
  CHECK(named.code == 64);
  CHECK(named.out.empty());
  CHECK_THAT(named.err,
             Catch::Contains("--namespace: the filter does not apply to budget_reset, quota_window\n"));
  const Ended tag = bench.tick({"budget_reset", "--instance-tag", "a=b"});
  CHECK(tag.code == 64);
  CHECK_THAT(tag.err, Catch::Contains("--instance-tag: the filter does not apply to budget_reset"));
  const Ended all = bench.tick({"all", "--partitions", "0", "--namespace", "x"});
  CHECK(all.code == 0);
  CHECK_THAT(all.err, Catch::Contains("--namespace does not apply to budget_reset, quota_concurrency: all"));
}

TEST_CASE("tick --execution ends with 1 where there is no such execution, and no row of one") {
  Bench bench;
  const Uuid without_work = insert_core(bench.db, {.partition = {5}, .policy = max_retries(1)});
  CHECK(bench.tick({"lease_expiry", "--execution", bench.name(without_work)}).code == 0);
  for (const std::string& name : {"{fp:5}:" + to_string(new_uuid()), "{fp:6}:" + to_string(without_work)}) {
    const Ended none = bench.tick({"lease_expiry", "--execution", name});
    CHECK(none.code == 1);
    CHECK_THAT(none.out, !Catch::Contains("nothing is left due"));
    CHECK_THAT(none.err, Catch::Contains("no such execution: '" + name + "'"));
  }
  // A lease that has outlived its execution is there to be released.
  const Uuid gone = new_uuid();
  insert_attempt(bench.db,
                 {.partition = {5}, .execution = gone, .lease_expires_at_ms = now_ms(bench.db) - 60'000});
  const Ended released = bench.tick({"lease_expiry", "--execution", "{fp:5}:" + to_string(gone)});
  CHECK(released.code == 0);
  CHECK_THAT(released.out, Catch::Contains("1 due, 1 moved"));
}

TEST_CASE("tick is narrowed by partitions, namespace and tag") {
  Bench bench;
  const Uuid id = bench.lapsed(1, origin("ours", "i-1"));
  const Uuid other_partition = bench.lapsed(9, origin("ours", "i-1"));
  const Uuid other_namespace = bench.lapsed(1, origin("theirs", "i-1"));
  const Uuid other_tag = bench.lapsed(1, origin("ours", "i-2"));
  const Uuid without = bench.lapsed(1);
  const Ended done = bench.tick({"--partitions", "0-3", "attempt_timeout", "--namespace", "ours",
                                 "--instance-tag", "cairn.instance_id=i-1"});
  CHECK(done.code == 0);
  CHECK(bench.moved(id));
  for (const Uuid& left : {other_partition, other_namespace, other_tag, without})
    CHECK_FALSE(bench.moved(left));
}

TEST_CASE("tick --batch-size moves everything all the same, in so many transactions") {
  Bench bench;
  for (int i = 0; i < 10; ++i) bench.lapsed(1);
  CHECK(bench.tick({"attempt_timeout", "--batch-size", "3"}).code == 0);
  const auto transactions = bench.db.execute("SELECT count(DISTINCT xmin::text)::integer FROM ff_attempt")
                                .one()
                                .get<std::int32_t>(0);
  CHECK(transactions == 4);
}

TEST_CASE("a row that fails makes exit code 1, and its neighbours are moved") {
  Bench bench;
  const Uuid poison = bench.lapsed(1);
  std::vector<Uuid> neighbours;
  for (int i = 0; i < 6; ++i) neighbours.push_back(bench.lapsed(1));
  bench.db.execute_script(
      "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF new.execution_id = '" +
      to_string(poison) +
      "' THEN RAISE 'poisoned'; END IF; RETURN new; END $$; CREATE TRIGGER poison BEFORE UPDATE ON "
      "ff_attempt FOR EACH "
      "ROW EXECUTE FUNCTION poison()");
  const Ended done = bench.tick({"attempt_timeout", "--json"});
  CHECK(done.code == 1);
  CHECK_THAT(done.err, Catch::Contains("poisoned") && Catch::Contains(to_string(poison)));
  CHECK_THAT(done.err, Catch::Contains("attempt_timeout: this row cannot be moved: partition_key=1 ") &&
                           !Catch::Contains("quarantine"));
  CHECK(lines(done.out)[0]["errors"] == 1);
  CHECK(lines(done.out)[0]["processed"] == 6);
  CHECK_FALSE(bench.moved(poison));
  for (const Uuid& id : neighbours) CHECK(bench.moved(id));
}

TEST_CASE("a malformed command line is exit code 64 and touches no database") {
  using Words = std::vector<std::string>;
  const auto words = GENERATE(
      Words{"tick"}, Words{"tick", "attempt_timeot"}, Words{"tick", "attempt_timeout", "attempt_timeout"},
      Words{"tick", "all", "attempt_timeout"}, Words{"tick", "attempt_timeout", "--execution", "{fp:1}:x"},
      Words{"tick", "attempt_timeout", "--execution", "0190c5a4-7f3e-7b1a-9c2d-3e4f5a6b7c8d"},
      Words{"tick", "attempt_timeout", "--execution", "{fp:1}:0190c5a4-7f3e-7b1a-9c2d-3e4f5a6b7c8d",
            "--partitions", "2"},
      Words{"tick", "attempt_timeout", "--partitions", "9-3"},
      Words{"tick", "attempt_timeout", "--partitions", "0-99999"},
      Words{"tick", "attempt_timeout", "--partitions", "1,1"},
      Words{"tick", "attempt_timeout", "--instance-tag", "x"},
      Words{"tick", "attempt_timeout", "--instance-tag", "=x"},
      Words{"tick", "attempt_timeout", "--batch-size", "0"},
      Words{"tick", "attempt_timeout", "--batch-size", "many"}, Words{"tick", "attempt_timeout", "--jsn"},
      Words{"tick", "attempt_timeout", "--json", "--json"},
      Words{"tick", "attempt_timeout", "--fan-out", "4"}, Words{"run", "attempt_timeout"},
      Words{"migrate", "down"}, Words{"migrate"}, Words{"migrate", "status", "all"},
      Words{"migrate", "grants", "lease_expriy"}, Words{"migrate", "up", "--fan-out", "0"},
      Words{"check-config"}, Words{"check-config", "x", "--print-default"}, Words{"start"}, Words{},
      Words{"healthcheck", "--address", "here:nonsense"});
  CAPTURE(words);
  const Ended refused = run_binary(words, {{"FF_DATABASE_URL", "host=/nonexistent connect_timeout=1"}});
  CHECK(refused.code == 64);
  CHECK(refused.out.empty());
  CHECK(!refused.err.empty());
}

TEST_CASE("tick all ends beside a budget that is due again before the others have had their turn") {
  Bench bench;
  const Uuid id = bench.lapsed();
  bench.db.execute(
      "INSERT INTO ff_budget_policy (partition_key, budget_id, policy_json, created_at_ms, updated_at_ms, "
      "next_reset_at_ms) VALUES (3, 'b', '{\"reset_interval_ms\": 1}', 1, 1, 1)");
  const Ended done = bench.tick({"all"});
  CHECK(done.code == 0);
  CHECK(bench.moved(id));
  CHECK_THAT(done.out, Catch::Contains("budget_reset: 1 due, 1 moved"));
  CHECK_THAT(done.out, Catch::EndsWith("nothing is left due\n"));
}

TEST_CASE("a server that is away is exit code 69 for commands that do one thing") {
  const TemporaryDirectory nothing_there;
  using Words = std::vector<std::string>;
  const auto words =
      GENERATE(Words{"tick", "all"}, Words{"status"}, Words{"migrate", "status"}, Words{"migrate", "up"});
  CAPTURE(words);
  const Ended away =
      run_binary(words, {{"FF_DATABASE_URL", "host=" + nothing_there.path().string() + " dbname=x user=y"}});
  CHECK(away.code == 69);
  CHECK(!away.err.empty());
}

TEST_CASE("a database without the schema is a problem, not a crash") {
  Database database{empty_database()};
  const Ended tick = run_binary({"tick", "attempt_timeout"}, {{"FF_DATABASE_URL", database.conninfo()}});
  CHECK(tick.code == 1);
  CHECK_THAT(tick.err, Catch::Contains("ff_"));
}
