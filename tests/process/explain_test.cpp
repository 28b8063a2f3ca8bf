// `explain`: one execution, for people and for machines. Its JSON and its exit codes are contracts.
#include <catch2/catch.hpp>
#include <set>

#include "support/database.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;

namespace {

struct Bench {
  // As a daemon's session is named.
  Bench() { db.execute("SET application_name = 'ff-reconcilerd 1.0.0 all'"); }

  Ended explain(const Uuid& id, std::vector<std::string> options = {}, Environment environment = {}) {
    options.insert(options.begin(), {"explain", name(id)});
    environment["FF_DATABASE_URL"] = database.conninfo();
    return run_binary(std::move(options), environment);
  }
  std::string name(const Uuid& id) { return "{fp:3}:" + to_string(id); }
  Uuid lapsed(const AttemptRow& like = {}) {
    AttemptRow row = like;
    row.partition = {3};
    row.execution = insert_core(db, {.partition = {3}, .policy = max_retries(3)});
    row.lease_expires_at_ms = now_ms(db) - 60'000;
    return insert_attempt(db, row);
  }

  Database database;
  pg::Connection db = database.connect();
};

std::set<std::string> keys(const Json& object) {
  std::set<std::string> all;
  for (const auto& [key, value] : object.items()) all.insert(key);
  return all;
}

}  // namespace

TEST_CASE("explain tells people what is wrong, and the command that it names mends it") {
  Bench bench;
  const Uuid id = bench.lapsed();
  const auto before = snapshot(bench.db);
  const Ended done = bench.explain(id);
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  const std::string next = "ff-reconcilerd tick lease_expiry --execution '" + bench.name(id) + "'";
  CHECK_THAT(done.out, Catch::StartsWith("execution   " + bench.name(id) + "\n") &&
                           Catch::Contains("the lease of w1 lapsed 1 m") &&
                           Catch::Contains("-> " + next + "\n") && Catch::Contains(": reclaimable\n"));
  CHECK(diff(before, snapshot(bench.db)).empty());

  CHECK(run_binary({"tick", "lease_expiry", "--execution", bench.name(id)},
                   {{"FF_DATABASE_URL", bench.database.conninfo()}})
            .code == 0);
  CHECK_THAT(bench.explain(id).out, Catch::Contains("any worker may claim it"));
}

TEST_CASE("explain --json is one object with exactly the keys that scripts rely on") {
  Bench bench;
  const Uuid id = bench.lapsed();
  const Ended done = bench.explain(id, {"--json"});
  CHECK(done.code == 0);
  const Json all = Json::parse(done.out);
  CHECK(keys(all) == std::set<std::string>{"execution", "found", "database_time_ms", "state", "attempts",
                                           "grants", "suspension", "waitpoints", "fan_in", "upstreams",
                                           "upstreams_in_all", "downstreams", "downstreams_in_all",
                                           "completion_events", "lease_events", "findings", "reconcilers"});
  CHECK(all["execution"] == bench.name(id));
  CHECK(all["found"] == true);
  CHECK(all["attempts"][0]["current"] == true);
  REQUIRE(!all["findings"].empty());
  CHECK(keys(all["findings"][0]) == std::set<std::string>{"cause", "text", "next"});
  CHECK(all["findings"][0]["cause"] == "lease_lapsed");
  std::set<std::string> names;
  for (const Json& line : all["reconcilers"]) {
    CHECK(keys(line) == std::set<std::string>{"reconciler", "verdict", "at_ms", "text"});
    names.insert(line["reconciler"].get<std::string>());
    if (line["reconciler"] == "lease_expiry") CHECK(line["verdict"] == "due");
    if (line["reconciler"] == "attempt_timeout") CHECK(line["verdict"] == "none");
  }
  CHECK(names.contains("dependency"));
  CHECK_FALSE(names.contains("budget_reset"));  // its rows are no executions'
}

TEST_CASE("explain ends with 1 where there is no such execution, with 64 for a line that it cannot read") {
  Bench bench;
  const Ended none = bench.explain(new_uuid());
  CHECK(none.code == 1);
  CHECK_THAT(none.out, Catch::Contains("there is no execution"));
  const Environment nowhere{{"FF_DATABASE_URL", "host=/nonexistent dbname=x user=y"}};
  CHECK(run_binary({"explain"}, nowhere).code == 64);
  CHECK(run_binary({"explain", to_string(new_uuid())}, nowhere).code == 64);
  CHECK(run_binary({"explain", bench.name(new_uuid()), "--dry-run"}, nowhere).code == 64);
  CHECK(run_binary({"explain", bench.name(new_uuid())}, nowhere).code == 69);
  Database empty{empty_database()};
  const Ended unfit =
      run_binary({"explain", bench.name(new_uuid())}, {{"FF_DATABASE_URL", empty.conninfo()}});
  CHECK(unfit.code == 1);
  CHECK_THAT(unfit.err, Catch::Contains("ff_"));
}

TEST_CASE("explain says that the configuration leaves the partition to others") {
  Bench bench;
  const Uuid id = bench.lapsed();
  const Json all = Json::parse(bench.explain(id, {"--json"}, {{"FF_RECONCILER_PARTITIONS", "0-2,4"}}).out);
  CHECK(all["findings"][0]["cause"] == "not_covered");
}

TEST_CASE("explain leaves no partition to others that the database has not") {
  Bench bench;
  const Ended none = run_binary({"explain", "{fp:256}:" + to_string(new_uuid())},
                                {{"FF_DATABASE_URL", bench.database.conninfo()}});
  CHECK(none.code == 1);
  CHECK_THAT(none.out,
             Catch::Contains("the database has no partition 256") && !Catch::Contains("not_covered"));
}

TEST_CASE("explain shows in words what a waitpoint and a grant wait for that nothing ends") {
  Bench bench;
  const Uuid id = bench.lapsed();
  insert_waitpoint(bench.db, {.partition = {3}, .execution = id, .waitpoint_key = "k"});
  bench.db.execute("UPDATE ff_waitpoint_pending SET required_signal_names = '{__operator_only__}'");
  insert(bench.db, "ff_claim_grant",
         {{"partition_key", 3},
          {"grant_id", "\\x01"},
          {"execution_id", to_string(id)},
          {"kind", "claim"},
          {"worker_id", "w2"},
          {"worker_instance_id", "w2-1"},
          {"grant_ttl_ms", 1000},
          {"issued_at_ms", 5},
          {"expires_at_ms", 0}});
  const std::string said = bench.explain(id).out;
  CHECK_THAT(said, Catch::Contains("\"k\" for an operator's resume\n") && !Catch::Contains("__"));
  CHECK_THAT(said, Catch::Contains("claim for w2-1, never ends\n"));
}

TEST_CASE("explain sees whether a daemon is there") {
  Bench bench;
  const Uuid id = bench.lapsed();
  CHECK_THAT(bench.explain(id).out, !Catch::Contains("no_daemon"));
  bench.db.execute("SET application_name = 'another'");
  CHECK_THAT(bench.explain(id).out, Catch::Contains("no_daemon"));
}

TEST_CASE("explain shows nothing that belongs to a customer, and no text steers a terminal") {
  Bench bench;
  const Uuid id = bench.lapsed({.worker_id = "w\x1b[2J\nexecution"});
  bench.db.execute("UPDATE ff_exec_core SET payload = 'secret', result = 'secret'");
  insert_suspension(bench.db, {.partition = {3}, .execution = id, .member_map = {{"k", "secret"}}});
  insert(bench.db, "ff_waitpoint_pending",
         {{"partition_key", 3},
          {"waitpoint_id", to_string(new_uuid())},
          {"execution_id", to_string(id)},
          {"token_kid", "secret"},
          {"token", "secret"},
          {"created_at_ms", 0}});
  for (const std::vector<std::string>& options : {std::vector<std::string>{}, {"--json"}}) {
    const Ended done = bench.explain(id, options);
    CHECK(done.code == 0);
    CHECK_THAT(done.out,
               !Catch::Contains("secret") && !Catch::Contains("\x1b") && Catch::Contains("x1b[2J exec"));
  }
}
