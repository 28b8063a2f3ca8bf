#include <catch2/catch.hpp>

#include "config_samples.hpp"

using namespace ff::config;
using namespace ff::config::samples;

TEST_CASE("an unknown key is refused with the nearest known one") {
  CHECK(only_problem("\nthread: 3\n", 2, "thread",
                     "unknown key, did you mean threads? (allowed: database, partitions"));
  CHECK(only_problem("database:\n  pool_sise: 3\n", 2, "database.pool_sise", "did you mean pool_size?"));
  CHECK(only_problem("reconcilers: {lease_expiri: {}}\n", 1, "reconcilers.lease_expiri",
                     "did you mean lease_expiry?"));
  CHECK(only_problem("filter:\n  instance_tag: {key: a, value: b, c: d}\n", 2, "filter.instance_tag.c",
                     "unknown key (allowed: key, value)"));
  CHECK(only_problem("http.listen: 127.0.0.1:1\n", 1, "http.listen", "unknown key"));
  CHECK(only_problem("<<: {threads: 1}\n", 1, "<<", "unknown key"));
}

TEST_CASE("a duplicate key is refused at every level") {
  CHECK(only_problem("threads: 3\nlog:\nthreads: 3\n", 3, "threads", "duplicate key, first in line 1"));
  CHECK(only_problem("log:\n  level: info\n  \"level\": info\n", 3, "log.level",
                     "duplicate key, first in line 2"));
  CHECK(only_problem("filter: {instance_tag: {key: a, key: b, value: c}}\n", 1, "filter.instance_tag.key",
                     "duplicate"));
  CHECK(
      only_problem("partitions: {shard: 0, shard: 1, of: 4}\n", 1, "partitions", "duplicate key \"shard\""));
}

TEST_CASE("a value of the wrong type is refused") {
  CHECK(only_problem("threads: many\n", 1, "threads",
                     "no decimal whole number (allowed: a whole number, 1 to 256)"));
  CHECK(only_problem("threads: \"3\"\n", 1, "threads", "a text in quotes"));
  CHECK(only_problem("threads: [3]\n", 1, "threads", "a list, not a value"));
  CHECK(only_problem("threads: {a: 3}\n", 1, "threads", "a section, not a value"));
  CHECK(only_problem("log:\n  level:\nthreads: 3\n", 2, "log.level", "no value"));
  CHECK(only_problem("threads: ~\n", 1, "threads", "no value"));
  CHECK(only_problem("log: info\n", 1, "log", "not a section (allowed: level, format"));
  CHECK(only_problem("- threads\n", 1, "", "not a section"));
  CHECK(only_problem("threads\n", 1, "", "not a section"));
  CHECK(only_problem("? [a]\n: 1\n", 1, "", "a key that is no word"));
  CHECK(only_problem("log: {level: verbose}\n", 1, "log.level",
                     "allowed: one of trace, debug, info, warn, error"));
  CHECK(only_problem("log: {level: INFO}\n", 1, "log.level", "unknown word"));
  for (const char* flag : {"yes", "on", "1", "True", "\"true\"", "no"}) {
    CAPTURE(flag);
    CHECK(only_problem(std::string("metrics: {per_partition: ") + flag + "}\n", 1, "metrics.per_partition",
                       "allowed: true or false"));
  }
}

TEST_CASE("a number is decimal, without sign, fraction or leading zero") {
  for (const char* number :
       {"010", "0x10", "0o10", "0b1", "+3", "-3", "3.0", "3e0", "1_0", " 3 4", "00", "3k", "\"\""}) {
    CAPTURE(number);
    CHECK(only_problem(std::string("database: {pool_size: ") + number + "}\n", 1, "database.pool_size",
                       "allowed: a whole number, 1 to 1000"));
  }
}

TEST_CASE("a number has to be within its range") {
  CHECK(only_problem("database: {pool_size: 0}\nthreads: 1\n", 1, "database.pool_size", "too small"));
  CHECK(only_problem("database: {pool_size: 1001}\n", 1, "database.pool_size", "too large"));
  CHECK(only_problem("threads: 99999999999999999999999999\n", 1, "threads", "too large"));
  CHECK(only_problem("reconcilers: {lease_expiry: {max_reclaims: 1000001}}\n", 1,
                     "reconcilers.lease_expiry.max_reclaims",
                     "too large (allowed: a whole number, 0 to 1000000, or unlimited)"));
  CHECK(only_problem("reconcilers: {attempt_timeout: {grace: 61m}}\n", 1, "reconcilers.attempt_timeout.grace",
                     "too large (allowed: a duration with its unit (ms s m h d), 0s to 1h)"));
  CHECK(problems_in("database: {pool_size: 1000}\nreconcilers: {lease_expiry: {max_reclaims: 0}}\n").empty());
}

TEST_CASE("a duration needs a unit and no leading zero") {
  CHECK(only_problem("recovery_grace: 15\n", 1, "recovery_grace", "the unit is missing"));
  CHECK(only_problem("recovery_grace: 0\n", 1, "recovery_grace", "the unit is missing"));
  CHECK(only_problem("recovery_grace: 010s\n", 1, "recovery_grace", "leading zero"));
  for (const char* duration :
       {"-1s", "1.5s", "1 s", "1S", "1w", "s", "1s1s", "99999999999999999999d", "unlimited"}) {
    CAPTURE(duration);
    CHECK(
        only_problem(std::string("recovery_grace: ") + duration + "\n", 1, "recovery_grace", "no duration"));
  }
}

TEST_CASE("partitions are refused when they overlap, run backwards or do not exist") {
  CHECK(only_problem("partitions: [0-63, 63]\n", 1, "partitions", "partition 63 is named twice"));
  CHECK(only_problem("partitions: 0-32768\n", 1, "partitions", "\"0-32768\" is no partition"));
  CHECK(only_problem("partitions: 9-3\n", 1, "partitions", "runs backwards"));
  CHECK(only_problem("partitions: 010\n", 1, "partitions", "leading zero"));
  CHECK(only_problem("partitions: 0x1\n", 1, "partitions", "no partition"));
  CHECK(only_problem("partitions: 0-010\n", 1, "partitions", "leading zero"));
  CHECK(only_problem("partitions: -1\n", 1, "partitions", "no partition"));
  CHECK(only_problem("partitions: [all]\n", 1, "partitions", "no partition"));
  CHECK(only_problem("partitions: all, 7\n", 1, "partitions", "no partition"));
  CHECK(only_problem("partitions: []\n", 1, "partitions", "no partition at all"));
  CHECK(only_problem("partitions: [[1]]\n", 1, "partitions", "an element of the list"));
  CHECK(only_problem("partitions: [x, 9-3]\n", 1, "partitions", "runs backwards"));
  CHECK(only_problem("partitions: {shard: 4, of: 4}\n", 1, "partitions", "shard has to be less than of"));
  CHECK(only_problem("partitions: {shard: 0, of: 0}\n", 1, "partitions", "of is out of range"));
  CHECK(only_problem("partitions: {shard: 0, of: 32769}\n", 1, "partitions", "of is out of range"));
  CHECK(only_problem("partitions: {shard: 0}\n", 1, "partitions", "both needed"));
  CHECK(only_problem("partitions: {shard: 00, of: 2}\n", 1, "partitions", "leading zero"));
  CHECK(only_problem("partitions: {shard: 0, of: 2, off: 2}\n", 1, "partitions", "unknown key \"off\""));
}

TEST_CASE("an address to listen on needs a host and a port") {
  for (const char* address :
       {"127.0.0.1", ":9464", "\"127.0.0.1:\"", "127.0.0.1:65536", "127.0.0.1:080", "\"::1:80\"", "\"[::1]\"",
        "\"[localhost]:80\"", "\"a b:80\"", "http://a:80", "\"[]:80\"", "a:-1"}) {
    CAPTURE(address);
    CHECK(only_problem(std::string("http:\n  listen: ") + address + "\n", 2, "http.listen",
                       "allowed: host:port"));
  }
}

TEST_CASE("an address to listen on is one of this machine, and no name") {
  for (const char* address : {"example.com:80", "300.1.1.1:80", "127.1:80", "\"[::1::]:80\""}) {
    CAPTURE(address);
    CHECK(only_problem(std::string("http:\n  listen: ") + address + "\n", 2, "http.listen", "address"));
  }
  CHECK(only_problem("http:\n  listen: db-host:9464\n", 2, "http.listen", "write one, such as 127.0.0.1"));
  CHECK(only_problem("http:\n  listen: http://127.0.0.1:9464\n", 2, "http.listen",
                     "an address to listen on has no scheme (allowed: host:port"));
  CHECK(load_yaml("http: {listen: localhost:80}\n").http.host == "localhost");
}

TEST_CASE("a filter has to say something") {
  CHECK(only_problem("filter: {namespace: \"\"}\n", 1, "filter.namespace", "empty"));
  CHECK(only_problem("filter: {namespace: \"a\\nb\"}\n", 1, "filter.namespace", "control character"));
  CHECK(only_problem("filter: {instance_tag: {key: a}}\n", 1, "filter.instance_tag.key",
                     "needs both key and value"));
  CHECK(
      only_problem("filter:\n  instance_tag:\n    value: a\n", 3, "filter.instance_tag.value", "needs both"));
  CHECK(only_problem("filter: {instance_tag: {key: a, value: \"\"}}\n", 1, "filter.instance_tag.value",
                     "empty"));
  CHECK(only_problem("reconcilers:\n  lease_expiry:\n    filter: {instance_tag: {key: a}}\n", 3,
                     "reconcilers.lease_expiry.filter.instance_tag.key", "needs both"));
  CHECK(only_problem("reconcilers:\n  lease_expiry:\n    filter:\n", 3, "reconcilers.lease_expiry.filter",
                     "{} for none, although others have one"));
  CHECK(only_problem("reconcilers:\n  budget_reset:\n    filter: {namespace: a}\n", 3,
                     "reconcilers.budget_reset.filter", "the filter does not apply to this reconciler"));
}

TEST_CASE("options that contradict each other are refused where the last of them was set") {
  CHECK(only_problem("threads: 8\n", 1, "threads", "database.pool_size is 8, but 8 threads and 0 helpers"));
  CHECK(only_problem("threads: 4\ndatabase:\n  pool_size: 4\n", 3, "database.pool_size",
                     "(allowed: a pool_size of 5 or more, or at most 3 threads and helpers together)"));
  CHECK(only_problem("database:\n  connect_timeout: 6s\n", 2, "database.connect_timeout",
                     "database.connect_timeout is 6s, and database.acquire_timeout, which is 5s"));
  CHECK(only_problem(
      "database: {acquire_timeout: 1s}\n", 1, "database.acquire_timeout",
      "database.connect_timeout is 3s, and database.acquire_timeout, which is 1s, would always "
      "end first (allowed: a connect_timeout of at most 1s, or an acquire_timeout of at least 3s)"));
  CHECK(only_problem("helpers: 4\n", 1, "helpers",
                     "(allowed: a pool_size of 9 or more, or at most 7 threads and helpers together)"));
  CHECK(problems_in("threads: 7\n").empty());
  CHECK(problems_in("helpers: 3\n").empty());
  CHECK(problems_in("database: {statement_timeout: 1h}\nshutdown: {grace: 1s}\n").empty());
  const auto flag =
      problems_in("database: {pool_size: 3}\nthreads: 2\n", {}, {{"--threads", "threads", "3"}});
  REQUIRE(flag.size() == 1);
  CHECK(flag[0].file == "command line");
  CHECK(flag[0].key == "--threads");
}

TEST_CASE("a refused value is not blamed for a contradiction as well") {
  CHECK(only_problem("database:\n  pool_size: 0x20\nthreads: 20\n", 2, "database.pool_size", "no decimal"));
}

TEST_CASE("all problems are found in one run") {
  const auto problems = problems_in(
      "thread: 1\ndatabase: {pool_size: 010}\nrecovery_grace: 5\nrecovery_grace: 5s\npartitions: [1, 1]\n",
      {{"FF_RECONCILER_TREADS", "3"}, {"FF_RECONCILER_LOG_LEVEL", "loud"}}, {{"--threads", "threads", "x"}});
  std::vector<std::string> keys;
  for (const Problem& problem : problems) keys.push_back(problem.key);
  CHECK(keys == std::vector<std::string>{"thread", "database.pool_size", "recovery_grace", "recovery_grace",
                                         "partitions", "FF_RECONCILER_LOG_LEVEL", "FF_RECONCILER_TREADS",
                                         "--threads"});
}

TEST_CASE("a value is checked even when a later source replaces it") {
  CHECK(problems_in("threads: 010\n", {}, {{"--threads", "threads", "1"}}).size() == 1);
}

TEST_CASE("an unknown environment variable is refused with the nearest known one") {
  const auto problems = problems_of({{}, {{"FF_RECONCILER_DATABASE_POOLSIZE", "9"}}, {}});
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].file == "environment");
  CHECK(problems[0].line == 0);
  CHECK(problems[0].message.find("did you mean FF_RECONCILER_DATABASE_POOL_SIZE?") != std::string::npos);
}

TEST_CASE("what all variables begin with makes none of them near") {
  const auto problems = problems_of({{}, {{"FF_RECONCILER_BOGUS", "1"}, {"FF_RECONCILER_", "1"}}, {}});
  REQUIRE(problems.size() == 2);
  for (const Problem& problem : problems) CHECK(problem.message.find("did you mean") == std::string::npos);
}

TEST_CASE("a problem names file, line, key, value and what is allowed") {
  const TemporaryFile file("\n\ndatabase:\n  pool_size: 010\n");
  const auto problems = problems_of({file.path(), {}, {}});
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].text() == file.path() +
                                  ":4: database.pool_size: \"010\": a leading zero (would it be octal?) "
                                  "(allowed: a whole number, 1 to 1000)");
  CHECK(Invalid(problems).what() == problems[0].text());
}

TEST_CASE("a problem is one line of moderate length whatever the value holds") {
  const auto problems = problems_in("threads: \"a\\nforged: line" + std::string(5000, 'x') + "\"\n");
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].text().find('\n') == std::string::npos);
  CHECK(problems[0].text().size() < 400);
}

TEST_CASE(
    "completion_repair's max_age has to be an hour below the retention of events, while both are enabled") {
  const std::vector<ReconcilerDecl> both{
      {"completion_repair",
       "writes events",
       true,
       ff::Milliseconds{5000},
       1000,
       true,
       {{"max_age", ff::SettingDecl::Kind::duration, 86'400'000, 60'000, 864'000'000, false, "how old"}}},
      {"outbox_retention",
       "deletes events",
       false,
       ff::Milliseconds{60'000},
       1000,
       false,
       {{"retention", ff::SettingDecl::Kind::duration, 604'800'000, 3'600'000, 864'000'000, false,
         "how old"}}}};
  const auto refused = [&](const std::string& repair, const std::string& retention) {
    const TemporaryFile file("reconcilers:\n  completion_repair: {" + repair + "}\n  outbox_retention: {" +
                             retention + "}\n");
    try {
      load({file.path(), {}, {}}, both);
      return false;
    } catch (const Invalid& invalid) {
      CHECK(invalid.problems().at(0).message.find("allowed: a retention of at least ") != std::string::npos);
      return true;
    }
  };
  CHECK_FALSE(refused("max_age: 1d", "retention: 1d"));
  CHECK_FALSE(refused("max_age: 1d", "enabled: true, retention: 2d"));
  CHECK_FALSE(refused("max_age: 1d", "enabled: true, retention: 25h"));
  CHECK(refused("max_age: 1d", "enabled: true, retention: 1499m"));
  CHECK(refused("max_age: 8d", "enabled: true"));
  CHECK_FALSE(refused("enabled: false, max_age: 8d", "enabled: true"));
}
