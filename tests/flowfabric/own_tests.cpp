// FlowFabric's own integration tests, run from a copy of the published crate: alone, and with the daemon beside them,
// all its reconcilers at 100 ms, each run on a fresh copy of one database. What fails in two of three runs beside us and
// never alone is our fault, unless the list of exceptions names it; so is a RetryExhausted in any run beside us.
//
//   ff-own-tests CRATE EXCEPTIONS LOGS     (prepared by `./dev conformance`)

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>

#include "support/process.hpp"
#include "testserver/private_server.hpp"

namespace ff::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int kRunsBeside = 3;
constexpr int kRunsAlone = 3;
constexpr int kFailuresThatCount = 2;
constexpr Milliseconds kTimeOfRun = 10min;

// Some tests write events of the year 2023 and want to read them: a shorter retention would delete those.
constexpr const char* kDaemonConfig = R"(
recovery_grace: 0s
reconcilers:
  delayed_promoter: {interval: 100ms}
  lease_expiry: {interval: 100ms}
  attempt_timeout: {interval: 100ms}
  execution_deadline: {interval: 100ms, include_waiting: true}
  suspension_timeout: {interval: 100ms}
  pending_waitpoint_expiry: {interval: 100ms}
  dependency: {interval: 100ms}
  edge_cancel_dispatcher: {interval: 100ms}
  edge_cancel_reconciler: {interval: 100ms}
  budget_reset: {interval: 100ms}
  quota_concurrency: {interval: 100ms}
  worker_registry_ttl: {interval: 100ms}
  outbox_retention: {enabled: true, interval: 100ms, retention: 3650d, worker_events_retention: 3650d}
)";

// Reads the whole schema and writes nothing: run on an empty database, it leaves one that the crate has migrated.
const std::vector<std::string> kMigratingTest{"--test", "schema_0001", "--", "--include-ignored",
                                              "partition_children_are_256"};
// The files of this name want the next event of a partition to be their own. The others leave leases behind, and when
// one lapses, the daemon writes an event too: so these come first, while there is nothing that could lapse.
constexpr std::string_view kSubscribers = "subscribe_";

/// file::test → passed.
using Results = std::map<std::string, bool>;

struct Run {
  Results results;
  std::string log;
};

/// Of the output of `cargo test`, which names each file before its tests.
Results results_in(const std::string& log) {
  static const std::regex file_line(R"( +Running (?:unittests )?(?:.*/)?([a-z0-9_]+)\.rs .*)");
  static const std::regex test_line(R"(test (\S+) \.\.\. (ok|FAILED)$)");
  Results results;
  std::string file;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, file_line)) file = match[1];
    if (std::regex_search(line, match, test_line)) results[file + "::" + match[1].str()] = match[2] == "ok";
  }
  return results;
}

/// The arguments of `cargo test` for the files of tests whose names begin with kSubscribers, or for those whose do not.
std::vector<std::string> arguments_for(const fs::path& tests, bool subscribers) {
  std::vector<std::string> arguments{"--no-fail-fast"};
  for (const auto& file : fs::directory_iterator(tests)) {
    const std::string name = file.path().stem().string();
    if (file.path().extension() == ".rs" && name.starts_with(kSubscribers) == subscribers)
      arguments.insert(arguments.end(), {"--test", name});
  }
  if (arguments.size() == 1)
    throw std::runtime_error(
        fmt::format("{} has no tests {} {}*", tests.string(), subscribers ? "named" : "but", kSubscribers));
  // One at a time: two of a file read each other's events when they run at once.
  arguments.insert(arguments.end(), {"--", "--include-ignored", "--test-threads=1"});
  return arguments;
}

/// test → why it may fail beside us. A line each; `#` begins a comment.
std::map<std::string, std::string> read_exceptions(const fs::path& path) {
  std::map<std::string, std::string> exceptions;
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string test;
    if (words >> test && test[0] != '#') std::getline(words >> std::ws, exceptions[test]);
  }
  return exceptions;
}

class OwnTests {
 public:
  OwnTests(fs::path crate, fs::path logs)
      : crate_(std::move(crate)),
        logs_(std::move(logs)),
        subscribers_(arguments_for(crate_ / "tests", true)),
        others_(arguments_for(crate_ / "tests", false)) {
    fs::create_directories(logs_);
    server_.create_database("template");
    const Run migration = cargo_test("template", kMigratingTest);
    if (migration.results.size() != 1 || !migration.results.begin()->second)
      throw std::runtime_error("the crate cannot make its database:\n" + migration.log);
  }

  Run alone() {
    return run("alone", [] {});
  }

  Run beside_us() {
    std::unique_ptr<RunningDaemon> daemon;
    Run run = this->run("beside", [&] {
      daemon = std::make_unique<RunningDaemon>(
          RunningDaemon::Options{.conninfo = server_.conninfo("tests"), .config = kDaemonConfig});
      if (!wait_until([&] { return daemon->ready(); }))
        throw std::runtime_error("the daemon is not ready: " + daemon->get("/readyz").body);
    });
    moved_ += sum_of(*daemon, "processed_total");
    errors_ += sum_of(*daemon, "errors_total");
    if (daemon->stop() != 0)
      throw std::runtime_error("the daemon did not end well:\n" + daemon->process().err());
    write_log("daemon", daemon->process().err());
    return run;
  }

  /// What the daemon did in all runs beside the tests.
  double moved() const { return moved_; }
  double errors() const { return errors_; }

 private:
  Run run(const std::string& kind, const std::function<void()>& start) {
    server_.drop_database("tests");
    server_.create_database("tests", "template");
    start();
    Run run = cargo_test("tests", subscribers_);
    Run others = cargo_test("tests", others_);
    run.results.merge(others.results);
    run.log += others.log;
    write_log(kind, run.log);
    return run;
  }

  Run cargo_test(const std::string& database, const std::vector<std::string>& arguments) {
    const std::string url =
        "postgres://postgres@localhost/" + database + "?host=" + server_.socket_directory().string();
    // One stream: what cargo says itself names the file that the lines after it belong to.
    std::vector<std::string> command{"sh", "-c", "cd \"$1\" && shift && exec cargo test --locked \"$@\" 2>&1",
                                     "sh", crate_.string()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    Process process(command, {{"FF_PG_TEST_URL", url}});
    if (!process.wait(kTimeOfRun)) throw std::runtime_error("the tests take too long:\n" + process.out());
    return {results_in(process.out()), process.out()};
  }

  void write_log(const std::string& kind, const std::string& text) {
    std::ofstream(logs_ / fmt::format("{}-{}.log", kind, ++written_[kind])) << text;
  }

  static double sum_of(RunningDaemon& daemon, const std::string& metric) {
    double sum = 0;
    std::istringstream lines(daemon.get("/metrics").body);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("ff_reconciler_" + metric)) sum += std::stod(line.substr(line.rfind(' ')));
    return sum;
  }

  const fs::path crate_;
  const fs::path logs_;
  const std::vector<std::string> subscribers_;
  const std::vector<std::string> others_;
  testserver::PrivateServer server_;
  std::map<std::string, int> written_;
  double moved_ = 0;
  double errors_ = 0;
};

/// How often each test failed; one that is missing in a run did not come to its end.
std::map<std::string, int> failures(const std::vector<Run>& runs, const std::set<std::string>& tests) {
  std::map<std::string, int> failed;
  for (const Run& run : runs)
    for (const std::string& test : tests) {
      const auto result = run.results.find(test);
      failed[test] += result == run.results.end() || !result->second ? 1 : 0;
    }
  return failed;
}

class Comparison {
 public:
  Comparison(OwnTests& tests, std::map<std::string, std::string> exceptions)
      : tests_(tests), exceptions_(std::move(exceptions)) {}

  /// Runs alone after the first only serve those that fail beside us, so they are left out where there are none.
  void run() {
    alone_.push_back(announced("alone", [&] { return tests_.alone(); }));
    for (int i = 0; i < kRunsBeside; ++i)
      beside_.push_back(announced("beside the daemon", [&] { return tests_.beside_us(); }));
    count();
    while (suspects() > 0 && alone_.size() < kRunsAlone) {
      alone_.push_back(announced("alone", [&] { return tests_.alone(); }));
      count();
    }
  }

  /// Prints a line for each test that failed, and returns how many are our fault.
  int report() {
    int faults = 0;
    fmt::print("\n{:<76}{:>11}{:>12}\n", "", fmt::format("alone of {}", alone_.size()),
               fmt::format("beside of {}", beside_.size()));
    for (const std::string& test : names_) {
      if (failed_alone_[test] + failed_beside_[test] == 0) continue;
      fmt::print("{:<76}{:>11}{:>12}  {}\n", test, failed_alone_[test], failed_beside_[test], verdict(test));
      if (is_fault(test)) ++faults;
    }
    const int exhausted = runs_with_retry_exhausted();
    if (exhausted > 0) fmt::print("RetryExhausted in {} runs beside the daemon: a fault\n", exhausted);
    fmt::print("{} tests; the daemon moved {:.0f} rows, {:.0f} failed it\n", names_.size(), tests_.moved(),
               tests_.errors());
    return faults + exhausted + (tests_.errors() > 0 ? 1 : 0);
  }

 private:
  template <typename Do>
  static Run announced(const char* what, Do&& run) {
    fmt::print("FlowFabric's own tests, {}: ", what);
    std::fflush(stdout);
    Run done = run();
    const auto failed = std::count_if(done.results.begin(), done.results.end(),
                                      [](const auto& result) { return !result.second; });
    fmt::print("{} of {} failed\n", failed, done.results.size());
    return done;
  }

  void count() {
    for (const auto* runs : {&alone_, &beside_})
      for (const Run& run : *runs)
        for (const auto& [test, passed] : run.results) names_.insert(test);
    if (names_.empty()) throw std::runtime_error("no test ran:\n" + alone_.front().log);
    failed_alone_ = failures(alone_, names_);
    failed_beside_ = failures(beside_, names_);
  }

  bool is_fault(const std::string& test) const {
    return failed_alone_.at(test) == 0 && failed_beside_.at(test) >= kFailuresThatCount &&
           !exceptions_.contains(test);
  }
  std::ptrdiff_t suspects() const {
    return std::count_if(names_.begin(), names_.end(), [&](const auto& test) { return is_fault(test); });
  }

  std::string verdict(const std::string& test) const {
    if (failed_alone_.at(test) > 0) return "fails alone, too";
    if (const auto exception = exceptions_.find(test); exception != exceptions_.end())
      return exception->second;
    return is_fault(test) ? "A FAULT" : "now and then";
  }

  int runs_with_retry_exhausted() const {
    return static_cast<int>(std::count_if(beside_.begin(), beside_.end(), [](const Run& run) {
      return run.log.find("RetryExhausted") != std::string::npos;
    }));
  }

  OwnTests& tests_;
  const std::map<std::string, std::string> exceptions_;
  std::vector<Run> alone_;
  std::vector<Run> beside_;
  std::set<std::string> names_;
  std::map<std::string, int> failed_alone_;
  std::map<std::string, int> failed_beside_;
};

}  // namespace
}  // namespace ff::test

int main(int argc, char** argv) {
  using namespace ff::test;
  std::signal(SIGPIPE, SIG_IGN);
  if (argc != 4) {
    std::cerr << "usage: ff-own-tests CRATE EXCEPTIONS LOGS\n";
    return 64;
  }
  try {
    auto exceptions = read_exceptions(argv[2]);
    OwnTests tests(argv[1], argv[3]);
    Comparison comparison(tests, std::move(exceptions));
    comparison.run();
    return comparison.report() == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "ff-own-tests: " << error.what() << '\n';
    return 70;
  }
}
