// Beside FlowFabric's own server: two replicas of the daemon and several workers, all as processes, all killed at
// random, on the same few executions at the same time. Every change of a row is recorded where it is made. When the
// time is over, everything stops, each transaction of the daemon is judged as a turn of the random histories is, all
// clocks run out, and everybody must have a future.
//
//   ff-long SERVER [--seconds N] [--seed N]     (prepared by `./dev conformance --long`)
//
// The seed gives what is done and who is killed when; what runs at the same time the machine decides.

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <future>
#include <iostream>
#include <memory>
#include <random>
#include <thread>

#include "long/audit.hpp"
#include "long/server.hpp"

namespace ff::test {
namespace {

using namespace std::chrono_literals;

constexpr int kWorkers = 6;
constexpr int kReplicas = 2;
constexpr int kShownInFull = 3;

// Histories live in few partitions; short intervals, so that there is much to disturb.
constexpr const char* kDaemonConfig = R"(
partitions: 0-3
recovery_grace: 0s
reconcilers:
  delayed_promoter: {interval: 100ms}
  lease_expiry: {interval: 100ms}
  attempt_timeout: {interval: 100ms}
  execution_deadline: {interval: 100ms}
  suspension_timeout: {interval: 100ms}
  pending_waitpoint_expiry: {interval: 100ms}
  dependency: {interval: 100ms, stale_threshold: 100ms}
  edge_cancel_dispatcher: {interval: 100ms}
  edge_cancel_reconciler: {interval: 100ms}
  budget_reset: {interval: 100ms}
  quota_concurrency: {interval: 100ms}
  worker_registry_ttl: {interval: 100ms}
)";

struct Options {
  std::string server;
  Milliseconds time = 60s;
  std::uint64_t seed = 0;
};

/// Two daemons over the database. One that is killed is back after a while.
class Replicas {
 public:
  explicit Replicas(std::string conninfo) : conninfo_(std::move(conninfo)) {
    for (auto& replica : replicas_) replica = make();
    for (auto& replica : replicas_)
      if (!wait_until([&] { return replica->ready(); }))
        throw std::runtime_error("the daemon is not ready: " + replica->process().err());
  }

  void kill(int number) {
    auto& replica = replicas_.at(static_cast<std::size_t>(number));
    replica->process().signal(SIGKILL);
    replica->process().wait();
    hear(*replica);
    replica = make();
    ++kills_;
  }

  void stop() {
    for (auto& replica : replicas_) {
      const auto ended = replica->stop();
      if (ended != 0) throw std::runtime_error("the daemon did not end well: " + replica->process().err());
      hear(*replica);
    }
  }

  int kills() const { return kills_; }
  /// Lines of their logs that say that something failed.
  const std::vector<std::string>& errors() const { return errors_; }

 private:
  std::unique_ptr<RunningDaemon> make() const {
    return std::make_unique<RunningDaemon>(
        RunningDaemon::Options{.conninfo = conninfo_, .config = kDaemonConfig});
  }

  void hear(RunningDaemon& replica) {
    std::istringstream lines(replica.process().err());
    for (std::string line; std::getline(lines, line);)
      if (line.find(" error ") != std::string::npos ||
          (line.find(" errors=") != std::string::npos && line.find(" errors=0 ") == std::string::npos))
        errors_.push_back(line);
  }

  const std::string conninfo_;
  std::array<std::unique_ptr<RunningDaemon>, kReplicas> replicas_;
  int kills_ = 0;
  std::vector<std::string> errors_;
};

/// The workers, each in a thread of its own.
class Crowd {
 public:
  Crowd(const Stage& stage, std::uint64_t seed) {
    for (int i = 0; i < kWorkers; ++i)
      workers_.push_back(std::make_unique<Worker>(
          shared_, Worker::Options{i, seed + static_cast<std::uint64_t>(i) + 1, stage.database().url(),
                                   &stage.database().connector()}));
    for (auto& worker : workers_)
      threads_.push_back(std::async(std::launch::async, [&] { worker->work(over_); }));
  }
  ~Crowd() { over_ = true; }

  bool kill(int number) { return workers_.at(static_cast<std::size_t>(number))->kill(); }
  /// Throws what a worker threw.
  std::vector<Deed> stop() {
    over_ = true;
    for (auto& thread : threads_) thread.get();
    std::vector<Deed> all;
    for (const auto& worker : workers_) all.insert(all.end(), worker->deeds().begin(), worker->deeds().end());
    return all;
  }

 private:
  SharedState shared_;
  std::atomic<bool> over_ = false;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::future<void>> threads_;  // gone first: each waits for its end
};

class LongRun {
 public:
  explicit LongRun(const Options& options)
      : options_(options),
        dice_(options.seed),
        stage_({.seed = options.seed}),
        connection_(stage_.database().connect()) {}

  /// Prints what came of it; how many faults there were.
  std::size_t run() {
    Recorder recorder(connection_);
    std::vector<Deed> deeds = live();
    Audit audit(recorder.stop(), std::move(deeds));
    audit.judge_commits();
    audit.tell(stage_);
    stage_.run_out();
    return report(audit);
  }

 private:
  // What is not there at the start has nothing for the server's scanners to take: each runs once then.
  std::vector<Deed> live() {
    OwnServer server(options_.server, stage_.database().url() + "&application_name=" + kServerSessions);
    Replicas replicas(stage_.database().conninfo());
    Crowd crowd(stage_, dice_.next());
    const SteadyTime end = Clock::system().now() + options_.time;
    while (Clock::system().now() < end) {
      std::this_thread::sleep_for(Milliseconds{100 + dice_.below(1500)});
      if (dice_.chance(15))
        replicas.kill(dice_.below(kReplicas));
      else if (crowd.kill(dice_.below(kWorkers)))
        ++killed_workers_;
    }
    std::vector<Deed> deeds = crowd.stop();
    replicas.stop();
    killed_replicas_ = replicas.kills();
    daemon_errors_ = replicas.errors();
    if (!server.healthy() || server.stop() != 0)
      throw std::runtime_error("FlowFabric's server did not end well: " + server.log());
    wait_for_silence();
    return deeds;
  }

  // What a killed process has sent may still be under way.
  void wait_for_silence() {
    const bool silent = wait_until([&] {
      return connection_
          .execute(
              "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'worker-%'"
              " OR application_name IN ($1, $2)",
              pg::Params::of(kDaemonSessions, kServerSessions))
          .empty();
    });
    if (!silent) throw std::runtime_error("sessions of processes that have ended stay");
  }

  std::size_t report(const Audit& audit) {
    const Audit::Counts& counts = audit.counts();
    fmt::print("{} executions; {} workers and {} daemons killed, {} deeds done unheard\n",
               stage_.executions(), killed_workers_, killed_replicas_, counts.done_unheard);
    fmt::print("{} transactions of the daemon took {} leases and ended {} executions\n", counts.of_the_daemon,
               counts.leases_taken, counts.ended);
    fmt::print("workers ended {} executions twice all by themselves\n", counts.ended_twice_by_workers);
    for (const auto& [kind, number] : counts.refusals) fmt::print("refused {} times: {}\n", number, kind);

    std::vector<Verdict> faults = audit.verdicts();
    faults.insert(faults.end(), stage_.verdicts().begin(), stage_.verdicts().end());
    int shown = 0;
    for (const Verdict& fault : faults) {
      fmt::print("{}\n", to_text(fault));
      if (++shown <= kShownInFull) fmt::print("{}", audit.biography(fault.who));
    }
    for (const std::string& line : daemon_errors_) fmt::print("the daemon: {}\n", line);
    if (counts.by_the_server > 0)
      fmt::print("FlowFabric's scanners changed something {} times, slow as they are\n",
                 counts.by_the_server);
    const bool idle = counts.leases_taken == 0 || counts.ended == 0 || killed_workers_ == 0;
    if (idle) fmt::print("nothing happened that could go wrong\n");
    fmt::print("{} faults\n", faults.size());
    return faults.size() + daemon_errors_.size() + (counts.by_the_server > 0 ? 1 : 0) + (idle ? 1 : 0);
  }

  const Options options_;
  Dice dice_;
  Stage stage_;
  pg::Connection connection_;
  int killed_workers_ = 0;
  int killed_replicas_ = 0;
  std::vector<std::string> daemon_errors_;
};

Options options_of(int argc, char** argv) {
  if (argc < 2 || argc % 2 != 0)
    throw std::invalid_argument("usage: ff-long SERVER [--seconds N] [--seed N]");
  Options options{.server = argv[1], .seed = std::random_device()()};
  for (int i = 2; i < argc; i += 2) {
    const std::string name = argv[i];
    const std::uint64_t number = std::stoull(argv[i + 1]);
    if (name == "--seconds")
      options.time = Milliseconds{static_cast<std::int64_t>(number) * 1000};
    else if (name == "--seed")
      options.seed = number;
    else
      throw std::invalid_argument("there is no option " + name);
  }
  return options;
}

}  // namespace
}  // namespace ff::test

int main(int argc, char** argv) {
  using namespace ff::test;
  std::signal(SIGPIPE, SIG_IGN);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    const Options options = options_of(argc, argv);
    // Not among the databases of the tests: a run that is killed leaves its triggers behind.
    ::setenv("FF_FLOWFABRIC_CLUSTERS", FF_SOURCE_DIRECTORY "/build/conformance/long", 0);
    fmt::print("seed {}\n", options.seed);
    return LongRun(options).run() == 0 ? 0 : 1;
  } catch (const std::invalid_argument& error) {
    std::cerr << "ff-long: " << error.what() << '\n';
    return 64;
  } catch (const std::exception& error) {
    std::cerr << "ff-long: " << error.what() << '\n';
    return 70;
  }
}
