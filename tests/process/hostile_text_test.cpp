// Names that somebody has put into the database, as a log, a terminal and a program that reads JSON get to see them.
#include <algorithm>
#include <catch2/catch.hpp>

#include "support/database.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;

namespace {

// A line of its own, a terminal cleared by ESC [ 2J and by the one character that means ESC [, DEL, and what turns the
// rest of the line.
const std::string kName =
    "w\n2026-01-01T00:00:00 error forged\x1b[2J\xc2\x9b"
    "2J\x7f\u202e";

/// A worker of that name has fallen silent.
struct Bench {
  Bench() {
    insert(db, "ff_worker_registry",
           {{"partition_key", 3},
            {"namespace", "a"},
            {"worker_instance_id", kName},
            {"worker_id", "w"},
            {"lanes", {"default"}},
            {"capabilities_csv", ""},
            {"last_heartbeat_ms", 1},
            {"liveness_ttl_ms", 1},
            {"registered_at_ms", 1}});
  }
  Ended run(std::vector<std::string> arguments, Environment environment = {}) {
    environment["FF_DATABASE_URL"] = database.conninfo();
    return run_binary(std::move(arguments), over_one_group(std::move(environment)));
  }

  Database database;
  pg::Connection db = database.connect();
};

void check_harmless(const std::string& text) {
  CHECK(text.find_first_of("\x1b\x7f") == std::string::npos);
  CHECK(text.find("\xc2\x9b") == std::string::npos);
  CHECK(text.find("\u202e") == std::string::npos);
  CHECK(text.find("\n2026-01-01") == std::string::npos);
}

}  // namespace

TEST_CASE(
    "a worker whose name is to forge a line and steer a terminal is swept, and its event has the name") {
  Bench bench;
  const std::vector<std::string> dry = {"tick", "worker_registry_ttl", "--dry-run"};
  for (const std::vector<std::string>& options : {std::vector<std::string>{}, {"--json"}}) {
    std::vector<std::string> words = dry;
    words.insert(words.end(), options.begin(), options.end());
    const Ended would = bench.run(words);
    CHECK(would.code == 0);
    CHECK_THAT(would.out, Catch::Contains("forged"));
    check_harmless(would.out);
  }
  CHECK(bench.run({"tick", "worker_registry_ttl"}).code == 0);
  CHECK(snapshot(bench.db, "ff_worker_registry").empty());
  CHECK(row(bench.db, "SELECT * FROM ff_worker_registry_event")["worker_instance_id"] == kName);
}

TEST_CASE("what a command line has that is to steer a terminal, or is far too long, does not come back so") {
  for (const std::string& typed : {kName + "\xff", std::string(100'000, 'x') + '\x1b'})
    for (const std::vector<std::string>& line : {std::vector<std::string>{typed},
                                                 {"--" + typed},
                                                 {"help", typed},
                                                 {"explain", typed},
                                                 {"tick", typed},
                                                 {"tick", "all", "--gap", typed},
                                                 {"tick", "all", "--execution", typed},
                                                 {"tick", "all", "--partitions", typed},
                                                 {"tick", "all", "--batch-size=" + typed},
                                                 {"status", "--json=" + typed}}) {
      CAPTURE(line.front());
      const Ended refused = run_binary(line, {{"FF_DATABASE_URL", "host=/nonexistent dbname=x user=y"}});
      CHECK(refused.code == 64);
      CHECK(refused.err.size() < 2'000);
      CHECK(refused.err.find('\xff') == std::string::npos);
      check_harmless(refused.err);
    }
}

TEST_CASE("a worker whose name is to forge a line stands in one line of the log where it cannot be swept") {
  const std::string format = GENERATE("text", "json");
  Bench bench;
  bench.db.execute_script(
      "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS"
      " $$BEGIN RAISE EXCEPTION 'not %', old.worker_instance_id USING DETAIL = 'a secret'; END$$;"
      "CREATE TRIGGER poison BEFORE DELETE ON ff_worker_registry FOR EACH ROW EXECUTE FUNCTION poison()");
  const Ended done = bench.run({"tick", "worker_registry_ttl"}, {{"FF_RECONCILER_LOG_FORMAT", format}});
  CHECK(done.code == 1);
  CHECK_THAT(done.err,
             Catch::Contains("cannot be moved") && Catch::Contains("forged") && !Catch::Contains("secret"));
  CHECK(std::ranges::count(done.err, '\n') == 1);
  check_harmless(done.err);
  check_harmless(done.out);
}

TEST_CASE("a role whose name is to steer a terminal does not by being warned of") {
  Bench bench;
  const std::string role =
      "\"evil\x1b[2J\xc2\x9b"
      "2J\u202e\"";
  bench.db.execute_script("CREATE ROLE " + role + "; GRANT CREATE ON SCHEMA public TO " + role);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"status"},
                                                {"status", "--json"},
                                                {"check-db"},
                                                {"check-db", "--json"},
                                                {"migrate", "status"}}) {
    const Ended said = bench.run(words);
    CHECK_THAT(said.out, Catch::Contains("evil"));
    check_harmless(said.out);
  }
  bench.db.execute_script("DROP OWNED BY " + role + "; DROP ROLE " + role);
}
