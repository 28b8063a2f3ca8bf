// `lease-events`: its lines and exit codes are contracts.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <set>
#include <sstream>

#include "pg/lease_outbox.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

std::vector<std::string> command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "lease-events");
  return arguments;
}

std::vector<Json> lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<Json> all;
  for (std::string line; std::getline(stream, line);) all.push_back(Json::parse(line));
  return all;
}

std::vector<std::int64_t> ids(const std::string& text) {
  std::vector<std::int64_t> all;
  for (const Json& line : lines(text)) all.push_back(line["event_id"]);
  return all;
}

struct Bench : Outbox {
  Environment environment() const { return {{"FF_DATABASE_URL", database.conninfo()}}; }
  Ended events(std::vector<std::string> arguments) {
    return run_binary(command(std::move(arguments)), environment());
  }
};

/// `lease-events --follow` beside the test.
struct Following {
  Following(const Bench& bench, std::vector<std::string> arguments,
            const std::vector<std::string>& shell = {})
      : process(whole(std::move(arguments), shell), bench.environment()) {}
  static std::vector<std::string> whole(std::vector<std::string> arguments,
                                        const std::vector<std::string>& shell) {
    arguments.insert(arguments.begin(), {FF_BINARY, "lease-events", "--follow"});
    arguments.insert(arguments.begin(), shell.begin(), shell.end());
    return arguments;
  }
  std::size_t printed_now() {
    const std::string out = process.out();
    return static_cast<std::size_t>(std::count(out.begin(), out.end(), '\n'));
  }
  bool printed(std::size_t count) {
    return wait_until([&] { return printed_now() >= count; });
  }
  Process process;
};

}  // namespace

TEST_CASE("lease-events prints every event as one object with exactly the keys that scripts rely on") {
  Bench bench;
  const Uuid execution = new_uuid();
  const auto id = bench.add({.partition = 7,
                             .type = "revoked",
                             .execution = to_string(execution),
                             .name_space = "tenant \"a\"",
                             .instance_tag = "i-1",
                             .lease_id = "l-1",
                             .at_ms = 1'700'000'000'123});
  bench.add({.partition = 8, .execution = to_string(execution)});
  const Ended done = bench.events({});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  REQUIRE(id == 1);
  const std::string uuid = to_string(execution);
  CHECK(done.out ==
        "{\"event_id\":1,\"cursor\":\"020000000000000001\",\"type\":\"revoked\",\"execution_id\":\"{fp:7}:" +
            uuid +
            "\",\"lease_id\":\"l-1\",\"occurred_at_ms\":1700000000123,\"partition\":7,\"namespace\":"
            "\"tenant \\\"a\\\"\",\"instance_tag\":\"i-1\"}\n"
            "{\"event_id\":2,\"cursor\":\"020000000000000002\",\"type\":\"renewed\",\"execution_id\":\"{fp:8}"
            ":" +
            uuid +
            "\",\"lease_id\":null,\"occurred_at_ms\":1700000000000,\"partition\":8,\"namespace\":null,"
            "\"instance_tag\":null}\n");
}

TEST_CASE("lease-events takes a partition, a cursor and a filter") {
  Bench bench;
  const auto first = bench.add({.partition = 7, .name_space = "a", .instance_tag = "1"});
  const auto second = bench.add({.partition = 8, .name_space = "b", .instance_tag = "2"});
  const auto third = bench.add({.partition = 7});
  CHECK(ids(bench.events({"--partition", "7"}).out) == std::vector{first, third});
  CHECK(ids(bench.events({"--partition", "all"}).out) == std::vector{first, second, third});
  CHECK(ids(bench.events({"--after", to_hex(lease::Cursor{first})}).out) == std::vector{second, third});
  CHECK(ids(bench.events({"--namespace", "a"}).out) == std::vector{first});
  CHECK(ids(bench.events({"--instance-tag", "other.key=2"}).out) == std::vector{second});
  const Ended nothing = bench.events({"--after", ""});
  CHECK(nothing.code == 0);
  CHECK(nothing.out.empty());
}

TEST_CASE("lease-events says how far behind its reader is, and warns at half the retention") {
  Bench bench;
  const std::int64_t now = now_ms(bench.db);
  constexpr std::int64_t kHour = 3'600'000;
  const auto first = bench.add({.at_ms = now - 3 * kHour});
  bench.add({.at_ms = now - 2 * kHour});
  bench.add({.at_ms = now});
  bench.add({.at_ms = now - 2 * kHour});
  const std::string after = to_hex(lease::Cursor{first});
  const auto told = [&](const char* retention) {
    auto environment = bench.environment();
    environment["FF_RECONCILER_RECONCILERS_OUTBOX_RETENTION_RETENTION"] = retention;
    return run_binary(command({"--after", after}), environment).err;
  };
  const std::string behind = told("3h");
  CHECK_THAT(behind, Catch::Contains("lease history: the first event is 2 h") &&
                         Catch::Contains("the newest is 4, 2 ids later"));
  CHECK_THAT(behind, Catch::Contains("event 2 is 2 h") && Catch::Contains("retention 3h"));
  CHECK_THAT(behind, Catch::Contains("event 4 is 2 h"));  // it had caught up in between
  CHECK_THAT(told("5h"), Catch::Contains("ids later") && !Catch::Contains("more than half"));
  CHECK(bench.events({}).err.empty());  // who reads all that there is
}

TEST_CASE("lease-events refuses what it cannot mean as a usage error") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> refused{
      {{"--after", "01"}, "--after: the cursor begins with 0x01 instead of 0x02"},
      {{"--after", "0200"}, "--after: the cursor has 2 bytes instead of 9"},
      {{"--after", "02ffffffffffffffff"}, "--after: the cursor's event id is negative: -1"},
      {{"--after", "xy"}, "is not hexadecimal"},
      {{"--partition", "40000"}, "no whole number from 0 to 32767"},
      {{"--partition", "some"}, "no whole number"},
      {{"--instance-tag", "i-1"}, "is not KEY=VALUE"},
      {{"--dry-run"}, "lease-events has no option --dry-run"},
  };
  for (const auto& [arguments, message] : refused) {
    const Ended done = run_binary(command(arguments));
    CHECK(done.code == 64);
    CHECK(done.out.empty());
    CHECK_THAT(done.err, Catch::Contains(message));
  }
}

TEST_CASE("lease-events refuses a partition that is not there, and says how many there are") {
  Bench bench;
  bench.add({.partition = 7});
  for (const auto& arguments :
       {std::vector<std::string>{"--partition", "256"}, {"--partition", "999", "--follow"}}) {
    const Ended done = bench.events(arguments);
    CHECK(done.code == 64);
    CHECK(done.out.empty());
    CHECK_THAT(done.err,
               Catch::Contains("there is no " + arguments[1] + ": ff_partition_config has 256 (0-255)"));
  }
  CHECK(bench.events({"--partition", "255"}).code == 0);
  // Who may read events and no more is told of those that there are.
  bench.db.execute_script(
      "CREATE ROLE reader LOGIN; GRANT SELECT ON ff_lease_event TO reader; GRANT USAGE ON SEQUENCE "
      "ff_lease_event_event_id_seq TO reader");
  const Ended read = run_binary(command({"--partition", "7"}),
                                {{"FF_DATABASE_URL", bench.database.conninfo() + " user=reader"}});
  CHECK(read.code == 0);
  CHECK(ids(read.out) == bench.ids());
  bench.db.execute_script("DROP OWNED BY reader; DROP ROLE reader");
}

TEST_CASE("lease-events without a database ends with 69, but waits for it when it follows") {
  const Environment nowhere{{"FF_DATABASE_URL", "host=/nonexistent"}};
  CHECK(run_binary(command({}), nowhere).code == 69);
  Process following({FF_BINARY, "lease-events", "--follow"}, nowhere);
  CHECK(wait_until([&] { return following.err_has("waiting for the database"); }));
  CHECK(following.running());
  following.signal(SIGTERM);
  CHECK(following.wait(2s) == 0);
}

TEST_CASE("lease-events that cannot read on says so and ends, unless it follows") {
  Bench bench;
  bench.add({});
  // The newest event can be read, and no page of them.
  bench.db.execute_script(
      "CREATE ROLE halfway LOGIN; GRANT SELECT (event_id, execution_id, event_type, occurred_at_ms) ON "
      "ff_lease_event "
      "TO halfway");
  const Environment environment{{"FF_DATABASE_URL", bench.database.conninfo() + " user=halfway"}};
  const Ended once = run_binary({"lease-events"}, environment);
  CHECK(once.code == 1);
  CHECK(once.out.empty());
  CHECK_THAT(once.err, Catch::Contains("permission denied for table ff_lease_event"));
  Process following({FF_BINARY, "lease-events", "--follow", "--after", "020000000000000000"}, environment);
  REQUIRE(wait_until([&] { return following.err_has("permission denied"); }));
  bench.db.execute_script("GRANT SELECT ON ff_lease_event TO halfway");
  CHECK(wait_until([&] { return !following.out().empty(); }));
  following.signal(SIGTERM);
  CHECK(following.wait() == 0);
}

TEST_CASE("lease-events --follow goes on with what happens, line by line, until a signal ends it with 0") {
  for (const int number : {SIGINT, SIGTERM}) {
    Bench bench;
    bench.add({});
    Following following(bench, {"--after", "020000000000000000"});
    CHECK(following.printed(1));
    for (std::size_t events = 2; events <= 4; ++events) {
      bench.add({});
      CHECK(following.printed(events));
    }
    following.process.signal(number);
    CHECK(following.process.wait(2s) == 0);
    CHECK(ids(following.process.out()) == bench.ids());
    CHECK_THAT(following.process.err(), !Catch::Contains("error"));
  }
}

TEST_CASE("lease-events --follow without a cursor begins with the present moment") {
  Bench bench;
  bench.add({});
  Following following(bench, {});
  // Nothing tells from outside when its present begins: at the first of these that it prints.
  std::vector<std::int64_t> since;
  REQUIRE(wait_until([&] {
    since.push_back(bench.add({}));
    return following.printed_now() > 0;
  }));
  const auto id = bench.add({});
  REQUIRE(wait_until([&] {
    const std::string out = following.process.out();
    return out.ends_with('\n') && ids(out).back() == id;
  }));
  since.push_back(id);
  const auto printed = ids(following.process.out());
  CHECK(std::ranges::search(since, printed).begin() != since.end());
}

TEST_CASE(
    "lease-events --follow without a cursor prints what is committed after its start below the newest id") {
  Bench bench;
  pg::Connection late = bench.database.connect();
  late.execute_script("BEGIN");
  const auto low = Outbox::add(late, {.partition = 7});
  bench.add({});
  Following following(bench, {"--partition", "7"});
  // When it asks once more who is still open, it has begun.
  std::set<std::string> asked;
  REQUIRE(wait_until([&] {
    for (const pg::Row row : bench.db.execute(
             "SELECT query_start::text FROM pg_stat_activity WHERE application_name = 'ff-reconcilerd'"
             " AND datname = current_database() AND query LIKE '%pg_locks AS held%'"))
      asked.insert(row.get<std::string>(0));
    return asked.size() > 1;
  }));
  late.execute_script("COMMIT");
  CHECK(following.printed(1));
  CHECK(ids(following.process.out()) == std::vector{low});
}

TEST_CASE("lease-events refuses a cursor that cannot be of this database, and warns of one that may not be") {
  Bench bench;
  bench.add_many(20);
  for (const auto& arguments : {std::vector<std::string>{"--after", "027fffffffffffffff"},
                                {"--follow", "--after", "027fffffffffffffff"}}) {
    const Ended done = bench.events(arguments);
    CHECK(done.code == 64);
    CHECK_THAT(done.err,
               Catch::Contains("--after: the cursor 027fffffffffffffff (9223372036854775807) is beyond every "
                               "lease event id that this database has handed out, up to 20") &&
                   !Catch::Contains("setval"));
  }
  const Ended warned = bench.events({"--after", to_hex(lease::Cursor{21})});
  CHECK(warned.code == 0);
  CHECK_THAT(warned.err, Catch::Contains("(21) is beyond every") && !Catch::Contains("not there any more"));
  CHECK_THAT(bench.events({"--after", to_hex(lease::Cursor{20})}).err, !Catch::Contains("beyond"));
}

TEST_CASE("lease-events warns of a cursor that outbox_retention has overtaken, and of no other") {
  Bench bench;
  bench.add_many(10);
  bench.add_many(2, 7);
  bench.db.execute_script("DELETE FROM ff_lease_event WHERE event_id <= 6");
  const auto told = [&](std::int64_t cursor, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--after", to_hex(lease::Cursor{cursor})});
    return bench.events(more).err;
  };
  CHECK_THAT(told(3), Catch::Contains("event 3, whose cursor this is, is not there any more") &&
                          Catch::Contains("up to 3 events behind it may have been deleted unread") &&
                          !Catch::Contains("counted by ids"));
  CHECK_THAT(told(3, {"--partition", "7"}),
             Catch::Contains("up to 7 events behind it may") && Catch::Contains("counted by ids"));
  CHECK_THAT(told(3, {"--partition", "9"}), Catch::Contains("whatever was behind it may have been deleted"));
  for (const std::int64_t cursor : {0, 6, 7, 12})
    CHECK_THAT(told(cursor), !Catch::Contains("not there any more"));
}

TEST_CASE("lease-events ends with 0 when nobody reads its output any more, even while nothing happens") {
  Bench bench;
  // A young one: of an old one it would say how far behind the present it is.
  bench.add({.at_ms = now_ms(bench.db)});
  // head takes the one event and closes the pipe; the exit code is that of the command before it.
  const std::string line =
      std::string(FF_BINARY) +
      " lease-events --follow --after 020000000000000000 | head -n 1; echo ${PIPESTATUS[0]}";
  Process shell({"bash", "-c", line}, bench.environment());
  CHECK(shell.wait(10s) == 0);
  CHECK_THAT(shell.out(), Catch::EndsWith("\n0\n"));
  CHECK(shell.err().empty());
}

TEST_CASE("a signal ends lease-events even while its reader takes nothing") {
  Bench bench;
  bench.add_many(5000);
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), 0) == 0);  // inherited: a reader that never reads
  Following following(bench, {"--after", "020000000000000000"},
                      {"bash", "-c", "exec \"$@\" >&" + std::to_string(ends[1]), "bash"});
  pg::Connection watching = bench.database.connect();
  // Everything has been read that fits the pipe and the memory, and the session rests.
  REQUIRE(wait_until([&] {
    return !watching
                .execute(
                    "SELECT FROM pg_stat_activity WHERE application_name = 'ff-reconcilerd'"
                    " AND datname = current_database() AND state = 'idle' AND query LIKE '%ff_lease_event%'"
                    " AND state_change < clock_timestamp() - interval '500 ms'")
                .empty();
  }));
  CHECK(following.process.running());
  following.process.signal(SIGTERM);
  CHECK(following.process.wait(2s) == 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("lease-events that is killed goes on from its last line without gap or repeat") {
  Bench bench;
  std::vector<std::int64_t> printed;
  std::string cursor = "020000000000000000";
  for (int life = 0; life < 5; ++life) {
    bench.add_many(700, life % 2);
    Following following(bench, {"--after", cursor});
    CHECK(following.printed(life == 4 ? 1 : 300));
    if (life == 4)
      CHECK(wait_until([&] { return ids(following.process.out()).size() + printed.size() == 3500; }));
    following.process.signal(SIGKILL);
    following.process.wait();
    for (const Json& line : lines(following.process.out())) {
      printed.push_back(line["event_id"]);
      cursor = line["cursor"];
    }
  }
  CHECK(printed == bench.ids());
}
