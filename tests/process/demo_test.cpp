#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include "demo/simulation/books.hpp"
#include "demo/view.hpp"
#include "http_server.hpp"
#include "support/database.hpp"
#include "support/process.hpp"
#include "support/rows.hpp"
#include "testserver/child_process.hpp"

using namespace ff;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

SteadyTime in(Milliseconds time) {
  return Clock::system().now() + time;
}

/// A directory that any user can reach and write to, gone at the end.
struct OpenDirectory {
  OpenDirectory() {
    std::string pattern = "/tmp/ff-demo-XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
    fs::permissions(path, fs::perms::all);
  }
  ~OpenDirectory() { fs::remove_all(path); }
  fs::path path;
};

/// The demo as a process of its own, whose output is no terminal and whose temporary files are all in one
/// directory.
class Demo {
 public:
  explicit Demo(std::vector<std::string> arguments,
                std::optional<testserver::Account> account = std::nullopt) {
    fs::create_directory(temporary());
    fs::permissions(temporary(), fs::perms::all);
    // The build may lie where no other user can look.
    for (const char* program : {"ff-reconcilerd", "ff-reconciler-demo"})
      fs::copy_file(fs::path(FF_BINARY).replace_filename(program), home_.path / program);
    arguments.insert(arguments.begin(), "demo");
    process_.emplace(testserver::Command{
        .program = home_.path / "ff-reconcilerd",
        .arguments = arguments,
        .environment = {"TMPDIR=" + temporary().string(), std::string("PATH=") + std::getenv("PATH")},
        .directory = home_.path,
        .output = output_path(),
        .account = std::move(account)});
  }

  std::string output() const {
    std::stringstream text;
    text << std::ifstream(output_path()).rdbuf();
    return text.str();
  }
  bool says(const std::string& text) const { return output().find(text) != std::string::npos; }
  void wait_until_it_says(const std::string& text) {
    const SteadyTime deadline = in(60s);
    while (!says(text)) {
      INFO(output());
      REQUIRE_FALSE(process_->ended());
      REQUIRE(Clock::system().now() < deadline);
      std::this_thread::sleep_for(10ms);
    }
  }
  /// That the reconciler has moved a row.
  void wait_until_its_metrics_count(const std::string& reconciler) {
    const std::regex moved("ff_reconciler_processed_total\\{[^}]*reconciler=\"" + reconciler +
                           "\"[^}]*\\} [1-9]");
    const SteadyTime deadline = in(120s);
    while (!std::regex_search(metrics(), moved)) {
      INFO(output());
      REQUIRE_FALSE(process_->ended());
      REQUIRE(Clock::system().now() < deadline);
      std::this_thread::sleep_for(100ms);
    }
  }
  void send(int signal) { process_->send(signal); }
  std::string end() {
    INFO(output());
    REQUIRE(process_->wait_until(in(120s)));
    return process_->state();
  }

  /// The postmaster's process; the server has to be running.
  pid_t server() const {
    for (const auto& entry : fs::directory_iterator(temporary())) {
      std::ifstream file(entry.path() / "data" / "postmaster.pid");
      pid_t pid = 0;
      if (file >> pid) return pid;
    }
    FAIL("no server");
    return 0;
  }
  bool left_files() const { return !fs::is_empty(temporary()); }

 private:
  fs::path temporary() const { return home_.path / "t"; }
  fs::path output_path() const { return home_.path / "output"; }
  std::string metrics() const {
    const std::string text = output();
    std::smatch port;
    REQUIRE(std::regex_search(text, port, std::regex("http://127\\.0\\.0\\.1:([0-9]+)/metrics")));
    std::string page;
    REQUIRE(daemon::http_get_status("127.0.0.1", static_cast<unsigned short>(std::stoi(port[1])), "/metrics",
                                    5s, &page) == 200);
    return page;
  }

  OpenDirectory home_;
  std::optional<testserver::ChildProcess> process_;
};

bool is_alive(pid_t pid) {
  return ::kill(pid, 0) == 0;
}

bool gone_by(SteadyTime deadline, pid_t pid) {
  while (is_alive(pid)) {
    if (Clock::system().now() >= deadline) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

/// Nobody in particular, where we can become that.
std::optional<testserver::Account> unprivileged() {
  if (::geteuid() != 0) return std::nullopt;
  const passwd* nobody = ::getpwnam("nobody");
  REQUIRE(nobody != nullptr);
  return testserver::Account{"nobody", nobody->pw_uid, nobody->pw_gid};
}

constexpr const char* kWorking = "  ready  ";  // stands in the lines on what happens, once something does

/// All but group_recount, which takes nobody for misled whose fan-in has not stood still for a minute.
constexpr const char* kAtWork[] = {
    "delayed_promoter",       "grant_expiry",       "dead_worker",         "lease_expiry",
    "attempt_timeout",        "execution_deadline", "suspension_timeout",  "pending_waitpoint_expiry",
    "stray_waitpoint",        "completion_repair",  "dependency",          "edge_cancel_dispatcher",
    "edge_cancel_reconciler", "cancel_backlog",     "index_repair",        "budget_reset",
    "quota_concurrency",      "quota_window",       "worker_registry_ttl", "execution_retention",
    "outbox_retention"};

}  // namespace

TEST_CASE("the demo ends after its seconds, its books balance and nothing is left") {
  Demo demo({"--seconds", "6"});
  demo.wait_until_it_says(kWorking);
  const pid_t server = demo.server();
  CHECK(demo.end() == "exited with 0");
  INFO(demo.output());
  CHECK(demo.says("Summary"));
  CHECK(demo.says("right  every crash was noticed, exactly once"));
  CHECK(demo.says("The books balance."));
  CHECK_FALSE(demo.says("WRONG"));
  CHECK_FALSE(demo.says("\033"));
  CHECK_FALSE(demo.says("  0 crashes"));
  CHECK_FALSE(is_alive(server));
  CHECK_FALSE(demo.left_files());
}

TEST_CASE("the demo gives every reconciler rows to move, however slow the machine is") {
  Demo demo({});
  demo.wait_until_it_says(kWorking);
  for (const std::string reconciler : kAtWork) {
    INFO(reconciler);
    demo.wait_until_its_metrics_count(reconciler);
  }
  demo.send(SIGINT);
  CHECK(demo.end() == "exited with 0");
  INFO(demo.output());
  for (const std::string reconciler : kAtWork) {
    INFO(reconciler);
    CHECK(demo.says("right  /metrics of " + reconciler));
    CHECK(demo.says("\n  " + reconciler + " "));
  }
  CHECK(demo.says("The books balance."));
}

TEST_CASE("the demo of an unprivileged user ends on Ctrl-C with a summary, and nothing is left") {
  Demo demo({}, unprivileged());
  demo.wait_until_it_says(kWorking);
  const pid_t server = demo.server();
  demo.send(SIGINT);
  CHECK(demo.end() == "exited with 0");
  INFO(demo.output());
  CHECK(demo.says("The books balance."));
  CHECK_FALSE(is_alive(server));
  CHECK_FALSE(demo.left_files());
}

TEST_CASE("a second Ctrl-C ends the demo without the check, and nothing is left") {
  Demo demo({});
  demo.wait_until_it_says(kWorking);
  const pid_t server = demo.server();
  demo.send(SIGINT);
  demo.wait_until_it_says("Finishing");
  demo.send(SIGINT);
  CHECK(demo.end() == "exited with 1");
  INFO(demo.output());
  CHECK(demo.says("without a check of the books"));
  CHECK_FALSE(is_alive(server));
  CHECK_FALSE(demo.left_files());
}

TEST_CASE("a demo that is killed leaves no server behind") {
  Demo demo({});
  demo.wait_until_it_says(kWorking);
  const pid_t server = demo.server();
  demo.send(SIGKILL);
  CHECK(demo.end() == "was killed by signal 9");
  CHECK(gone_by(in(10s), server));
}

TEST_CASE("the demo says so when its database goes away") {
  Demo demo({});
  demo.wait_until_it_says(kWorking);
  ::kill(demo.server(), SIGQUIT);
  const std::string end = demo.end();
  INFO(demo.output());
  CHECK(end == "exited with 69");
  CHECK(demo.says("\nff-reconcilerd: "));
  CHECK_FALSE(demo.left_files());
}

TEST_CASE("the demo in a given database touches no execution of others") {
  const test::Database database;
  pg::Connection db = database.connect();
  const auto lapsed = test::now_ms(db) - 60'000;
  const Uuid active = test::insert_core(db, {.partition = {3}, .raw_fields = test::origin("other", "i-1")});
  test::insert_attempt(db, {.partition = {3}, .execution = active, .lease_expires_at_ms = lapsed});
  const Uuid waiting = test::insert_core(db, {.partition = {4}, .state = test::runnable()});
  const auto others = [&] {
    return std::vector{test::core(db, active), test::attempt(db, active), test::core(db, waiting)};
  };
  const auto before = others();

  Demo demo({"--seconds", "5", "--database-url", database.conninfo()});
  CHECK(demo.end() == "exited with 0");
  INFO(demo.output());
  CHECK(demo.says("The books balance."));
  CHECK(demo.says("Left in the database"));
  CHECK(others() == before);
}

TEST_CASE("the demo refuses a number of seconds that is none") {
  CHECK(Demo({"--seconds", "0"}).end() == "exited with 64");
}

TEST_CASE("where the demo is not installed, the daemon's binary says where it is to be had") {
  const test::TemporaryDirectory elsewhere;
  const fs::path program = elsewhere.path() / "bin/ff-reconcilerd";
  fs::create_directory(program.parent_path());
  fs::copy_file(FF_BINARY, program);
  const auto start = [&] { return test::run({program.string(), "demo", "--seconds", "1"}); };
  const test::Ended alone = start();
  CHECK(alone.code == 69);
  CHECK_THAT(alone.err, Catch::Matchers::Contains("ff-reconciler-demo, which is not installed here"));

  const fs::path installed = elsewhere.path() / "libexec/ff-reconciler";
  fs::create_directories(installed);
  fs::create_symlink("/bin/echo", installed / "ff-reconciler-demo");
  CHECK(start().out == "--seconds 1\n");
}

TEST_CASE("the demo's screen fits into every terminal") {
  daemon::Scene scene;
  scene.now = Clock::system().now();
  scene.state = "ready";
  scene.database = std::string(100, 'd');
  for (const char* name : {"lease_expiry", "attempt_timeout"}) {
    daemon::StatusBoard::Totals totals;
    totals.processed = 123'456;
    totals.outcomes = {{"reclaimable", 123'000}, {"released", 456}};
    scene.reconcilers.push_back({name, true, "", totals, 12.5});
    scene.reconcilers.push_back({std::string(name) + "_of_others", false, "", totals, 12.5});
    scene.reconcilers.push_back({"off_" + std::string(name), false, "for a reason", {}, 0});
  }
  const simulation::Claim claim{{PartitionKey{3}, test::new_uuid()}, 2, 3};
  for (const auto doing : {simulation::WorkerState::Doing::working, simulation::WorkerState::Doing::crashed})
    scene.workers.push_back({"w1.100", doing, claim, scene.now, 400ms});
  for (int i = 0; i < 50; ++i) scene.latest.push_back({scene.now, "something happened"});
  for (const int rows : {1, 5, 12, 24, 40, 100}) {
    for (const int columns : {1, 20, 80, 200}) {
      const auto lines = daemon::screen(scene, {columns, rows, false, false});
      INFO(rows << " rows, " << columns << " columns");
      CHECK(lines.size() <= static_cast<std::size_t>(rows));
      for (const std::string& line : lines) CHECK(line.size() <= static_cast<std::size_t>(columns));
    }
  }
}
