// `audit`: what is wrong with a database, for people and for machines. Its JSON and its exit codes are contracts.
#include <catch2/catch.hpp>
#include <sstream>

#include "support/database.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;

namespace {

struct Bench {
  Ended audit(std::vector<std::string> options = {}, Environment environment = {}) {
    options.insert(options.begin(), "audit");
    environment.try_emplace("FF_DATABASE_URL", database.conninfo());
    return run_binary(std::move(options), environment);
  }

  Database database;
  pg::Connection db = database.connect();
};

std::vector<Json> lines(const std::string& out) {
  std::vector<Json> all;
  std::istringstream text(out);
  for (std::string line; std::getline(text, line);) all.push_back(Json::parse(line));
  return all;
}

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> all;
  for (const auto& [key, value] : object.items()) all.push_back(key);
  return all;
}

}  // namespace

TEST_CASE("audit tells people what is wrong, and the command that it names mends it") {
  Bench bench;
  CHECK(bench.audit().out == "nothing found by 83 checks over 256 partitions\n");
  const Uuid id = insert_core(bench.db, {.partition = {200}, .policy = max_retries(3)});
  insert_attempt(bench.db,
                 {.partition = {200}, .execution = id, .lease_expires_at_ms = now_ms(bench.db) - 3'600'000});
  const std::string name = "{fp:200}:" + to_string(id);
  const auto before = snapshot(bench.db);
  const Ended found = bench.audit();
  CHECK(found.code == 1);
  CHECK(found.err.empty());
  const std::string tick = "ff-reconcilerd tick lease_expiry --execution '" + name + "'";
  CHECK_THAT(found.out, Catch::StartsWith("lease_overdue: its lease lapsed more than a minute ago") &&
                            Catch::Contains("\n  " + name + "  attempt 0 of w1") &&
                            Catch::Contains("\n    -> " + tick + "\n") &&
                            Catch::Contains("\n1 row found by 1 of 83 checks over 256 partitions\n"));
  CHECK(diff(before, snapshot(bench.db)).empty());
  CHECK(bench.audit({"--partitions", "0-199"}).code == 0);
  CHECK(run_binary({"tick", "lease_expiry", "--execution", name},
                   {{"FF_DATABASE_URL", bench.database.conninfo()}})
            .code == 0);
  CHECK(bench.audit().code == 0);
}

TEST_CASE("audit --json is an object for each check that found something, and one for the sums") {
  Bench bench;
  for (int i = 0; i < 3; ++i)
    insert_core(bench.db,
                {.partition = {7}, .state = {"runnable", "leased", "eligible_now", "waiting", "pending"}});
  const Ended done = bench.audit({"--json", "--limit", "2", "--partitions", "7"});
  CHECK(done.code == 1);
  const auto all = lines(done.out);
  REQUIRE(all.size() == 2);
  CHECK(keys(all[0]) == std::vector<std::string>{"check", "meaning", "more", "rows"});
  CHECK(all[0]["check"] == "waiting_but_leased");
  CHECK(all[0]["more"] == 1);
  REQUIRE(all[0]["rows"].size() == 2);
  CHECK(keys(all[0]["rows"][0]) == std::vector<std::string>{"key", "partition", "remedy", "what"});
  CHECK_THAT(all[0]["rows"][0]["key"].get<std::string>(), Catch::StartsWith("{fp:7}:"));
  CHECK(keys(all[1]) == std::vector<std::string>{"checks", "found", "not_checked", "partitions", "rows"});
  CHECK(all[1]["found"] == 1);
  CHECK(all[1]["rows"] == 3);
  CHECK(all[1]["partitions"] == "7");
}

TEST_CASE("audit counts the checks that could not be made, and not with those that found nothing") {
  Bench bench;
  bench.db.execute_script("DROP TABLE ff_quota_policy");
  const std::string last = "81 of 83 checks over 256 partitions; 2 could not be made\n";
  const Ended nothing = bench.audit();
  CHECK(nothing.code == 1);
  CHECK_THAT(nothing.out, Catch::StartsWith("NOT CHECKED: quota_below_nought, quota_above_admitted") &&
                              Catch::EndsWith("\nnothing found by " + last));
  const auto all = lines(bench.audit({"--json"}).out);
  REQUIRE(all.size() == 2);
  CHECK(keys(all[0]) == std::vector<std::string>{"error", "not_checked", "partitions"});
  CHECK(all[0]["not_checked"] == "quota_below_nought, quota_above_admitted");
  CHECK(all[1]["checks"] == 83);
  CHECK(all[1]["not_checked"] == 2);
  insert_core(bench.db,
              {.partition = {7}, .state = {"runnable", "leased", "eligible_now", "waiting", "pending"}});
  CHECK_THAT(bench.audit().out,
             Catch::EndsWith("\n1 row found by 1 of 83 checks over 256 partitions; 2 could not be made\n"));
}

TEST_CASE("audit ends with 69 where no database is, with 64 for a line that it cannot read") {
  Bench bench;
  CHECK(bench.audit({}, {{"FF_DATABASE_URL", "host=/nonexistent dbname=x user=y"}}).code == 69);
  CHECK(bench.audit({"now"}).code == 64);
  CHECK(bench.audit({"--limit", "many"}).code == 64);
  CHECK(bench.audit({"--partitions", "5-1"}).code == 64);
  CHECK(bench.audit({"--partitions", "300"}).code == 64);
  Database empty{empty_database()};
  const Ended unfit = bench.audit({}, {{"FF_DATABASE_URL", empty.conninfo()}});
  CHECK(unfit.code == 1);
  CHECK_THAT(unfit.err, Catch::Contains("ff_partition_config"));
}
