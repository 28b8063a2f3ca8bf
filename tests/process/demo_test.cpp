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

#include "demo/view.hpp"
#include "http_server.hpp"
#include "sandbox/books.hpp"
#include "sandbox/child_process.hpp"
#include "support/database.hpp"
#include "support/rows.hpp"

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
  explicit Demo(std::vector<std::string> arguments, std::optional<sandbox::Account> account = std::nullopt) {
    fs::create_directory(temporary());
    fs::permissions(temporary(), fs::perms::all);
    fs::copy_file(FF_BINARY,
                  home_.path / "ff-reconcilerd");  // the build may lie where no other user can look
    arguments.insert(arguments.begin(), "demo");
    process_.emplace(sandbox::Command{
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
  std::optional<sandbox::ChildProcess> process_;
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
std::optional<sandbox::Account> unprivileged() {
  if (::geteuid() != 0) return std::nullopt;
  const passwd* nobody = ::getpwnam("nobody");
  REQUIRE(nobody != nullptr);
  return sandbox::Account{"nobody", nobody->pw_uid, nobody->pw_gid};
}

constexpr const char* kWorking = "00:02";  // its second line on what happens

/// All but outbox_retention, for which nothing is old enough.
constexpr const char* kAtWork[] = {"lease_expiry",     "attempt_timeout",        "execution_deadline",
                                   "delayed_promoter", "suspension_timeout",     "pending_waitpoint_expiry",
                                   "dependency",       "edge_cancel_dispatcher", "edge_cancel_reconciler",
                                   "budget_reset",     "worker_registry_ttl"};

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
  CHECK((end == "exited with 69" || end == "exited with 70"));
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

namespace {

/// A database, a realm in it, and the questions whose answer is wrong.
struct Bookkeeper {
  test::Database database;
  pg::Connection db = database.connect();
  sandbox::Realm realm{"demo", {PartitionKey{3}}};
  sandbox::Ledger ledger;

  std::vector<std::string> wrong() {
    std::vector<std::string> questions;
    for (const sandbox::Verdict& verdict : sandbox::check_books(db, realm, ledger, true).verdicts)
      if (!verdict.balanced) questions.push_back(verdict.question);
    return questions;
  }
  sandbox::Claim claim_new() {
    const ExecutionId id =
        sandbox::create(db, {.partition = {3}, .lane = realm.name, .name_space = realm.name});
    ledger.created({id}, std::nullopt);
    ledger.claimed();
    return worker().claim_one(id).value();
  }
  sandbox::Worker worker() { return {db, "w1", 30s, realm.name}; }
  void dispatch_all() { db.execute("UPDATE ff_completion_event SET dispatched_at_ms = 1"); }
};

using Questions = std::vector<std::string>;

}  // namespace

TEST_CASE("books in which a crash was not noticed do not balance") {
  Bookkeeper books;
  CHECK(books.wrong().empty());

  const sandbox::Claim claim = books.claim_new();
  books.ledger.crashed(claim);
  CHECK(books.wrong() ==
        Questions{"every execution is in a legal state", "every crash was noticed, exactly once"});
  // What the ledger takes for a crash goes on after all.
  CHECK(books.worker().complete(claim));
  books.dispatch_all();
  CHECK(books.wrong() ==
        Questions{"every crash was noticed, exactly once", "no work was lost or done twice"});
  books.ledger.ghost(false);
  CHECK(books.wrong().size() == 3);
}

TEST_CASE("books in which a delay or an ending was overlooked do not balance") {
  Bookkeeper books;
  const sandbox::Claim delayed = books.claim_new();
  CHECK(books.worker().delay(delayed, 1ms));
  books.ledger.delayed(delayed);
  CHECK(books.wrong() == Questions{"every execution is in a legal state", "every delay has ended"});
  books.db.execute(
      "UPDATE ff_exec_core SET eligibility_state = 'eligible_now', public_state = 'waiting', "
      "deadline_at_ms = NULL");
  CHECK(books.wrong().empty());

  const sandbox::Claim completed = books.claim_new();
  CHECK(books.worker().complete(completed));
  books.ledger.completed(completed);
  CHECK(books.wrong() == Questions{"every ending was passed on"});
}

TEST_CASE("books in which a suspension ended otherwise than it had to do not balance") {
  Bookkeeper books;
  const sandbox::Claim claim = books.claim_new();
  const sandbox::Suspension suspension{
      .timeout_in = 1ms, .timeout_behavior = "escalate", .waitpoints = {{"approval", 1ms}}};
  CHECK(books.worker().suspend(claim, suspension));
  books.ledger.suspended(claim, suspension);
  CHECK(books.wrong() == Questions{"every execution is in a legal state",
                                   "every suspension ended as it had to", "no waitpoint outlived its time"});
  books.db.execute("DELETE FROM ff_waitpoint_pending");
  books.db.execute("DELETE FROM ff_suspension_current");
  const auto end_with = [&](const std::string& reason) {
    books.db.execute(
        "UPDATE ff_exec_core SET lifecycle_phase = 'terminal', ownership_state = 'unowned', "
        "public_state = 'expired', attempt_state = 'attempt_terminal', terminal_at_ms = 1, "
        "cancellation_reason = $1",
        pg::Params::of(reason));
  };
  end_with("suspension_timeout_fail");
  books.db.execute(
      "INSERT INTO ff_completion_event (partition_key, execution_id, outcome, namespace, occurred_at_ms, "
      "dispatched_at_ms) SELECT partition_key, execution_id, 'expired', 'demo', 1, 1 FROM ff_exec_core");
  CHECK(books.wrong() == Questions{"every suspension ended as it had to"});
  end_with("suspension_timeout_escalate");
  CHECK(books.wrong().empty());
}

TEST_CASE("books in which a flow, a budget or a worker was forgotten do not balance") {
  Bookkeeper books;
  const Uuid flow = test::new_uuid();
  const auto add = [&](const test::State& state) {
    const Uuid id = test::insert_core(books.db, {.partition = {3},
                                                 .flow = flow,
                                                 .state = state,
                                                 .lane = books.realm.name,
                                                 .raw_fields = {{"namespace", books.realm.name}}});
    books.ledger.created({{PartitionKey{3}, id}}, std::nullopt);
    return id;
  };
  const Uuid upstream = add(test::runnable());
  const Uuid downstream = add(test::blocked());
  const auto in_flow = pg::Params::of(PartitionKey{3}, flow, upstream, downstream);
  books.db.execute(
      "INSERT INTO ff_edge (partition_key, flow_id, edge_id, upstream_eid, downstream_eid, policy) "
      "VALUES ($1, $2, gen_random_uuid(), $3, $4, '{}')",
      in_flow);
  books.db.execute(
      "INSERT INTO ff_edge_group (partition_key, flow_id, downstream_eid, policy, k_target, running_count) "
      "VALUES ($1, $2, $3, '{}', 1, 1)",
      pg::Params::of(PartitionKey{3}, flow, downstream));
  CHECK(books.wrong().empty());

  const sandbox::Claim claim = books.worker().claim_one({PartitionKey{3}, upstream}).value();
  CHECK(books.worker().complete(claim));
  books.ledger.completed(claim);
  books.dispatch_all();
  CHECK(books.wrong() == Questions{"flows agree with what has ended"});
  books.db.execute("UPDATE ff_edge_group SET running_count = 0, success_count = 1");
  CHECK(books.wrong() == Questions{"flows agree with what has ended"});  // the downstream still waits
  books.db.execute(
      "UPDATE ff_exec_core SET lifecycle_phase = 'runnable', eligibility_state = 'eligible_now' "
      "WHERE lifecycle_phase = 'blocked'");
  CHECK(books.wrong().empty());

  books.db.execute("INSERT INTO ff_pending_cancel_groups VALUES ($1, $2, $3, 1)",
                   pg::Params::of(PartitionKey{3}, flow, downstream));
  books.db.execute(
      "INSERT INTO ff_budget_policy (partition_key, budget_id, policy_json, created_at_ms, updated_at_ms, "
      "next_reset_at_ms) VALUES (0, 'b', '{}', 1, 1, 1)");
  books.db.execute("INSERT INTO ff_worker_registry VALUES (0, 'demo', 'w1', 'w1', '{}', '', 1, 1, 1)");
  CHECK(books.wrong() == Questions{"no sibling waits to be cancelled", "every budget was reset when due",
                                   "no silent worker is on the register"});
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
  const sandbox::Claim claim{{PartitionKey{3}, test::new_uuid()}, 2, 3};
  for (const auto doing : {sandbox::WorkerState::Doing::working, sandbox::WorkerState::Doing::crashed})
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
