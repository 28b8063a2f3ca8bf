// What the daemon does when all is well: it becomes ready, moves what is due, answers HTTP and stops when
// asked.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "support/database.hpp"
#include "support/http_exchange.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"

using namespace ff;
using namespace ff::test;
using namespace std::chrono_literals;

namespace {

constexpr const char* kConfig = R"(
partitions: 0-3
recovery_grace: 0s
reconcilers:
  lease_expiry: {interval: 100ms}
  attempt_timeout: {interval: 100ms}
)";

int leases(pg::Connection& db) {
  return db.execute("SELECT count(*)::integer FROM ff_attempt WHERE lease_expires_at_ms IS NOT NULL")
      .one()
      .get<std::int32_t>(0);
}

Uuid insert_with_lease(pg::Connection& db, PartitionKey partition, std::int64_t expires_at_ms) {
  const Uuid id = insert_core(db, {.partition = partition, .policy = max_retries(3)});
  insert_attempt(db, {.partition = partition, .execution = id, .lease_expires_at_ms = expires_at_ms});
  return id;
}

/// The status line's number of the answer to any request; the server closes after it.
int status_of(unsigned short port, const std::string& request_line) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const std::string request =
      request_line + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  REQUIRE(::send(fd, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
    answer.append(buffer, static_cast<std::size_t>(got));
  ::close(fd);
  REQUIRE(answer.starts_with("HTTP/1.1 "));
  return std::stoi(answer.substr(9, 3));
}

/// How many file descriptors a process may have, as /proc shows it.
std::string descriptors(pid_t pid) {
  constexpr std::string_view kName = "Max open files";
  std::ifstream limits("/proc/" + std::to_string(pid) + "/limits");
  std::string most;
  for (std::string line; std::getline(limits, line);)
    if (line.starts_with(kName)) std::istringstream(line.substr(kName.size())) >> most;
  return most;
}

}  // namespace

TEST_CASE("a line of JSON that tells of a tick has the reconciler and what was counted as fields") {
  Database database;
  auto db = database.connect();
  insert_with_lease(db, {1}, now_ms(db) - 1000);
  RunningDaemon daemon(
      {.conninfo = database.conninfo(), .config = std::string(kConfig) + "log: {format: json}\n"});
  Json found;
  REQUIRE(wait_until([&] {
    std::istringstream lines(daemon.process().err());
    for (std::string line; std::getline(lines, line) && !lines.eof();)
      if (line.find("scanned=") != std::string::npos) found = Json::parse(line);
    return !found.is_null();
  }));
  CHECK(found["reconciler"] == "lease_expiry");
  CHECK(found["scanned"] == 1);
  CHECK(found["processed"] == 1);
  CHECK(found["errors"] == 0);
  CHECK(found["tick"] >= 1);
  CHECK(daemon.stop() == 0);
}

TEST_CASE("the daemon becomes ready, moves lapsed leases, and leaves healthy ones alone") {
  Database database;
  auto db = database.connect();
  const std::int64_t now = now_ms(db);
  std::vector<Uuid> lapsed;
  for (std::int16_t i = 0; i < 20; ++i)
    lapsed.push_back(insert_with_lease(db, {static_cast<std::int16_t>(i % 4)}, now - 1000));
  const Uuid healthy = insert_with_lease(db, {1}, now + 3'600'000);
  const Uuid of_others = insert_with_lease(db, {9}, now - 1000);
  const auto healthy_before = std::pair(core(db, healthy), attempt(db, healthy));

  RunningDaemon daemon({.conninfo = database.conninfo(), .config = kConfig});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  REQUIRE(wait_until([&] { return leases(db) == 2; }));
  for (const Uuid& id : lapsed) CHECK(core(db, id)["lifecycle_phase"] == "runnable");
  CHECK(std::pair(core(db, healthy), attempt(db, healthy)) == healthy_before);
  CHECK(attempt(db, of_others)["lease_epoch"] == 1);

  // What becomes due while it runs is moved as well.
  const Uuid later = insert_with_lease(db, {2}, now_ms(db) + 300);
  CHECK(wait_until([&] { return core(db, later)["lifecycle_phase"] == "runnable"; }));

  CHECK(wait_until([&] {
    return daemon.metric(R"(ff_reconciler_processed_total{outcome="retried",reconciler="attempt_timeout"})") +
               daemon.metric(
                   R"(ff_reconciler_processed_total{outcome="reclaimable",reconciler="lease_expiry"})") ==
           21;
  }));
  CHECK(daemon.stop() == 0);
}

TEST_CASE("the daemon's pages say what it does") {
  Database database;
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = kConfig});
  REQUIRE(wait_until([&] { return daemon.state() == "ready"; }));

  SECTION("promtool finds nothing to say about its metrics") {
    REQUIRE(run({"sh", "-c", "command -v promtool"}).code == 0);
    const auto metrics = daemon.get("/metrics");
    CHECK(metrics.status == 200);
    const Ended lint = run({"promtool", "check", "metrics"}, {}, metrics.body);
    CHECK(lint.code == 0);
    CHECK(lint.out + lint.err == "");
    CHECK(daemon.metric("ff_reconciler_ready") == 1);
    CHECK(daemon.metric(R"(ff_reconciler_state{state="ready"})") == 1);
    CHECK(daemon.metric(R"(ff_reconciler_state{state="unreachable"})") == 0);
  }
  SECTION("livez, readyz and status are JSON") {
    const auto livez = daemon.get("/livez");
    CHECK(livez.status == 200);
    CHECK(Json::parse(livez.body) == Json{{"alive", true}});
    const auto readyz = daemon.get("/readyz");
    CHECK(readyz.status == 200);
    CHECK(Json::parse(readyz.body) == Json{{"ready", true}, {"state", "ready"}, {"reasons", Json::array()}});
    REQUIRE(wait_until([&] { return Json::parse(daemon.get("/status").body)["reconcilers"].size() >= 2; }));
    const Json status = Json::parse(daemon.get("/status").body);
    CHECK(status["state"] == "ready");
    CHECK(status["schema_version"].get<int>() > 0);
    CHECK(status["pool"]["size"].is_number());
  }
  SECTION("other paths are not found and other methods not allowed") {
    CHECK(daemon.get("/nowhere").status == 404);
    CHECK(daemon.get("/metrics/").status == 404);
    CHECK(status_of(daemon.port(), "POST /metrics") == 405);
    CHECK(status_of(daemon.port(), "DELETE /livez") == 405);
    CHECK(status_of(daemon.port(), "HEAD /readyz") == 200);
  }
  CHECK(daemon.stop() == 0);
}

TEST_CASE("a flood of requests for metrics has them rendered every 200 ms at most") {
  Database database;
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = kConfig});
  REQUIRE(wait_until([&] { return daemon.ready(); }));
  constexpr int kRequests = 1000;
  std::string flood;
  for (int i = 0; i < kRequests; ++i) flood += get("/metrics");
  Client client(daemon.port());
  const SteadyTime started = Clock::system().now();
  client.send(flood);
  // Each rendering takes processor time, which is among what is rendered.
  std::set<std::string> rendered;
  for (int i = 0; i < kRequests; ++i) rendered.insert(client.reply());
  const auto took = std::chrono::duration_cast<Milliseconds>(Clock::system().now() - started);
  for (const std::string& reply : rendered) CHECK(test::status_of(reply) == 200);
  CHECK(rendered.size() <= 2 + static_cast<std::size_t>(took / 200ms));

  const SteadyTime begun = Clock::system().now();
  std::set<std::string> anew;
  for (int i = 0; i < kRequests; ++i) anew.insert(Client(daemon.port()).ask(get("/metrics")));
  const auto lasted = std::chrono::duration_cast<Milliseconds>(Clock::system().now() - begun);
  CHECK(anew.size() <= 2 + static_cast<std::size_t>(lasted / 200ms));
  CHECK(daemon.stop() == 0);
}

TEST_CASE("an idle daemon is silent after it became ready, and stops on SIGTERM and on SIGINT") {
  Database database;
  const int number = GENERATE(SIGTERM, SIGINT);
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = kConfig});
  const auto ticks = [&] {
    return daemon.metric(R"(ff_reconciler_ticks_total{reconciler="attempt_timeout",result="success"})");
  };
  REQUIRE(wait_until([&] { return ticks() >= 1; }));
  const std::string log = daemon.process().err();
  REQUIRE(wait_until([&] { return ticks() >= 5; }));
  CHECK(daemon.process().err() == log);

  daemon.process().signal(number);
  CHECK(daemon.process().wait(20s) == 0);
  CHECK(daemon.process().err_has("stopping on signal " + std::to_string(number)));
  CHECK(daemon.process().err_has("stopped"));
  CHECK(daemon.process().out() == "");
}

TEST_CASE("a log for machines is one JSON object a line") {
  Database database;
  auto db = database.connect();
  insert_with_lease(db, {0}, now_ms(db) - 1000);
  RunningDaemon daemon({.conninfo = database.conninfo(),
                        .config = std::string(kConfig) + "log: {format: json, level: debug}\n"});
  REQUIRE(wait_until([&] { return leases(db) == 0; }));
  REQUIRE(daemon.stop() == 0);
  std::istringstream lines(daemon.process().err());
  bool with_tick = false;
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    CAPTURE(line);
    const Json json = Json::parse(line);
    CHECK(json["time_ms"].is_number_integer());
    CHECK(json["level"].is_string());
    CHECK(json["message"].is_string());
    with_tick = with_tick || (json.contains("tick") && json["tick"].get<int>() > 0);
  }
  CHECK(count > 3);
  CHECK(with_tick);
}

TEST_CASE("in a log for machines a row that fails is told of in fields") {
  Database database;
  auto db = database.connect();
  insert_with_lease(db, {2}, now_ms(db) - 1000);
  db.execute_script(
      "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'no'; END$$;"
      "CREATE TRIGGER poison BEFORE UPDATE ON ff_attempt FOR EACH ROW EXECUTE FUNCTION poison()");
  RunningDaemon daemon(
      {.conninfo = database.conninfo(), .config = std::string(kConfig) + "log: {format: json}\n"});
  REQUIRE(wait_until([&] { return daemon.process().err_has("quarantined for"); }));
  REQUIRE(daemon.stop() == 0);
  std::istringstream lines(daemon.process().err());
  int told = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    if (!json.contains("sqlstate")) continue;
    ++told;
    CHECK(json["sqlstate"] == "P0001");
    CHECK(json["partition"] == 2);
    CHECK_THAT(json["execution"].get<std::string>(), Catch::StartsWith("{fp:2}:"));
    CHECK(json["reconciler"].is_string());
  }
  CHECK(told > 0);
}

TEST_CASE("under journald each line begins with its priority instead of a time") {
  const TemporaryDirectory directory;
  const std::string config = directory.write(
      "config.yaml", "database: {url: 'host=/nonexistent dbname=flow'}\nhttp: {listen: '127.0.0.1:0'}\n");
  // Where the variable names another stream, standard error is not the journal, whoever left it in the environment.
  const bool is_journal = GENERATE(true, false);
  const std::string stream = is_journal ? "$(stat -L -c %d:%i /proc/self/fd/2)" : "8:1";
  Process daemon(
      {"sh", "-c", "JOURNAL_STREAM=" + stream + " exec \"$1\" run --config \"$2\"", "sh", FF_BINARY, config});
  REQUIRE(wait_until([&] { return daemon.err().find("unreachable") != std::string::npos; }));
  daemon.signal(SIGTERM);
  REQUIRE(daemon.wait() == 0);
  std::istringstream lines(daemon.err());
  std::map<std::string, int> priorities;
  for (std::string line; std::getline(lines, line);) ++priorities[line.substr(0, 3)];
  if (!is_journal) {
    CHECK(priorities.size() == 1);
    CHECK(priorities.begin()->first.substr(0, 2) == "20");
    return;
  }
  CHECK(priorities["<6>"] >= 2);
  CHECK(priorities["<4>"] == 1);
  CHECK(priorities.size() == 2);
}

TEST_CASE("a port that is taken ends the daemon with an error that names the address") {
  Database database;
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = kConfig});
  const std::string address = "127.0.0.1:" + std::to_string(daemon.port());
  const Ended second =
      run_binary({"run"}, {{"FF_DATABASE_URL", database.conninfo()}, {"FF_RECONCILER_HTTP_LISTEN", address}});
  CHECK(second.code == 70);
  CHECK_THAT(second.err, Catch::Contains(address));
}

TEST_CASE("where standard descriptors are closed, no socket and no file takes their numbers") {
  const TemporaryDirectory directory;
  const std::string config = directory.write(
      "config.yaml", "database: {url: 'host=/nonexistent dbname=flow'}\nhttp: {listen: '127.0.0.1:0'}\n");
  Process daemon({"sh", "-c", "exec \"$1\" run --config \"$2\" <&- >&- 2>&-", "sh", FF_BINARY, config});
  const std::filesystem::path process = "/proc/" + std::to_string(daemon.pid());
  const auto target = [&](const std::string& link) {
    std::error_code none;
    return std::filesystem::read_symlink(process / link, none).string();
  };
  // Until then the descriptors are those of who starts it.
  wait_until([&] { return target("exe") == std::filesystem::canonical(FF_BINARY); });
  for (const char* descriptor : {"fd/0", "fd/1", "fd/2"}) {
    wait_until([&] { return target(descriptor) == "/dev/null"; });
    CAPTURE(descriptor);
    CHECK(target(descriptor) == "/dev/null");
  }
  CHECK(daemon.running());
}

TEST_CASE("the daemon takes as many file descriptors as it may need, and warns where it does not get them") {
  const TemporaryDirectory directory;
  const std::string config = directory.write(
      "config.yaml", "database: {url: 'host=/nonexistent dbname=flow'}\nhttp: {listen: '127.0.0.1:0'}\n");
  const auto [limit, is_enough] =
      GENERATE(table<std::string, bool>({{"ulimit -S -n 60", true}, {"ulimit -n 60", false}}));
  CAPTURE(limit);
  Process daemon({"sh", "-c", limit + "; exec \"$1\" run --config \"$2\"", "sh", FF_BINARY, config});
  REQUIRE(wait_until([&] { return daemon.err_has("serves http on"); }));
  CHECK(descriptors(daemon.pid()) == (is_enough ? "106" : "60"));
  CHECK(daemon.err_has("60 file descriptors are allowed and up to 106 may be needed") == !is_enough);
  CHECK(daemon.err_has("LimitNOFILE=") == !is_enough);
}

TEST_CASE("a log that has reached the limit of a file does not end the daemon") {
  Database database;
  RunningDaemon daemon({.conninfo = database.conninfo(), .config = kConfig});
  daemon.wait_until_ready();
  daemon.process().signal(SIGXFSZ);
  CHECK(daemon.ready());
  CHECK(daemon.stop() == 0);
}

TEST_CASE("a daemon that cannot have all its threads says so and ends") {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  WARN("left out: under a sanitizer a process takes more address space than it has here");
  return;
#endif
  const TemporaryDirectory directory;
  const std::string config = directory.write(
      "config.yaml", "database: {url: 'host=/nonexistent dbname=flow'}\nhttp: {listen: '127.0.0.1:0'}\n");
  // A stack takes a gigabyte, of which there are four.
  Process daemon({"sh", "-c", "ulimit -s 1048576; ulimit -v 4194304; exec \"$1\" run --config \"$2\"", "sh",
                  FF_BINARY, config});
  CHECK(daemon.wait(10s) == 70);
  CHECK(daemon.err_has("of 4 for the reconcilers cannot be made: Resource temporarily unavailable"));
}
